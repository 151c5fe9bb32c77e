"""Contractions, convolutions and linear algebra."""

import numpy as np

V = np.array([0.3, -0.7, 1.2, -1.6])
S = np.array([0.3, -0.7, 1.2, -1.6, 0.8, 2.1])
A = np.array([[1.1, -0.4, 0.3], [0.2, 0.9, -1.2]])
B = np.array([[0.5, 1.4], [-0.3, 0.8], [1.0, -0.6]])
K = np.array([0.5, -1.0, 0.25])
IMAGE = np.cos(np.arange(32.0)).reshape(1, 2, 4, 4)
KERNEL = np.sin(np.arange(12.0)).reshape(3, 1, 2, 2)


def table(x):
    return x.reshape(2, 3)


def square(x):
    """A well-conditioned 2 x 2 matrix with distinct eigenvalues."""
    return x.reshape(2, 2) + np.array([[3.0, 0.5], [-0.2, 1.5]])


def symmetric(x):
    m = square(x)
    return m + m.T


def positive(xp, x):
    m = square(x)
    return m @ m.T + xp.eye(2)


def volume(x):
    """A 3 x 3 matrix of six numbers."""
    flat = np.zeros((9, 6))
    flat[np.arange(9), np.arange(9) % 6] = 1 + np.arange(9) / 9
    return (flat @ x).reshape(3, 3) + 4 * np.eye(3)


CASES = {
    # products
    "dot_vectors": (lambda xp, x: xp.dot(x, x**2), V),
    "dot_matrices": (lambda xp, x: xp.dot(table(x), B) ** 2, S),
    "matmul": (lambda xp, x: table(x) @ table(x).T, S),
    "matmul_vector": (lambda xp, x: table(x) @ x[:3], S),
    "vector_matmul": (lambda xp, x: x[:2] @ table(x), S),
    "matmul_batched": (lambda xp, x: xp.matmul(x.reshape(2, 1, 3), B[None]) ** 2, S),
    "matmul_broadcast": (lambda xp, x: xp.matmul(x.reshape(3, 1, 2), A) ** 2, S),
    "tensordot": (lambda xp, x: xp.tensordot(table(x), A, axes=((0,), (0,))) ** 2, S),
    "tensordot_2": (lambda xp, x: xp.tensordot(table(x), table(x) ** 2, axes=2), S),
    "inner": (lambda xp, x: xp.inner(table(x), A * x[0]), S),
    "outer": (lambda xp, x: xp.outer(x, x**2), V),
    "kron": (lambda xp, x: xp.kron(x[:2], x.reshape(2, 2)), V),
    "vdot": (lambda xp, x: xp.vdot(x, xp.exp(x)), V),
    "vecdot": (lambda xp, x: xp.vecdot(table(x), A * x[1]), S),
    "cross": (lambda xp, x: xp.cross(x[:3], x[3:] ** 2), S),
    "convolve_full": (lambda xp, x: xp.convolve(x**2, K), V),
    "convolve_same": (lambda xp, x: xp.convolve(x, x[:3] ** 2, mode="same"), V),
    "correlate_valid": (lambda xp, x: xp.correlate(x**2, K, mode="valid"), V),
    "polyval": (lambda xp, x: xp.polyval(x, x**2), V),
    # einsum
    "einsum_product": (lambda xp, x: xp.einsum("ij,jk->ik", table(x), B) ** 2, S),
    "einsum_implicit": (lambda xp, x: xp.einsum("ij,kj", table(x), table(x)), S),
    "einsum_trace": (lambda xp, x: xp.einsum("ii", xp.outer(x, x**2)), V),
    "einsum_diagonal": (lambda xp, x: xp.einsum("ii->i", xp.outer(x, x**2)), V),
    "einsum_transpose": (lambda xp, x: xp.einsum("ij->ji", table(x)) ** 2, S),
    "einsum_sum": (lambda xp, x: xp.einsum("ij->j", table(x) ** 2), S),
    "einsum_outer": (lambda xp, x: xp.einsum("i,j->ij", x, x**2), V),
    "einsum_three": (lambda xp, x: xp.einsum("ij,jk,kl->il", table(x), B, table(x)), S),
    "einsum_batched": (
        lambda xp, x: xp.einsum("bij,bjk->bik", x.reshape(1, 2, 3), x.reshape(1, 3, 2)),
        S,
    ),
    "einsum_ellipsis": (lambda xp, x: xp.einsum("...j,j->...", table(x), x[:3]), S),
    "einsum_elementwise": (lambda xp, x: xp.einsum("ij,ij->ij", table(x), A) ** 2, S),
    "einsum_quadratic": (lambda xp, x: xp.einsum("i,ij,j->", x, np.outer(V, V) + 1, x), V),
    "einsum_repeated": (lambda xp, x: xp.einsum("iij,j->i", x.reshape(1, 1, 4), x), V),
    "einsum_scalar_out": (lambda xp, x: xp.einsum("ij,ij", table(x), table(x)), S),
    # convolutions
    "conv_1d": (lambda xp, x: xp.conv(IMAGE[0, :, :, 0][None], x.reshape(1, 2, 2)) ** 2, V),
    "conv_2d": (lambda xp, x: xp.conv(IMAGE[:, :1] * x[0], x[:4].reshape(1, 1, 2, 2)), S),
    "conv_stride_padding": (
        lambda xp, x: xp.conv(IMAGE[:, :1], x.reshape(1, 1, 2, 2), stride=2, padding=1) ** 2,
        V,
    ),
    "conv_dilation": (
        lambda xp, x: xp.conv(IMAGE[:, :1], x.reshape(1, 1, 2, 2), dilation=2) ** 2,
        V,
    ),
    "conv_groups": (
        lambda xp, x: xp.conv(x.reshape(1, 2, 1, 3), KERNEL[:2, :, :1], groups=2) ** 2,
        S,
    ),
    "conv_by_image": (lambda xp, x: xp.conv(x.reshape(1, 1, 2, 2), KERNEL, padding=1) ** 2, V),
    "max_pool": (lambda xp, x: xp.max_pool(x.reshape(1, 1, 2, 3), 2) ** 2, S),
    "avg_pool": (lambda xp, x: xp.avg_pool(x.reshape(1, 1, 2, 3) ** 2, 2, stride=1), S),
    # linear algebra
    "solve": (lambda xp, x: xp.linalg.solve(square(x), x[:2]), V),
    "solve_matrix": (lambda xp, x: xp.linalg.solve(square(x), x.reshape(2, 2)), V),
    "solve_batched": (
        lambda xp, x: xp.linalg.solve(xp.stack([square(x), symmetric(x)]), x.reshape(2, 2, 1)),
        V,
    ),
    "solve_triangular": (
        lambda xp, x: xp.linalg.solve_triangular(xp.tril(square(x)), x[:2], lower=True),
        V,
    ),
    "inv": (lambda xp, x: xp.linalg.inv(square(x)), V),
    "pinv": (lambda xp, x: xp.linalg.pinv(table(x)), S),
    "det": (lambda xp, x: xp.linalg.det(square(x)), V),
    "det_3": (lambda xp, x: xp.linalg.det(volume(x)), S),
    "slogdet": (lambda xp, x: xp.linalg.slogdet(volume(x))[1], S),
    "cholesky": (lambda xp, x: xp.linalg.cholesky(positive(xp, x)), V),
    "qr_r": (lambda xp, x: xp.abs(xp.linalg.qr(square(x))[1]), V),
    "qr_q": (lambda xp, x: xp.linalg.qr(square(x))[0] ** 2, V),
    "eigvalsh": (lambda xp, x: xp.linalg.eigvalsh(symmetric(x)), V),
    "eigh_vectors": (lambda xp, x: xp.linalg.eigh(symmetric(x))[1] ** 2, V),
    "eigh_function": (
        lambda xp, x: (
            (xp.linalg.eigh(positive(xp, x))[1] * xp.log(xp.linalg.eigh(positive(xp, x))[0]))
            @ xp.linalg.eigh(positive(xp, x))[1].T
        ),
        V,
    ),
    "svdvals": (lambda xp, x: xp.linalg.svd(square(x), compute_uv=False), V),
    "svd_vectors": (lambda xp, x: xp.linalg.svd(square(x))[0] ** 2, V),
    "lstsq": (lambda xp, x: xp.linalg.lstsq(x.reshape(3, 2) + B, K)[0], S),
    "matrix_power": (lambda xp, x: xp.linalg.matrix_power(square(x), 3), V),
    "matrix_power_negative": (lambda xp, x: xp.linalg.matrix_power(square(x), -2), V),
    "expm": (lambda xp, x: xp.linalg.expm(x.reshape(2, 2)), V),
    "multi_dot": (lambda xp, x: xp.linalg.multi_dot([table(x), B, table(x)]), S),
    "norm_nuclear": (lambda xp, x: xp.linalg.norm(square(x), "nuc"), V),
    "norm_spectral": (lambda xp, x: xp.linalg.norm(square(x), 2), V),
    "trace_of_inverse": (lambda xp, x: xp.trace(xp.linalg.inv(volume(x))), S),
}
