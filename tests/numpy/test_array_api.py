"""The array API standard: its names, and what a library asks the namespace about."""

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp

NAMES = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan
    atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift
    bitwise_xor broadcast_arrays broadcast_to can_cast ceil clip concat conj copysign cos cosh
    count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like equal exp
    expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater
    greater_equal hypot iinfo imag inf isdtype isfinite isinf isnan less less_equal linspace
    log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan negative
    newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real
    reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin
    sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh
    tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values
    unstack var vecdot where zeros zeros_like
""".split()
LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
    vector_norm
""".split()
FFT = """
    fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift
""".split()


@pytest.mark.parametrize("module, names", [(wnp, NAMES), (wnp.linalg, LINALG), (wnp.fft, FFT)])
def test_all_names_are_there(module, names):
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_namespace_of_a_traced_value():
    def doubled(x):
        xp = x.__array_namespace__()
        assert xp.__array_api_version__ >= "2023.12"
        info = xp.__array_namespace_info__()
        assert info.default_device() == "cpu"
        assert xp.isdtype(x.dtype, "real floating")
        zeros = xp.zeros(x.shape, dtype=info.default_dtypes()["real floating"], device="cpu")
        return xp.sum(xp.concat([xp.astype(x, xp.float64), zeros]) * 2.0)

    np.testing.assert_array_equal(wg.grad(doubled)(np.ones(3)), [2.0, 2.0, 2.0])
