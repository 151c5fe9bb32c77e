"""Layers, losses and functions with arguments, for the tests that go through all of them."""

import numpy as np

from wengert import nn

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def signs(*shape):
    return RNG.choice([-1, 1], shape)


SERIES, IMAGE, VOLUME = (2, 4, 11), (2, 4, 9, 8), (2, 4, 5, 4, 6)

# class, arguments, keywords, shapes of the inputs
LAYERS = [
    ("Linear", (5, 3), {}, [(4, 5)]),
    ("Linear", (5, 3), {"bias": False}, [(2, 4, 5)]),
    ("Linear", (5, 3), {}, [(5,)]),
    ("Conv1d", (4, 6, 3), {}, [SERIES]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}, [SERIES]),
    ("Conv1d", (4, 6, 4), {"padding": "same", "padding_mode": "circular"}, [SERIES]),
    ("Conv2d", (4, 6, 3), {}, [IMAGE]),
    ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "bias": False}, [IMAGE]),
    ("Conv2d", (4, 8, 3), {"groups": 4, "dilation": 2, "padding": "same"}, [IMAGE]),
    ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "reflect"}, [IMAGE]),
    ("Conv2d", (4, 6, 3), {"padding": 1, "padding_mode": "replicate"}, [IMAGE]),
    ("Conv2d", (4, 6, 3), {"padding": 1}, [IMAGE[1:]]),
    ("ConvTranspose2d", (4, 6, 3), {}, [IMAGE]),
    (
        "ConvTranspose2d",
        (4, 6, 3),
        {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 2},
        [IMAGE],
    ),
    ("ConvTranspose2d", (4, 6, (2, 3)), {"stride": (3, 2), "bias": False}, [IMAGE[1:]]),
    ("MaxPool1d", (3,), {"ceil_mode": True, "padding": 1}, [SERIES]),
    ("MaxPool2d", (2,), {}, [IMAGE]),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, [IMAGE]),
    ("MaxPool2d", ((2, 3),), {"stride": (1, 2), "dilation": (2, 1)}, [IMAGE[1:]]),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1}, [SERIES]),
    ("AvgPool2d", (2,), {}, [IMAGE]),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, [IMAGE]),
    ("AvgPool2d", (3,), {"padding": 1, "ceil_mode": True, "count_include_pad": False}, [IMAGE]),
    ("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False}, [IMAGE[1:]]),
    ("AvgPool2d", (2,), {"divisor_override": 3}, [IMAGE]),
    ("Flatten", (), {}, [IMAGE]),
    ("Flatten", (0, 2), {}, [IMAGE]),
    ("Identity", (), {}, [IMAGE]),
    ("ReLU", (), {}, [IMAGE]),
    ("LeakyReLU", (0.2,), {}, [IMAGE]),
    ("Tanh", (), {}, [IMAGE]),
    ("Sigmoid", (), {}, [IMAGE]),
    ("GELU", (), {}, [IMAGE]),
    ("GELU", (), {"approximate": "tanh"}, [IMAGE]),
    ("SiLU", (), {}, [IMAGE]),
    ("Softplus", (), {}, [IMAGE]),
    ("Softmax", (1,), {}, [IMAGE]),
    ("Softmax", (-1,), {}, [(3, 7)]),
    ("LogSoftmax", (0,), {}, [(3, 7)]),
    ("Dropout", (0.0,), {}, [(3, 7)]),
    ("Dropout", (1.0,), {}, [(3, 7)]),
    ("BatchNorm1d", (4,), {}, [(6, 4)]),
    ("BatchNorm1d", (4,), {"momentum": None}, [SERIES]),
    ("BatchNorm1d", (4,), {"affine": False, "track_running_stats": False}, [SERIES]),
    ("BatchNorm2d", (4,), {"momentum": 0.3, "eps": 1e-3}, [IMAGE]),
    ("BatchNorm2d", (4,), {"affine": False}, [IMAGE]),
    ("LayerNorm", (8,), {}, [IMAGE]),
    ("LayerNorm", ((9, 8),), {"bias": False, "eps": 1e-3}, [IMAGE]),
    ("LayerNorm", (8,), {"elementwise_affine": False}, [IMAGE]),
    ("MultiheadAttention", (8, 2), {}, [(5, 3, 8), (6, 3, 8), (6, 3, 8)]),
    ("MultiheadAttention", (8, 4), {"batch_first": True}, [(3, 5, 8)] * 3),
    ("MultiheadAttention", (8, 2), {"bias": False}, [(5, 8), (6, 8), (6, 8)]),
    (
        "MultiheadAttention",
        (8, 2),
        {"kdim": 5, "vdim": 6, "batch_first": True, "add_bias_kv": True, "add_zero_attn": True},
        [(3, 5, 8), (3, 6, 5), (3, 6, 6)],
    ),
    ("Bilinear", (5, 3, 4), {}, [(4, 5), (4, 3)]),
    ("Unflatten", (1, (2, 2)), {}, [IMAGE]),
    ("Conv3d", (4, 6, 3), {}, [VOLUME]),
    ("Conv3d", (4, 6, (1, 2, 3)), {"stride": (1, 2, 1), "padding": 1, "groups": 2}, [VOLUME]),
    ("ConvTranspose1d", (4, 6, 3), {}, [SERIES]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1, "groups": 2}, [SERIES]),
    ("ConvTranspose3d", (4, 6, 2), {"stride": 2, "padding": 1}, [VOLUME]),
    ("ConvTranspose3d", (4, 6, (2, 1, 3)), {"bias": False, "dilation": (1, 1, 2)}, [VOLUME]),
    ("MaxPool3d", (2,), {}, [VOLUME]),
    ("MaxPool3d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, [VOLUME]),
    ("AvgPool3d", (2,), {}, [VOLUME]),
    ("AvgPool3d", ((2, 3, 2),), {"stride": 1, "padding": 1, "count_include_pad": False}, [VOLUME]),
    ("LPPool1d", (2, 3), {"stride": 2}, [SERIES]),
    ("LPPool2d", (2, 2), {}, [IMAGE]),
    ("LPPool3d", (2, 2), {"ceil_mode": True}, [VOLUME]),
    ("AdaptiveAvgPool1d", (4,), {}, [SERIES]),
    ("AdaptiveAvgPool2d", ((3, 4),), {}, [IMAGE]),
    ("AdaptiveAvgPool2d", ((5, None),), {}, [IMAGE]),
    ("AdaptiveAvgPool2d", (1,), {}, [IMAGE[1:]]),
    ("AdaptiveAvgPool2d", ((11, 3),), {}, [IMAGE]),
    ("AdaptiveAvgPool3d", ((2, 3, 4),), {}, [VOLUME]),
    ("AdaptiveMaxPool1d", (4,), {}, [SERIES]),
    ("AdaptiveMaxPool2d", ((3, 4),), {}, [IMAGE]),
    ("AdaptiveMaxPool2d", ((5, 3),), {}, [IMAGE]),
    ("AdaptiveMaxPool3d", ((2, 3, 4),), {}, [VOLUME]),
    ("Upsample", ((5, 11),), {}, [IMAGE]),
    ("Upsample", (), {"scale_factor": 2}, [SERIES]),
    ("Upsample", (), {"scale_factor": 1.3, "mode": "nearest-exact"}, [IMAGE]),
    ("Upsample", (7,), {"mode": "linear"}, [SERIES]),
    ("Upsample", (17,), {"mode": "linear", "align_corners": True}, [SERIES]),
    ("Upsample", (), {"scale_factor": 1.7, "mode": "bilinear"}, [IMAGE]),
    ("Upsample", ((5, 20),), {"mode": "bilinear", "align_corners": True}, [IMAGE]),
    (
        "Upsample",
        (),
        {"scale_factor": (0.6, 1.7), "mode": "bilinear", "recompute_scale_factor": True},
        [IMAGE],
    ),
    ("Upsample", ((5, 20),), {"mode": "bicubic"}, [IMAGE]),
    ("Upsample", (), {"scale_factor": 2, "mode": "bicubic", "align_corners": True}, [IMAGE]),
    ("Upsample", ((3, 4, 9),), {"mode": "trilinear"}, [VOLUME]),
    ("Upsample", (8,), {"mode": "trilinear", "align_corners": True}, [VOLUME]),
    ("Upsample", ((4, 5),), {"mode": "area"}, [IMAGE]),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, [IMAGE]),
    ("UpsamplingBilinear2d", ((12, 10),), {}, [IMAGE]),
    ("Unfold", (3,), {}, [IMAGE]),
    ("Unfold", ((2, 3),), {"dilation": 2, "padding": 1, "stride": (2, 1)}, [IMAGE]),
    ("Fold", ((9, 8), 3), {}, [(2, 36, 42)]),
    ("Fold", ((9, 8), (2, 3)), {"dilation": 2, "padding": 1, "stride": (2, 1)}, [(2, 24, 30)]),
    ("PixelShuffle", (2,), {}, [(2, 8, 3, 5)]),
    ("PixelUnshuffle", (2,), {}, [(2, 3, 4, 6)]),
    ("ChannelShuffle", (2,), {}, [IMAGE]),
    *(
        (f"{kind}Pad{rank}d", arguments, {}, [shape])
        for kind, value in (
            ("Constant", (1.5,)),
            ("Zero", ()),
            ("Reflection", ()),
            ("Replication", ()),
            ("Circular", ()),
        )
        for rank, shape, arguments in (
            (1, SERIES, ((2, 1), *value)),
            (2, IMAGE, (1, *value)),
            (3, VOLUME, ((1, 2, 0, 1, 1, 0), *value)),
        )
    ),
    ("ReLU6", (), {}, [IMAGE]),
    ("RReLU", (0.2, 0.2), {}, [IMAGE]),
    ("PReLU", (), {}, [IMAGE]),
    ("PReLU", (4,), {"init": 0.1}, [IMAGE]),
    ("ELU", (), {}, [IMAGE]),
    ("ELU", (0.7,), {}, [IMAGE]),
    ("CELU", (0.7,), {}, [IMAGE]),
    ("SELU", (), {}, [IMAGE]),
    ("GLU", (2,), {}, [(2, 3, 4)]),
    ("Mish", (), {}, [IMAGE]),
    ("LogSigmoid", (), {}, [IMAGE]),
    ("Softplus", (2.0, 0.5), {}, [IMAGE]),
    ("Softsign", (), {}, [IMAGE]),
    ("Tanhshrink", (), {}, [IMAGE]),
    ("Softshrink", (0.3,), {}, [IMAGE]),
    ("Hardshrink", (0.3,), {}, [IMAGE]),
    ("Hardtanh", (-0.5, 0.7), {}, [IMAGE]),
    ("Hardsigmoid", (), {}, [IMAGE]),
    ("Hardswish", (), {}, [IMAGE]),
    ("Threshold", (0.3, -2.0), {}, [IMAGE]),
    ("Softmax2d", (), {}, [IMAGE]),
    ("Softmin", (1,), {}, [(3, 7)]),
    ("Dropout1d", (0.0,), {}, [SERIES]),
    ("Dropout2d", (0.0,), {}, [IMAGE]),
    ("Dropout3d", (1.0,), {}, [VOLUME]),
    ("AlphaDropout", (0.0,), {}, [(3, 7)]),
    ("FeatureAlphaDropout", (0.0,), {}, [IMAGE]),
    ("BatchNorm3d", (4,), {}, [VOLUME]),
    ("RMSNorm", (8,), {}, [IMAGE]),
    ("RMSNorm", ((9, 8),), {"eps": 1e-2, "elementwise_affine": False}, [IMAGE]),
    ("GroupNorm", (2, 4), {}, [IMAGE]),
    ("GroupNorm", (2, 4), {"affine": False, "eps": 1e-2}, [(6, 4)]),
    ("InstanceNorm1d", (4,), {}, [SERIES]),
    ("InstanceNorm1d", (4,), {"affine": True, "track_running_stats": True}, [SERIES]),
    ("InstanceNorm2d", (4,), {"affine": True}, [IMAGE]),
    ("InstanceNorm2d", (4,), {"track_running_stats": True, "momentum": 0.3}, [IMAGE[1:]]),
    ("InstanceNorm3d", (4,), {"affine": True, "track_running_stats": True}, [VOLUME]),
    ("LocalResponseNorm", (3,), {"alpha": 0.1, "beta": 0.6, "k": 2.0}, [IMAGE]),
    ("LocalResponseNorm", (2,), {"alpha": 0.1}, [SERIES]),
    ("CosineSimilarity", (), {}, [(5, 4), (5, 4)]),
    ("CosineSimilarity", (2,), {"eps": 1e-6}, [SERIES, SERIES]),
    ("PairwiseDistance", (), {}, [(5, 4), (5, 4)]),
    ("PairwiseDistance", (1.0,), {"keepdim": True}, [(5, 4), (5, 4)]),
    ("TransformerEncoderLayer", (8, 2, 6, 0.0), {}, [(5, 3, 8)]),
    (
        "TransformerEncoderLayer",
        (8, 2, 6, 0.0, "gelu"),
        {"batch_first": True, "norm_first": True, "bias": False},
        [(3, 5, 8)],
    ),
    ("TransformerDecoderLayer", (8, 2, 6, 0.0), {}, [(5, 3, 8), (4, 3, 8)]),
    (
        "TransformerDecoderLayer",
        (8, 4, 6, 0.0, "gelu"),
        {"batch_first": True, "norm_first": True},
        [(3, 5, 8), (3, 4, 8)],
    ),
    ("Transformer", (8, 2, 2, 1, 6, 0.0), {}, [(5, 3, 8), (4, 3, 8)]),
]

X, Y, Z = floats(6, 4), floats(6, 4), floats(6, 4)
UNIT = RNG.uniform(0.05, 0.95, (6, 4)).astype(np.float32)
PROBABILITIES = (UNIT / UNIT.sum(1, keepdims=True)).astype(np.float32)
CLASSES, FEW = RNG.integers(0, 4, 6), np.array([1, -100, 0, 3, -100, 2])
WEIGHT = np.abs(floats(4))
COUNTS = RNG.integers(0, 6, (6, 4)).astype(np.float32)
POSITIVE = np.abs(floats(6, 4)) + 0.1
LABELS = np.array([[3, 0, -1, 1], [1, -1, 0, 0], [-1, 0, 1, 2], [0, 1, 2, 3], [2, 1, -1, -1]])

# class, keywords, inputs, and the number of the first ones that have derivatives
LOSSES = [
    ("L1Loss", {}, (X, Y), 2),
    ("MSELoss", {}, (X, Y), 2),
    ("SmoothL1Loss", {"beta": 0.4}, (X, Y), 2),
    ("HuberLoss", {"delta": 0.4}, (X, Y), 2),
    ("CrossEntropyLoss", {}, (X, CLASSES), 1),
    ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.2}, (X, FEW), 1),
    ("CrossEntropyLoss", {"ignore_index": 2, "label_smoothing": 0.1}, (X, CLASSES), 1),
    ("CrossEntropyLoss", {"weight": WEIGHT}, (X, PROBABILITIES), 2),
    ("NLLLoss", {"weight": WEIGHT, "ignore_index": 1}, (X, CLASSES), 1),
    ("BCELoss", {"weight": WEIGHT}, (UNIT, UNIT[::-1].copy()), 1),
    ("BCEWithLogitsLoss", {"weight": WEIGHT, "pos_weight": WEIGHT[::-1].copy()}, (X, UNIT), 1),
    ("KLDivLoss", {}, (X, PROBABILITIES), 2),
    ("KLDivLoss", {}, (X, np.where(UNIT < 0.4, 0, UNIT)), 1),
    ("KLDivLoss", {"log_target": True}, (X, Y), 2),
    ("PoissonNLLLoss", {}, (X, COUNTS), 1),
    ("PoissonNLLLoss", {"full": True}, (X, COUNTS), 1),
    ("PoissonNLLLoss", {"log_input": False, "eps": 1e-3}, (POSITIVE, COUNTS), 1),
    ("GaussianNLLLoss", {}, (X, Y, POSITIVE), 3),
    ("GaussianNLLLoss", {"full": True, "eps": 0.5}, (X, Y, POSITIVE[:, :1]), 3),
    ("GaussianNLLLoss", {"eps": 0.5}, (X, Y, POSITIVE[:, 0].copy()), 3),
    ("HingeEmbeddingLoss", {"margin": 0.7}, (X, signs(6, 4)), 1),
    ("MarginRankingLoss", {"margin": 0.3}, (X[0], Y[0], signs(4)), 2),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (X, Y, signs(6)), 2),
    ("TripletMarginLoss", {}, (X, Y, Z), 3),
    ("TripletMarginLoss", {"margin": 2.0, "p": 1.0, "swap": True}, (X, Y, Z), 3),
    ("TripletMarginWithDistanceLoss", {"margin": 2.0, "swap": True}, (X, Y, Z), 3),
    ("MultiMarginLoss", {}, (X, CLASSES), 1),
    ("MultiMarginLoss", {"p": 2, "margin": 0.5, "weight": WEIGHT}, (X, CLASSES), 1),
    ("MultiLabelMarginLoss", {}, (X[:5], LABELS), 1),
    ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, (X, UNIT), 1),
    ("SoftMarginLoss", {}, (X, signs(6, 4).astype(np.float32)), 1),
]

# ---------------------------------------------------------------- what needs more than shapes

SEQUENCE, STEP = floats(5, 3, 4), floats(3, 4)
ENCODER = nn.TransformerEncoderLayer(8, 2, 6)
DECODER = nn.TransformerDecoderLayer(8, 2, 6)
TIMES = (floats(6, 2, 4), np.array([[1, 2], [3, 3]]), np.array([6, 5]), np.array([2, 1]))


def unpooled(rank):
    x = floats(2, 3, *(4,) * rank)
    return list(getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x))


# the layer and its inputs
OTHERS = {
    "CTCLoss": (nn.CTCLoss(), TIMES),
    "Embedding": (nn.Embedding(6, 3), [np.array([[2, 0, 5]])]),
    "EmbeddingBag": (nn.EmbeddingBag(6, 3), [np.array([[2, 0, 5]])]),
    "GRU": (nn.GRU(4, 3), [SEQUENCE]),
    "GRUCell": (nn.GRUCell(4, 3), [STEP]),
    "LSTM": (nn.LSTM(4, 3), [SEQUENCE]),
    "LSTMCell": (nn.LSTMCell(4, 3), [STEP]),
    "MaxUnpool1d": (nn.MaxUnpool1d(2), unpooled(1)),
    "MaxUnpool2d": (nn.MaxUnpool2d(2), unpooled(2)),
    "MaxUnpool3d": (nn.MaxUnpool3d(2), unpooled(3)),
    "RNN": (nn.RNN(4, 3), [SEQUENCE]),
    "RNNCell": (nn.RNNCell(4, 3), [STEP]),
    "TransformerDecoder": (nn.TransformerDecoder(DECODER, 2), [floats(5, 3, 8), floats(4, 3, 8)]),
    "TransformerEncoder": (nn.TransformerEncoder(ENCODER, 2), [floats(5, 3, 8)]),
}

# ---------------------------------------------------------------- functions

ROW, TABLE, SOURCE = np.array([2, 0, 1]), floats(3, 4), floats(3, 4)
PLACES = np.array([[0, 2, 1, 1]])
A_SERIES, AN_IMAGE, A_VOLUME = floats(2, 4, 8), floats(2, 4, 8, 6), floats(2, 4, 4, 6, 4)

ELEMENTWISE = """
    alpha_dropout celu dropout elu feature_alpha_dropout gelu hardshrink hardsigmoid hardswish
    hardtanh leaky_relu log_softmax logsigmoid mish relu relu6 rrelu selu sigmoid silu softmax
    softmin softplus softshrink softsign tanh tanhshrink
"""
BY_RANK = {
    "adaptive_avg_pool": (3,),
    "adaptive_max_pool": (3,),
    "avg_pool": (2,),
    "conv": (None,),
    "conv_transpose": (None,),
    "dropout": (),
    "lp_pool": (2, 2),
    "max_pool": (2,),
}


def by_rank():
    for rank, x in enumerate((A_SERIES, AN_IMAGE, A_VOLUME), start=1):
        for name, args in BY_RANK.items():
            kernel = (floats(4, 4, *(2,) * rank),)
            yield f"{name}{rank}d", (x, *(kernel if args == (None,) else args))
        yield f"max_unpool{rank}d", (*unpooled(rank), 2)


# the arguments; arrays of floats have derivatives
FUNCTIONS = {
    **dict.fromkeys(ELEMENTWISE.split(), (X,)),
    **dict(by_rank()),
    "batch_norm": (AN_IMAGE, None, None),
    "bilinear": (X, X, floats(2, 4, 4)),
    "binary_cross_entropy": (UNIT, UNIT),
    "binary_cross_entropy_with_logits": (X, UNIT),
    "channel_shuffle": (AN_IMAGE, 2),
    "cosine_embedding_loss": (X, Y, signs(6)),
    "cosine_similarity": (X, Y),
    "cross_entropy": (X, CLASSES),
    "ctc_loss": TIMES,
    "embedding": (ROW, TABLE),
    "embedding_bag": (ROW, TABLE, np.array([0, 2])),
    "fold": (floats(2, 8, 12), (4, 5), 2),
    "gather": (TABLE, 0, PLACES),
    "gaussian_nll_loss": (X, Y, POSITIVE),
    "glu": (X,),
    "group_norm": (AN_IMAGE, 2),
    "hinge_embedding_loss": (X, signs(6, 4)),
    "huber_loss": (X, Y),
    "index_add": (TABLE, 0, ROW, SOURCE),
    "index_copy": (TABLE, 0, ROW, SOURCE),
    "index_select": (TABLE, 0, ROW),
    "instance_norm": (AN_IMAGE,),
    "interpolate": (AN_IMAGE, (5, 7), None, "bicubic"),
    "kl_div": (X, PROBABILITIES),
    "l1_loss": (X, Y),
    "layer_norm": (X, (4,)),
    "linear": (X, floats(2, 4), floats(2)),
    "local_response_norm": (AN_IMAGE, 2),
    "margin_ranking_loss": (X, Y, signs(6, 4)),
    "mse_loss": (X, Y),
    "multi_margin_loss": (X, CLASSES),
    "multilabel_margin_loss": (X[:5], LABELS),
    "multilabel_soft_margin_loss": (X, UNIT),
    "nll_loss": (X, CLASSES),
    "normalize": (X,),
    "one_hot": (CLASSES, 4),
    "pad": (X, (1, 2), "reflect"),
    "pairwise_distance": (X, Y),
    "pixel_shuffle": (AN_IMAGE, 2),
    "pixel_unshuffle": (AN_IMAGE, 2),
    "poisson_nll_loss": (X, COUNTS),
    "prelu": (AN_IMAGE, floats(4)),
    "rms_norm": (X, (4,)),
    "scaled_dot_product_attention": (floats(2, 5, 4), floats(2, 6, 4), floats(2, 6, 3)),
    "scatter": (TABLE, 0, PLACES, SOURCE),
    "scatter_add": (TABLE, 0, PLACES, SOURCE),
    "scatter_reduce": (TABLE, 0, PLACES, SOURCE, "amax"),
    "smooth_l1_loss": (X, Y),
    "soft_margin_loss": (X, signs(6, 4)),
    "softmax2d": (AN_IMAGE,),
    "take_along_dim": (TABLE, PLACES, 0),
    "threshold": (X, 0.1, 2.0),
    "triplet_margin_loss": (X, Y, Z),
    "triplet_margin_with_distance_loss": (X, Y, Z),
    "unfold": (AN_IMAGE, 2),
}
