"""What functions and layers refuse, and in which words."""

import numpy as np
import pytest

from wengert import nn
from wengert.nn import functional as f

ONES = np.ones
CLASSES = np.zeros(2, int)

REFUSED = [
    (
        lambda: f.embedding_bag(CLASSES, ONES((3, 2))),
        "got input of shape (2,) and no offsets. Give a matrix with a row for each bag, or a "
        "vector and offsets.",
    ),
    (
        lambda: f.embedding_bag(CLASSES[None], ONES((3, 2)), mode="least"),
        "got mode='least'. Use sum, mean or max.",
    ),
    (
        lambda: f.embedding_bag(CLASSES[None], ONES((3, 2)), per_sample_weights=ONES((1, 2))),
        "got per_sample_weights and mode='mean'. Weights are for mode='sum'.",
    ),
    (
        lambda: f.prelu(ONES((2, 3)), ONES(2)),
        "got input of shape (2, 3) and weight of shape (2,). Give one slope, or one for each "
        "channel in axis 1.",
    ),
    (
        lambda: f.glu(ONES(3)),
        "got input of shape (3,) and dim=-1. The axis is split in two halves: its length must be "
        "even.",
    ),
    (
        lambda: f.softmax2d(ONES((2, 3))),
        "got input of shape (2, 3), expected 4 axes, or 3 without samples.",
    ),
    (
        lambda: f.dropout2d(ONES((2, 3))),
        "got input of shape (2, 3), expected 4 axes, or 3 without samples.",
    ),
    (
        lambda: f.alpha_dropout(ONES(2), 1.5),
        "got p=1.5. It is a probability, between 0 and 1.",
    ),
    (
        lambda: f.rms_norm(ONES((2, 3)), (2,)),
        "got input of shape (2, 3) and normalized_shape=(2,). The input must end in the "
        "normalized shape.",
    ),
    (
        lambda: f.group_norm(ONES((2, 3)), 2),
        "got input of shape (2, 3) and num_groups=2. The channels in axis 1 must be a multiple of "
        "the groups.",
    ),
    (
        lambda: nn.GroupNorm(2, 3),
        "got num_groups=2 and num_channels=3. The channels must be a multiple of the groups.",
    ),
    (
        lambda: f.instance_norm(ONES((2, 3, 1))),
        "got input of shape (2, 3, 1): one value for each channel has no variance. Give an input "
        "with more than one element of space.",
    ),
    (
        lambda: nn.InstanceNorm1d(4)(ONES((2, 3, 5))),
        "got input of shape (2, 3, 5), expected 3 axes, or 2 without samples, and 4 channels.",
    ),
    (
        lambda: f.local_response_norm(ONES((2, 3)), 2),
        "got input of shape (2, 3), expected (samples, channels, space).",
    ),
    (
        lambda: f.max_unpool1d(ONES((1, 2)), CLASSES, 2),
        "got input of shape (1, 2), indices of shape (2,) and output_size=None. Give the indices "
        "of max_pool1d, of the same shape, and an output_size within a stride of (4,).",
    ),
    (
        lambda: f.max_unpool1d(ONES((1, 2)), CLASSES[None], 2, output_size=(9,)),
        "got input of shape (1, 2), indices of shape (1, 2) and output_size=(9,). Give the "
        "indices of max_pool1d, of the same shape, and an output_size within a stride of (4,).",
    ),
    (
        lambda: f.adaptive_avg_pool2d(ONES((1, 4, 4)), (2, 2, 2)),
        "got input of shape (1, 4, 4) and output_size=(2, 2, 2), expected 4 axes, or 3 without "
        "samples, and an integer or 2 of them.",
    ),
    (
        lambda: f.interpolate(ONES((1, 1, 4)), 8, mode="bilinear"),
        "got input of shape (1, 1, 4) for mode='bilinear', expected (samples, channels) and 2 "
        "axes of space.",
    ),
    (
        lambda: f.interpolate(ONES((1, 1, 4)), 8, align_corners=True),
        "got align_corners=True for mode='nearest'. It is for linear, bilinear, bicubic, "
        "trilinear.",
    ),
    (
        lambda: f.interpolate(ONES((1, 1, 4)), 8, mode="linear", antialias=True),
        "got antialias=True for mode='linear'. Use bilinear or bicubic.",
    ),
    (lambda: f.interpolate(ONES((1, 1, 4))), "got size=None and scale_factor=None. Give one."),
    (
        lambda: f.interpolate(ONES((1, 1, 4)), (8, 8)),
        "got (8, 8) for 1 axes of space. Give one for each.",
    ),
    (
        lambda: f.unfold(ONES((4, 4)), 2),
        "got input of shape (4, 4), expected (samples, channels, height, width).",
    ),
    (
        lambda: f.unfold(ONES((1, 4, 4)), 5),
        "a patch that spans (5, 5) does not fit into the padded shape (1, 1, 4, 4). Make the "
        "patch or its dilation smaller, or the padding larger.",
    ),
    (
        lambda: f.fold(ONES((4, 3)), (2, 3), 2),
        "got input of shape (4, 3), expected (samples, channels * 4, 2) for output_size=(2, 3) "
        "and kernel_size=(2, 2).",
    ),
    (
        lambda: f.pixel_shuffle(ONES((3, 2, 2)), 2),
        "got input of shape (3, 2, 2): 3 channels are no multiple of 4.",
    ),
    (
        lambda: f.pad(ONES(3), (1, 2, 3)),
        "got pad=(1, 2, 3) for input of shape (3,). Give two widths for each of the last axes, "
        "the last one first.",
    ),
    (
        lambda: f.gather(ONES((2, 3)), 1, CLASSES),
        "got input of shape (2, 3), dim=1 and index of shape (2,). Give an index with as many "
        "axes as the input, and one of its axes.",
    ),
    (
        lambda: f.scatter(ONES((2, 3)), 1, np.zeros((3, 1), int), ONES((3, 1))),
        "got input of shape (2, 3), index of shape (3, 1) and src of shape (3, 1). Except along "
        "dim=1 of the input, the index must not be larger.",
    ),
    (
        lambda: f.bilinear(ONES(2), ONES(3), ONES((1, 3, 2))),
        "got inputs of shapes (2,) and (3,) and weight of shape (1, 3, 2). Their last axes must "
        "have the features of the weight.",
    ),
    (
        lambda: f.gaussian_nll_loss(ONES((2, 3)), ONES((2, 3)), ONES(3)),
        "got input of shape (2, 3) and var of shape (3,). Give a variance for each element, or "
        "one for each row.",
    ),
    (lambda: f.multi_margin_loss(ONES((2, 3)), CLASSES, p=3), "got p=3, expected 1 or 2."),
    (
        lambda: f.multilabel_margin_loss(ONES(3), ONES(3)),
        "got target of dtype float64, expected integers.",
    ),
    (
        lambda: f.ctc_loss(ONES((4, 2, 3)), ONES((3, 1), int), CLASSES, CLASSES),
        "got log_probs of shape (4, 2, 3), targets of 3 samples, input_lengths of shape (2,) and "
        "target_lengths of shape (2,). Give (times, samples, classes), and targets and both "
        "lengths of each sample.",
    ),
    (
        lambda: nn.ConvTranspose1d(1, 1, 2, stride=2)(ONES((1, 1, 3)), output_size=(9,)),
        "got output_size=(9,), expected sizes from [6] to [7].",
    ),
    (
        lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh"),
        'got activation=\'tanh\'. Use "relu", "gelu" or a function.',
    ),
    (
        lambda: nn.ModuleDict({"forward": nn.ReLU()}),
        "got 'forward' as a key, which is an attribute of every module. Use another key.",
    ),
]


@pytest.mark.parametrize("make, words", REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_refused(make, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert str(caught.value).partition("): ")[2] == words


def test_an_index_beyond_the_array():
    for function in (f.gather, f.scatter_add):
        more = [] if function is f.gather else [ONES((1, 1))]
        with pytest.raises(IndexError):
            function(ONES((2, 3)), 1, np.array([[3]]), *more)


def test_layers_take_no_other_arguments():
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        nn.LeakyReLU(slope=0.1)
