"""The wavelet transform is that of PyWavelets."""

import numpy as np
import pytest
import torch

from linops_imaging import Wavelet

pywt = pytest.importorskip("pywt")
NAMES = [name for family in ("haar", "db", "sym", "coif") for name in pywt.wavelist(family)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("sizes", "n_levels"), [([32], 3), ([8, 20], 2), ([4, 2, 6], 1)])
def test_coefficients_are_packed_as_by_coeffs_to_array(
    name: str, sizes: list[int], n_levels: int
) -> None:
    x = np.random.default_rng(0).standard_normal(sizes) * (1 + 0.5j)
    W = Wavelet(name, [f"N{axis + 5}" for axis in range(len(sizes))], sizes, n_levels)
    with (
        pytest.warns(UserWarning)
        if any(
            n_levels > pywt.dwt_max_level(size, len(pywt.Wavelet(name).dec_lo)) for size in sizes
        )
        else pytest.MonkeyPatch.context()
    ):
        result = pywt.wavedecn(x, name, mode="periodization", level=n_levels)
    expected, _ = pywt.coeffs_to_array(result)
    # The filters of sym20 in PyWavelets are orthonormal to 1e-11 only.
    np.testing.assert_allclose(W(torch.from_numpy(x)).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("size", [14, 48, 64, 96, 181, 217, 640, 1001])
@pytest.mark.parametrize("name", ["haar", "db2", "sym4", "coif1"])
def test_the_number_of_levels_is_the_largest_that_appends_few_zeros(name: str, size: int) -> None:
    most = pywt.dwt_max_level(size, name)
    expected = max(n for n in range(1, most + 1) if n == 1 or 8 * (-size % 2**n) <= size)
    assert Wavelet(name, ("N",), [size]).n_levels == expected
