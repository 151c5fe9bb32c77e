"""What the layers compute, as plain functions: names, arguments and shapes are PyTorch's.

>>> import numpy as np
>>> from wengert.nn import functional as F
>>> F.relu(F.linear(np.ones((1, 3)), np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 0.0]])))
array([[6., 0.]])
"""

from typing import TYPE_CHECKING

from ...lazily import by_name

# these are called what a function in them is called, so they cannot wait for that name
from .dropout import *  # noqa: F403
from .linear import *  # noqa: F403

if TYPE_CHECKING:  # these are imported on first use, see below
    from .activations import *  # noqa: F403
    from .attention import *  # noqa: F403
    from .convolution import *  # noqa: F403
    from .ctc import *  # noqa: F403
    from .folding import *  # noqa: F403
    from .indexing import *  # noqa: F403
    from .losses import *  # noqa: F403
    from .margins import *  # noqa: F403
    from .normalization import *  # noqa: F403
    from .pooling import *  # noqa: F403
    from .resampling import *  # noqa: F403

_FILES = {
    "activations": (
        "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu log_softmax "
        "logsigmoid mish normalize prelu relu relu6 rrelu selu sigmoid silu softmax softmax2d "
        "softmin softplus softshrink softsign tanh tanhshrink threshold"
    ),
    "attention": "scaled_dot_product_attention",
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "ctc": "ctc_loss",
    "dropout": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
    "folding": "channel_shuffle fold pad pixel_shuffle pixel_unshuffle unfold",
    "indexing": (
        "gather index_add index_copy index_select scatter scatter_add scatter_reduce take_along_dim"
    ),
    "linear": "bilinear embedding embedding_bag linear one_hot",
    "losses": (
        "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy gaussian_nll_loss "
        "huber_loss kl_div l1_loss mse_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss "
        "smooth_l1_loss soft_margin_loss"
    ),
    "margins": (
        "cosine_embedding_loss cosine_similarity hinge_embedding_loss margin_ranking_loss "
        "multi_margin_loss multilabel_margin_loss pairwise_distance triplet_margin_loss "
        "triplet_margin_with_distance_loss"
    ),
    "normalization": "batch_norm group_norm instance_norm layer_norm local_response_norm rms_norm",
    "pooling": (
        "avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool2d "
        "max_pool3d max_unpool1d max_unpool2d max_unpool3d"
    ),
    "resampling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d interpolate"
    ),
}
_NAMES = by_name(__name__, _FILES)
__all__ = [*_NAMES]
