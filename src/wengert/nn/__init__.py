"""Networks: modules, layers, losses and initialisers, with PyTorch's names and shapes.

>>> import numpy as np
>>> from wengert import nn
>>> model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
>>> loss = nn.mse_loss(model(np.ones((4, 2), np.float32)), np.zeros((4, 1), np.float32))
>>> loss.backward()
>>> model[0].weight.grad.shape
(8, 2)
"""

from typing import TYPE_CHECKING

from ..lazily import by_name
from . import functional, init
from .module import *  # noqa: F403
from .seeding import *  # noqa: F403

if TYPE_CHECKING:  # these are imported on first use, see below
    from .activations import *  # noqa: F403
    from .attention import *  # noqa: F403
    from .containers import *  # noqa: F403
    from .convolution import *  # noqa: F403
    from .folding import *  # noqa: F403
    from .functional.ctc import *  # noqa: F403
    from .functional.losses import *  # noqa: F403
    from .functional.margins import *  # noqa: F403
    from .linear import *  # noqa: F403
    from .losses import *  # noqa: F403
    from .normalization import *  # noqa: F403
    from .pooling import *  # noqa: F403
    from .recurrent import *  # noqa: F403
    from .transformer import *  # noqa: F403

_FILES = {
    "activations": (
        "CELU ELU GELU GLU SELU AlphaDropout Dropout Dropout1d Dropout2d Dropout3d "
        "FeatureAlphaDropout Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
        "LogSoftmax Mish PReLU RReLU ReLU ReLU6 SiLU Sigmoid Softmax Softmax2d Softmin Softplus "
        "Softshrink Softsign Tanh Tanhshrink Threshold"
    ),
    "attention": "MultiHeadAttention MultiheadAttention",
    "containers": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "folding": (
        "ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d "
        "ConstantPad3d Fold PixelShuffle PixelUnshuffle ReflectionPad1d ReflectionPad2d "
        "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d Unfold ZeroPad1d "
        "ZeroPad2d ZeroPad3d"
    ),
    "linear": "Bilinear Embedding EmbeddingBag Flatten Identity Linear Unflatten",
    "losses": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss "
        "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss "
        "MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss PairwiseDistance "
        "PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss"
    ),
    "module": "Module Parameter",
    "normalization": (
        "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d "
        "InstanceNorm3d LayerNorm LocalResponseNorm RMSNorm"
    ),
    "pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d "
        "LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Upsample "
        "UpsamplingBilinear2d UpsamplingNearest2d"
    ),
    "recurrent": "GRU LSTM RNN GRUCell LSTMCell RNNCell",
    "seeding": "fork_rng get_rng_state manual_seed next_key set_rng_state",
    "transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer"
    ),
    "functional.ctc": "ctc_loss",
    "functional.losses": (
        "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy gaussian_nll_loss "
        "huber_loss kl_div l1_loss mse_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss "
        "smooth_l1_loss soft_margin_loss"
    ),
    "functional.margins": (
        "cosine_embedding_loss cosine_similarity hinge_embedding_loss margin_ranking_loss "
        "multi_margin_loss multilabel_margin_loss pairwise_distance triplet_margin_loss "
        "triplet_margin_with_distance_loss"
    ),
}
_NAMES = by_name(__name__, _FILES)
__all__ = ["functional", "init", *_NAMES]
