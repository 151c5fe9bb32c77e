"""autograd's convolution of some axes, with products of others summed, as one `einsum`."""

import string

import wengert.numpy as np


def convolve(A, B, axes=None, dot_axes=((), ()), mode="full"):
    axes = [range(np.ndim(A)), range(np.ndim(B))] if axes is None else axes
    (a_axes, b_axes), (a_dot, b_dot) = ([list(one) for one in pair] for pair in (axes, dot_axes))
    sizes = [(np.shape(A)[i], np.shape(B)[j]) for i, j in zip(a_axes, b_axes)]
    if mode == "valid" and any(a < b for a, b in sizes):
        swapped = convolve(B, A, (b_axes, a_axes), (b_dot, a_dot), mode)
        kept = [
            np.ndim(x) - len(own) - len(dot)
            for x, own, dot in ((B, b_axes, b_dot), (A, a_axes, a_dot))
        ]
        order = [*range(kept[0], sum(kept)), *range(kept[0]), *range(sum(kept), np.ndim(swapped))]
        return np.transpose(swapped, order)
    if mode != "valid":
        padding = [(0, 0)] * np.ndim(A)
        for axis, (_, size) in zip(a_axes, sizes):
            padding[axis] = (size - 1, size - 1)
        A = np.pad(A, padding)
    windows = np.sliding_window_view(A, [size for _, size in sizes], a_axes)
    letters = iter(string.ascii_letters)
    a_labels, window_labels = (
        [next(letters) for _ in range(np.ndim(A))],
        [next(letters) for _ in sizes],
    )
    b_labels = [next(letters) for _ in range(np.ndim(B))]
    for label, axis in zip(window_labels, b_axes):
        b_labels[axis] = label
    for i, j in zip(a_dot, b_dot):
        b_labels[j] = a_labels[i]
    out = [a_labels[k] for k in range(np.ndim(A)) if k not in a_axes and k not in a_dot]
    out += [b_labels[k] for k in range(np.ndim(B)) if k not in b_axes and k not in b_dot]
    out += [a_labels[k] for k in a_axes]
    text = f"{''.join(a_labels + window_labels)},{''.join(b_labels)}->{''.join(out)}"
    full = np.einsum(text, windows, np.flip(B, b_axes))
    return full if mode != "same" else _middle(full, [a for a, _ in sizes])


def _middle(full, lengths):
    """The part of the convolution that is as long as the first factor."""
    key = [slice(None)] * (np.ndim(full) - len(lengths))
    for length, total in zip(lengths, np.shape(full)[len(key) :]):
        start = (total - length) // 2
        key.append(slice(start, start + length))
    return full[tuple(key)]
