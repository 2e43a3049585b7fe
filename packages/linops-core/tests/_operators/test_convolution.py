import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Convolution, NamedLinop, Role, SplitError
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND, NamedDimension

WindowsIn = Callable[[NamedLinop], st.SearchStrategy[dict[NamedDimension, slice]]]


def values(*lengths: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


class TestConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Convolution(nn.Parameter(values(3, 2)))

    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "Ny": 4, "Nx1": 3, "Ny1": 4}


@pytest.mark.variant
class TestTileOfAConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = Convolution(nn.Parameter(values(3, 2)), ("C",), grid_size=[5, 4])
        return A.split_forward(
            [slice(0, 2), slice(1, 4), slice(2, 4)], [slice(0, 2), slice(0, 2), slice(0, 3)]
        )

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestTileOverTheEndOfARing(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        kernels = nn.Parameter(values(2, 3, 2))
        A = Convolution(
            kernels, ("C",), None, None, "circular", kernel_batch_shape=("C",), method="fft",
            grid_size=[5, 4],
        )  # fmt: skip
        coil, rows = slice(1, 2), slice(None)
        return A.split_forward([coil, slice(0, 4), rows], [coil, slice(4, 5), rows])


@pytest.mark.variant
class TestRealCircularConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Convolution(values(4).real.contiguous(), padding_mode="circular")

    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "Nx1": 3}


class TestReflectedConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Convolution(nn.Parameter(values(4, 2)), padding_mode="reflect", offset=[3, 0])

    def sizes(self) -> Mapping[str, int]:
        return {"Nx": 3, "Ny": 2, "Nx1": 3, "Ny1": 2}


@pytest.mark.variant
class TestTileOfAReplicatedConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = Convolution(nn.Parameter(values(4)), (), padding_mode="replicate", grid_size=[6])
        return A.split_forward([slice(0, 3)], [slice(0, 5)])


@pytest.mark.variant
class TestFullConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        kernel = nn.Parameter(values(3, 2))
        return Convolution(kernel, ("B",), ("X",), ("Y",), kernel_batch_shape=("B",), mode="full")

    def sizes(self) -> Mapping[str, int]:
        return {"B": 3, "X": 3, "Y": 4}


@pytest.mark.variant
class TestTileOfAValidConvolution(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = Convolution(nn.Parameter(values(3)), (), mode="valid", grid_size=[8])
        return A.split_forward([slice(0, 5)], [slice(1, 4)])


class TestConvolutionByTransform(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Convolution(nn.Parameter(values(2, 3)), ("B",), ("X", "Y"), ("X", "Y"), method="fft")

    def sizes(self) -> Mapping[str, int]:
        return {"B": 2, "X": 3, "Y": 2}


@pytest.mark.variant
class TestConvolutionWithAKernelForEachCoil(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        kernels = nn.Parameter(values(3, 2))
        return Convolution(kernels, ("C", "B"), ("X",), ("Y",), kernel_batch_shape=("C",))

    def sizes(self) -> Mapping[str, int]:
        return {"B": 2, "X": 4, "Y": 4}


@pytest.mark.parametrize("method", ["direct", "fft"])
def test_a_point_becomes_the_kernel_about_that_point(method: str) -> None:
    kernel = torch.arange(1.0, 13.0).reshape(3, 4)
    x = torch.zeros(7, 8)
    x[3, 4] = 1
    y = Convolution(kernel, method=method)(x)
    expected = torch.zeros(7, 8)
    expected[3 - 1 : 3 + 2, 4 - 2 : 4 + 2] = kernel
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_a_kernel_of_one_at_its_centre_is_the_identity(size: int, mode: str) -> None:
    kernel = torch.zeros(size)
    kernel[size // 2] = 1
    x = torch.randn(2, 6)
    A = Convolution(kernel, padding_mode=mode)
    assert torch.equal(A(x), x) and torch.equal(A.H(x), x)


@pytest.mark.parametrize("method", ["direct", "fft"])
def test_a_gaussian_after_a_gaussian_is_a_wider_gaussian(method: str) -> None:
    def gaussian(n: int, sigma: float) -> Tensor:
        t = torch.arange(n, dtype=torch.float64) - n // 2
        return torch.exp(-0.5 * (t / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))

    A = Convolution(gaussian(31, 2.0), padding_mode="circular", method=method)
    torch.testing.assert_close(A(gaussian(64, 1.5)), gaussian(64, 2.5), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_taps", [3, 5, 9])
def test_a_circular_convolution_multiplies_spectra(n_taps: int) -> None:
    # With 9 taps the kernel is larger than the grid, and goes round it.
    kernel, x = values(n_taps), values(2, 6)
    A = Convolution(kernel, padding_mode="circular")
    at = torch.arange(n_taps) - n_taps // 2
    frequencies = torch.arange(6, dtype=torch.float64)[:, None]
    spectrum = (kernel * torch.exp(-2j * math.pi * frequencies * at / 6)).sum(-1)
    F = FFT(1)
    torch.testing.assert_close(F(A(x)), spectrum * F(x))


def test_each_slice_of_a_batch_can_have_a_kernel() -> None:
    kernels = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    A = Convolution(kernels, ("B", "C"), kernel_batch_shape=("C",))
    x = torch.tensor([[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]])
    assert A(x).tolist() == [[[1, 2, 3], [2, 3, 0]]]
    assert A.size("C") == 2 and A.size("Nx") is None
    tile = A.split(A, {ND("C"): slice(1, 2)})
    assert tile(x[:, 1:]).tolist() == [[[2, 3, 0]]]
    with pytest.raises(ValueError, match="Convolution: C must have size 2, got 3"):
        A(torch.ones(1, 3, 3))


def test_names_are_those_of_images_with_the_next_free_index_in_the_output() -> None:
    assert Convolution(torch.ones(1, 1)).oshape == ("...", "Nx1", "Ny1")
    taken = Convolution(torch.ones(1), ("Nx1",), ("Nx",))
    assert taken.shape.out_grid_shape == ("Nx2",)


def test_a_grid_of_unknown_size_cannot_be_sliced() -> None:
    A = Convolution(torch.ones(3), ("C",))
    assert [str(A.role(dim)) for dim in ("C", "Nx", "Nx1")] == ["batch", "opaque", "opaque"]
    assert A.size("Nx") is A.size("Nx1") is None
    assert A.support("Nx") is None
    with pytest.raises(SplitError, match=r"Nx1 cannot be split: .*; give grid_size$"):
        A.split(A, {ND("Nx1"): slice(0, 2)})


def test_a_name_on_both_sides_cannot_be_sliced() -> None:
    A = Convolution(torch.ones(3, 3), (), ("X", "Y"), ("X", "Z"), grid_size=[4, 5])
    assert [str(A.role(dim)) for dim in "XYZ"] == ["opaque", "input", "output"]
    assert [A.size(dim) for dim in "XYZ"] == [4, 5, 5]
    assert A.support("X") is None
    with pytest.raises(SplitError, match=r"X cannot be split: .* or rename one of them$"):
        A.split(A, {ND("X"): slice(0, 2)})


@st.composite
def convolutions_on_grids(draw: st.DrawFn) -> Convolution:
    ndim = draw(st.integers(1, 2))
    grid, taps = ([draw(st.integers(1, 5)) for _ in range(ndim)] for _ in range(2))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    kernel = torch.randn(taps, dtype=torch.complex128, generator=generator)
    padding = draw(st.sampled_from(["zeros", "circular", "reflect", "replicate"]))
    fits = all(n <= size for n, size in zip(taps, grid, strict=True))
    mode = draw(st.sampled_from(["same", "full", "valid"] if fits else ["same", "full"]))
    method = draw(st.sampled_from(["direct", "fft"]))
    padding = padding if mode == "same" else "zeros"
    return Convolution(kernel, (), None, None, padding, method=method, grid_size=grid, mode=mode)


@given(data=st.data())
def test_a_tile_of_a_tile_is_that_block_of_the_matrix(
    data: st.DataObject, windows_in: WindowsIn
) -> None:
    A = data.draw(convolutions_on_grids())
    blocks = A.to_dense().reshape([A.size(dim) or 0 for dim in (*A.oshape, *A.ishape)])
    tile: NamedLinop = A
    for _ in range(2):
        window = data.draw(windows_in(tile))
        tile = tile.split(tile, window)
        blocks = blocks[tuple(window.get(dim, slice(None)) for dim in (*A.oshape, *A.ishape))]
        assert isinstance(tile, Convolution)
        matrix = tile.to_dense()
        torch.testing.assert_close(matrix, blocks.reshape(matrix.shape))
        torch.testing.assert_close(tile.H.to_dense(), matrix.mH)
        torch.testing.assert_close(tile.N.to_dense(), matrix.mH @ matrix)


@given(data=st.data())
def test_the_support_of_a_tile_is_what_it_touches(
    data: st.DataObject, windows_in: WindowsIn
) -> None:
    A = data.draw(convolutions_on_grids())
    tile = A.split(A, data.draw(windows_in(A)))
    blocks = tile.to_dense().reshape([tile.size(dim) or 0 for dim in (*A.oshape, *A.ishape)])
    results = [tile.support(dim) for dim in (*A.oshape, *A.ishape)]
    assert results == [tile.H.support(dim) for dim in (*A.oshape, *A.ishape)]
    touching = (blocks.abs() > 1e-9).nonzero()
    if len(touching):
        ends = zip(touching.amin(0).tolist(), touching.amax(0).tolist(), strict=True)
        assert results == [slice(first, last + 1) for first, last in ends]
    else:  # along one axis nothing touches
        assert any(piece is not None and piece.start == piece.stop for piece in results)


def test_the_halo_of_a_periodic_grid_is_all_of_it_at_the_ends_alone() -> None:
    A = Convolution(torch.ones(3), padding_mode="circular", grid_size=[8])
    tiles = [A.split(A, {ND("Nx1"): slice(start, start + 2)}) for start in (0, 4)]
    assert [tile.support("Nx") for tile in tiles] == [slice(0, 8), slice(3, 7)]
    assert A.split(A, {ND("Nx"): slice(0, 2)}).support("Nx1") == slice(0, 8)


def test_cutting_follows_a_kernel_of_another_size() -> None:
    A = Convolution(nn.Parameter(torch.ones(3)), (), grid_size=[6])
    tile = A.split(A, {ND("Nx1"): slice(2, 3)})
    A.kernel = nn.Parameter(torch.ones(5))
    assert tile.to_dense().tolist() == [[1, 1, 1, 1, 1, 0]]
    assert tile.support("Nx") == slice(0, 5)


def test_the_size_of_the_grid_is_checked_when_it_is_given() -> None:
    A = Convolution(torch.ones(3), grid_size=[4])
    with pytest.raises(ValueError, match="Convolution: Nx must have size 4, got 5"):
        A(torch.ones(5))
    tile = A.split(A, {ND("Nx1"): slice(0, 1)})
    with pytest.raises(ValueError, match="Convolution: Nx1 must have size 1, got 4"):
        tile.H(torch.ones(4))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64])
def test_a_kernel_that_torch_does_not_convolve_is_refused(dtype: torch.dtype) -> None:
    A = Convolution(torch.ones(3, dtype=torch.complex32))
    message = r"Convolution .*: the dtype must be .* got torch.complex32 .*; convert the input and"
    with pytest.raises(TypeError, match=message):
        A(torch.ones(5, dtype=dtype))
    assert A.to(torch.complex64)(torch.ones(5, dtype=torch.complex64))[2] == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_autocast_halves_the_precision_of_real_values_alone(dtype: torch.dtype) -> None:
    A = Convolution(torch.randn(3))
    x = torch.randn(2, 8, dtype=dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = A(x)
    assert y.dtype == (torch.bfloat16 if dtype == torch.float32 else dtype)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (torch.ones(3), None, None, None, "symmetric"),
            {},
            r"padding_mode .* got 'symmetric'",
        ),
        ((torch.ones(3),), {"mode": "fulll"}, r"mode must be one of .* got 'fulll'"),
        ((torch.ones(3),), {"offset": [3]}, r"offset must be .* kernel \(3,\) .* got \(3,\)"),
        ((torch.ones(3),), {"offset": [-1]}, r"offset must be an index from 0 .* got \(-1,\)"),
        ((torch.ones(3),), {"offset": [0, 0]}, r"along each axis, got \(0, 0\)"),
        (
            (torch.ones(3),),
            {"mode": "full", "offset": [0]},
            r"left out unless mode is \"same\", got 'zeros' and \[0\] with 'full'",
        ),
        (
            (torch.ones(3), None, None, None, "circular"),
            {"mode": "valid"},
            r"left out unless mode is \"same\", got 'circular'",
        ),
        ((torch.ones(3),), {"method": "winograd"}, r"method must be one of .* got 'winograd'"),
        ((torch.ones(()),), {}, r"1, 2 or 3 dimensions .* got shape \(\)"),
        ((torch.ones(1, 1, 1, 1),), {}, r"got shape \(1, 1, 1, 1\)"),
        ((torch.ones(3),), {"grid_size": [3, 4]}, r"must have 1 positive numbers, got \(3, 4\)"),
        ((torch.ones(3),), {"grid_size": [0]}, r"must have 1 positive numbers, got \(0,\)"),
        ((torch.ones(3, 0),), {}, r"the kernel must have elements, .* got shape \(3, 0\)"),
        ((torch.ones(3), None, ("A", "B")), {}, r"must have 1 dimensions .* got \('A', 'B'\)"),
        ((torch.ones(3), None, ("A",), ("B", "C")), {}, r"must have 1 dimensions"),
        (
            (torch.ones(2, 3), ("B",)),
            {"kernel_batch_shape": ("C",)},
            r"named in the batch \('B',\), got \('C',\)",
        ),
        (
            (torch.ones(2, 3), ("...",)),
            {"kernel_batch_shape": ("...",)},
            r"named in the batch .* got \('\.\.\.',\)",
        ),
    ],
)
def test_what_is_no_convolution_is_refused(
    arguments: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"Convolution: .*{message}"):
        Convolution(*arguments, **options)


def test_one_name_for_two_axes_of_a_grid_is_opaque() -> None:
    kernel, x = torch.randn(3, 3), torch.randn(3, 4)
    A = Convolution(kernel, (), ("A", "B"), ("B", "C"), grid_size=[3, 4])
    assert A.sizes("input") == A.sizes("output") == (3, 4)
    assert A.role("B") is Role.OPAQUE
    torch.testing.assert_close(A.N(x), Convolution(kernel).N(x))


def test_a_kernel_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Convolution: kernel must be a torch.Tensor, got <class"):
        Convolution([1.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("grid_size", [[0], [2.5], [torch.ones(2)], [4, 4]])
def test_a_grid_size_that_is_none_is_refused(grid_size: Any) -> None:
    with pytest.raises(ValueError, match="Convolution: grid_size must have 1 positive"):
        Convolution(torch.ones(3), grid_size=grid_size)


@pytest.mark.parametrize(("mode", "n"), [("same", 4), ("valid", 2), ("full", 6)])
def test_the_modes_keep_what_they_say_of_all_products(mode: str, n: int) -> None:
    kernel, x = torch.tensor([1.0, 10.0, 100.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    every = torch.tensor([1.0, 12.0, 123.0, 234.0, 340.0, 400.0])
    A = Convolution(kernel, mode=mode)
    assert torch.equal(A(x), every[(6 - n) // 2 : (6 + n) // 2])
    assert A.H(A(x)).shape == x.shape
    sized = Convolution(kernel, mode=mode, grid_size=[4])
    assert sized.sizes("input") == (None, 4) and sized.sizes("output") == (None, n)
    assert torch.equal(sized(x), A(x))


def test_the_offset_is_the_index_of_the_centre() -> None:
    kernel, x = torch.tensor([1.0, 10.0, 100.0, 1000.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    every = Convolution(kernel, mode="full")(x)
    for centre in range(4):
        assert torch.equal(Convolution(kernel, offset=[centre])(x), every[centre : centre + 4])


def test_constants_stay_where_the_grid_goes_on() -> None:
    kernel = torch.tensor([[0.1, 0.2], [0.3, 0.15], [0.0, 0.25]])
    for padding in ("circular", "reflect", "replicate"):
        A = Convolution(kernel, padding_mode=padding)
        torch.testing.assert_close(A(torch.ones(3, 4)), torch.ones(3, 4))


def test_a_grid_that_does_not_fit_the_mode_is_refused() -> None:
    A = Convolution(torch.ones(3), mode="valid")
    with pytest.raises(ValueError, match=r"at least as large as the kernel \(3,\) in mode 'valid'"):
        A(torch.ones(2))
    with pytest.raises(ValueError, match=r"Convolution: the grid must .* 'valid', got \(2,\)"):
        Convolution(torch.ones(3), mode="valid", grid_size=[2])
    with pytest.raises(ValueError, match=r"the output must .* in mode 'full', got \(2,\)"):
        Convolution(torch.ones(3), mode="full").H(torch.ones(2))


def test_a_kernel_of_another_size_is_refused_where_the_output_depends_on_it() -> None:
    A = Convolution(nn.Parameter(torch.ones(3)), mode="full", grid_size=[6])
    A.kernel = nn.Parameter(torch.ones(5))
    with pytest.raises(ValueError, match=r"must keep the size \(3,\) for mode 'full'.* got \(5,\)"):
        A(torch.ones(6))


def test_an_operator_that_changes_the_size_of_its_grid_has_no_powers() -> None:
    kernel, grid = torch.ones(3), ("N",)
    assert Convolution(kernel, (), grid, grid).is_endomorphism
    assert not Convolution(kernel, (), grid, grid, mode="full").is_endomorphism
    assert Convolution(kernel, (), grid, grid, mode="full").N.is_endomorphism


def test_a_compiler_that_keeps_sizes_free_takes_that_of_the_kernel_as_a_number() -> None:
    """Borders that depend on a symbol for it took minutes to compile."""
    A, free = Convolution(torch.rand(3), padding_mode="reflect", dims="N", shape="BN"), list[int]()

    def backend(graph: torch.fx.GraphModule, inputs: list[object]) -> torch.fx.GraphModule:
        free.extend(int(size) for size in inputs if isinstance(size, torch.SymInt))
        return graph

    torch._dynamo.reset()
    x = torch.rand(4, 6)
    torch.testing.assert_close(torch.compile(A, backend=backend, dynamic=True)(x), A(x))
    assert 4 in free and 3 not in free
