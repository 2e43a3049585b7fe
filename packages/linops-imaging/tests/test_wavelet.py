from collections.abc import Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Identity, NamedLinop, SplitError
from linops_core.testing import BaseNamedLinopTests
from linops_imaging import Wavelet
from linops_imaging._wavelet import lowpass_filters
from nameddim import ND

NAMES = sorted(lowpass_filters())


class TestWavelet(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Wavelet("db2", ("Nx", "Ny"), [8, 4], 2, batch_shape=("C",))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestLongFilter(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Wavelet("coif2", ("N",), [6], 1, batch_shape=())


@pytest.mark.variant
class TestAppendedZeros(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Wavelet("db2", ("Nx", "Ny"), [7, 5], 2, batch_shape=("C",))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


def one_level(h: list[float], size: int) -> Tensor:
    """Return the matrix of one level along one axis, by the sums that define it."""
    matrix = torch.zeros(size, size, dtype=torch.float64)
    length = len(h)
    for k in range(size // 2):
        for j in range(length):
            at = (2 * k + length // 2 - j) % size
            matrix[k, at] += h[length - 1 - j]
            matrix[size // 2 + k, at] += (-1) ** (j + 1) * h[j]
    return matrix


@given(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from([2, 4, 6]), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 2**20),
)
def test_each_level_filters_the_corner_along_each_axis(
    name: str, sizes: list[int], n_levels: int, seed: int
) -> None:
    sizes = [size * 2 ** max(n_levels - 1, 0) for size in sizes]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, *sizes, dtype=torch.complex128, generator=generator)
    W = Wavelet(name, [f"N{axis}" for axis in range(3, 3 + len(sizes))], sizes, n_levels)
    expected = x.clone()
    for level in range(n_levels):
        block = tuple(slice(0, size >> level) for size in sizes)
        part = expected[(slice(None), *block)].clone()
        for axis, size in enumerate(sizes, 1):
            matrix = one_level([*lowpass_filters()[name]], size >> level).to(x.dtype)
            part = torch.tensordot(part, matrix, ([axis], [1])).movedim(-1, axis)
        expected[(slice(None), *block)] = part
    torch.testing.assert_close(W(x), expected)
    torch.testing.assert_close(W.H(W(x)), x)


@pytest.mark.parametrize("name", NAMES)
def test_filters_are_orthonormal_and_have_their_vanishing_moments(name: str) -> None:
    h = torch.tensor(lowpass_filters()[name], dtype=torch.float64)
    length = len(h)
    products = [(h[: length - 2 * k] * h[2 * k :]).sum() for k in range(length // 2)]
    expected = torch.zeros(length // 2, dtype=torch.float64)
    expected[0] = 1
    torch.testing.assert_close(torch.stack(products), expected, atol=2e-15, rtol=0)
    order = 1 if name == "haar" else int(name.lstrip("dbsymcoif"))
    n_moments = 2 * order if name.startswith("coif") else order
    assert length == {"coif": 6 * order}.get(name[:4], 2 * order)
    # Of functions between -1 and 1 on the filter, so that rounding stays small.
    at = torch.linspace(-1, 1, length, dtype=torch.float64)
    signs = 1 - 2 * (torch.arange(length) % 2)
    moments = torch.stack([(signs * at**k * h).sum() for k in range(n_moments)])
    torch.testing.assert_close(moments, torch.zeros_like(moments), atol=1e-14, rtol=0)


def test_the_normal_operator_is_the_identity() -> None:
    W = Wavelet("sym4", ("Nx", "Ny"), [16, 16])
    assert isinstance(W.N, Identity) and isinstance(W.H.N, Identity)


def test_polynomials_have_no_details_away_from_the_ends() -> None:
    W = Wavelet("db3", ("N",), [64], 1)
    details = W(torch.arange(64, dtype=torch.float64) ** 2)[32:]
    assert details[4:-4].abs().max() < 1e-9 < 1 < details.abs().max()


def test_the_number_of_levels_is_the_largest_that_is_possible() -> None:
    assert Wavelet("haar", ("N",), [24]).n_levels == 3
    assert Wavelet("db4", ("N",), [64]).n_levels == 3
    for name, sizes, n_levels, padded in [
        ("haar", (24, 5), 1, (24, 6)),
        ("db4", (181, 217, 181), 4, (192, 224, 192)),
        ("db4", (512, 512, 45), 2, (512, 512, 48)),
        ("db4", (640, 322), 5, (640, 352)),
        ("haar", (320, 129), 4, (320, 144)),
    ]:
        W = Wavelet(name, [f"N{axis}" for axis in range(len(sizes))], sizes)
        assert (W.n_levels, W.padded_size) == (n_levels, padded)


@given(
    st.lists(st.integers(2, 9), min_size=1, max_size=2), st.sampled_from(["haar", "db2"]), st.data()
)
def test_appended_zeros_are_those_of_a_larger_grid(
    sizes: list[int], name: str, data: st.DataObject
) -> None:
    dims = ("Nx", "Ny")[: len(sizes)]
    n_levels = data.draw(st.integers(1, min((size - 1).bit_length() for size in sizes)))
    W = Wavelet(name, dims, sizes, n_levels, batch_shape=())
    whole = Wavelet(name, dims, W.padded_size, n_levels, batch_shape=())
    x, larger = torch.randn(*sizes), torch.zeros(W.padded_size)
    inside = tuple(map(slice, sizes))
    larger[inside] = x
    assert torch.equal(W(x), whole(larger))
    y = torch.randn(W.padded_size)
    assert torch.equal(W.H(y), whole.H(y)[inside])
    torch.testing.assert_close(W.H(W(x)), x)
    assert isinstance(W.N, Identity)
    assert isinstance(W.H.N, Identity) == (W.padded_size == W.grid_size)
    torch.testing.assert_close(W.H.N(y), W(W.H(y)))


def test_tiles_are_of_the_batch_alone() -> None:
    W = Wavelet("db2", ("Nx",), [8], batch_shape=("C",))
    assert W.split(W, {ND("C"): slice(0, 2)}).ishape == W.ishape
    for dim in ("Nx", "Nx1"):
        with pytest.raises(SplitError, match="a wavelet transform mixes all of the grid"):
            W.split(W, {ND(dim): slice(0, 4)})


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64])
def test_the_dtype_stays(dtype: torch.dtype) -> None:
    W = Wavelet("db2", ("N",), [8], 2)
    x = torch.ones(8, dtype=dtype)
    assert W(x).dtype == dtype
    torch.testing.assert_close(W.H(W(x)), x, atol=1e-2, rtol=0)


@pytest.mark.parametrize("level", [0, 1])
def test_the_input_is_not_written_to(level: int) -> None:
    W = Wavelet("db2", ("N",), [8], level)
    x = torch.randn(8)
    before = x.clone()
    W.H(W(x))
    assert torch.equal(x, before)


def test_gradients_are_the_adjoint() -> None:
    W = Wavelet("db2", ("Nx", "Ny"), [8, 4], 2)
    x = torch.randn(8, 4, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(W, x) and torch.autograd.gradcheck(W.H, x)


def test_integers_are_transformed_in_the_default_dtype() -> None:
    W = Wavelet("db2", ("Nx", "Ny"), [8, 4], 2)
    x = torch.arange(32).view(8, 4)
    assert torch.equal(W(x), W(x.float())) and torch.equal(W.H(x), W.H(x.float()))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((["haar"], ("N",), [8]), ValueError, r"wavelet must be .*got \['haar'\]"),
        (("dmey", ("N",), [8]), ValueError, "wavelet must be \"haar\".*got 'dmey'"),
        (("db2", ("N",), [6], 4), ValueError, r"N must have more than 2\*\*3 points for 4 levels"),
        (("haar", ("N",), [8], 10**12), ValueError, r"must have more than 2\*\*9{12} points"),
        (("db4", ("Nx", "Ny"), [64, 13]), ValueError, "Ny must have at least 14 points for 'db4'"),
        (("haar", ("N",), [1]), ValueError, "N must have at least 2 points .* give n_levels"),
        (("db2", ("N",), [6, 4]), ValueError, r"sizes must be 1 positive integers, got \[6, 4\]"),
        (("db2", ("N",), [8], -1), ValueError, "n_levels must be at least 0, got -1"),
        (("db2", ("N",), [8], 1.0), TypeError, "n_levels must be an integer, got 1.0"),
        (("db2", ("N",), [8], 1, ("A", "B")), ValueError, "out_dims must have 1 dimensions for"),
        (("db2", ("...",), [8], 1), ValueError, "dims must have 1 dimensions for"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[object, ...], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        Wavelet(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [8, 7])
def test_the_normal_of_a_wrong_size_is_refused(size: int) -> None:
    A = Wavelet("haar", ("Nx",), (size,), 1)
    assert torch.equal(A.N(torch.ones(2, size)), torch.ones(2, size))
    with pytest.raises(ValueError, match=f"Nx must have size {size}, got 9"):
        A.N(torch.ones(2, 9))
    with pytest.raises(ValueError, match="Nx1 must have size 8, got 9"):
        A.H.N(torch.ones(2, 9))
