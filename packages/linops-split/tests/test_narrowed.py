"""Operators that use a part of their vectors are operators on all of them.

Shapes: M rows, N columns, C batch.
"""

import copy
import pickle
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import (
    FFT,
    BlockDiag,
    Chain,
    Concat,
    Convolution,
    Crop,
    Dense,
    Diagonal,
    HStack,
    Identity,
    NamedLinop,
    PadDim,
    PadLast,
    RealPart,
    SimpleLinop,
    SliceableLinop,
    SplitError,
    Stack,
    Truncate,
    Zero,
)
from linops_split import Part, Tiled, Tiles, batch_linop, narrowed, split_linop
from linops_split.testing import assert_tiles_make_the_whole, batch_sizes
from nameddim import ND, NamedDimension, NamedShape

C, M, N = ND.infer(("C", "M", "N"))


@st.composite
def windows(draw: st.DrawFn, *dims: NamedDimension) -> dict[NamedDimension, tuple[slice, int]]:
    result = {}
    for dim in dims:
        length = draw(st.integers(1, 5))
        start = draw(st.integers(0, length - 1))
        result[dim] = slice(start, draw(st.integers(start + 1, length))), length
    return result


def part_of(window: dict[NamedDimension, tuple[slice, int]]) -> Dense:
    rows, columns = (window[dim][0].stop - window[dim][0].start for dim in (M, N))
    weight = torch.rand(2, rows, columns, dtype=torch.complex128)
    return Dense(nn.Parameter(weight), ("C", "M", "N"), ("C", "N"), ("C", "M"))


def around(part: NamedLinop, window: dict[NamedDimension, tuple[slice, int]]) -> Tiled:
    """The operator on whole vectors of which a part is one between slices."""
    pieces = {dim: piece for dim, (piece, _) in window.items()}
    return Tiled(Tiles(part.shape, [Part(part, pieces)], {d: n for d, (_, n) in window.items()}))


def dense_of(linop: Tiled, window: dict[NamedDimension, tuple[slice, int]]) -> Tensor:
    """The matrix, made of the part's by hand."""
    whole = torch.zeros(2, window[M][1], 2, window[N][1], dtype=torch.complex128)
    for c in range(2):
        whole[c, window[M][0], c, window[N][0]] = linop.linops[0].weight.detach()[c]  # type: ignore[operator]
    return whole.reshape(2 * window[M][1], 2 * window[N][1])


@given(windows(M, N))
def test_it_is_the_part_with_zeros_around(window: dict[NamedDimension, tuple[slice, int]]) -> None:
    A = around(part_of(window), window)
    wanted = dense_of(A, window)
    torch.testing.assert_close(A.to_dense().detach(), wanted)
    torch.testing.assert_close(A.H.to_dense().detach(), wanted.mH)
    torch.testing.assert_close(A.conj().to_dense().detach(), wanted.conj())
    torch.testing.assert_close(A.N.to_dense().detach(), wanted.mH @ wanted)
    torch.testing.assert_close(A.H.N.to_dense().detach(), wanted @ wanted.mH)
    assert A.H.H.to_dense().equal(A.to_dense())


@settings(max_examples=settings().max_examples // 2)
@given(windows(M, N), st.data())
def test_it_is_cut_like_any_other(
    window: dict[NamedDimension, tuple[slice, int]], data: st.DataObject
) -> None:
    A = around(part_of(window), window)
    for linop in (A, A.H):
        assert_tiles_make_the_whole(linop, data.draw(batch_sizes(linop)))
    assert A.split(A, {C: slice(0, 2), M: slice(None)}) is A


@given(windows(M, N))
def test_its_sizes_names_and_supports_are_those_of_the_whole(
    window: dict[NamedDimension, tuple[slice, int]],
) -> None:
    A = around(part_of(window), window)
    other = A.renamed({M: ND("K"), N: ND("L")})
    assert (other.ishape, other.oshape) == (("C", "L"), ("C", "K"))
    torch.testing.assert_close(other.to_dense(), A.to_dense())
    for linop, rows, columns in ((A, "M", "N"), (A.H, "M", "N"), (other, "K", "L")):
        assert (linop.size(rows), linop.size(columns)) == (window[M][1], window[N][1])
        assert (linop.support(rows), linop.support(columns)) == (window[M][0], window[N][0])
        assert linop.support("C") is None


@given(windows(M, N))
def test_an_input_of_another_size_is_refused(
    window: dict[NamedDimension, tuple[slice, int]],
) -> None:
    A = around(part_of(window), window)
    size = window[N][1]
    with pytest.raises(ValueError, match=f"Tiled: N must have size {size}, got {size + 1}"):
        A(torch.rand(2, size + 1, dtype=torch.complex128))


@settings(max_examples=settings().max_examples // 4)
@given(windows(M, N))
def test_gradients_reach_the_weight_and_the_input(
    window: dict[NamedDimension, tuple[slice, int]],
) -> None:
    A = around(part_of(window), window)
    x = torch.rand(2, window[N][1], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(A, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(A, x, fast_mode=True)
    result = torch.autograd.grad(A(x).abs().square().sum(), [x, *A.parameters()])
    assert all(gradient is not None for gradient in result)


def example() -> Tiled:
    window = {M: (slice(1, 3), 4), N: (slice(0, 2), 3)}
    return around(part_of(window), window)


def test_copies_are_independent_or_shared_as_asked() -> None:
    A = example()
    wanted = A.to_dense()
    for other in (pickle.loads(pickle.dumps(A)), copy.deepcopy(A), copy.copy(A)):
        torch.testing.assert_close(other.to_dense(), wanted)
        torch.testing.assert_close(other.H.to_dense(), wanted.mH)
    torch.testing.assert_close(A.with_weights(lambda w: 2 * w).to_dense(), 2 * wanted)


def test_names_behind_an_ellipsis_are_resolved() -> None:
    part = Dense(torch.rand(2, 2), ("M", "N"), ("...", "N"), ("...", "M"))
    A = around(part, {M: (slice(1, 3), 4), N: (slice(0, 2), 3)})
    resolved = A.resolved(ishape=ND.infer(("C", "N")))
    assert (resolved.ishape, resolved.oshape) == (("C", "N"), ("C", "M"))
    assert A.resolved(ishape=ND.infer(("...", "N"))) is A
    x = torch.rand(5, 3)
    torch.testing.assert_close(resolved(x), A(x))


def convolution(size: int) -> Convolution:
    kernel = torch.rand(3, dtype=torch.complex128)
    return Convolution(kernel, (), ("N",), ("M",), method="direct", grid_size=[size])


def test_a_tile_of_a_convolution_reads_a_halo_and_no_more() -> None:
    A = convolution(9)
    whole = A.split(A, {M: slice(4, 6)})
    tile = narrowed(whole)
    assert tile.reads == {N: slice(3, 7)} and tile.writes == {}
    x = torch.rand(9, dtype=torch.complex128)
    torch.testing.assert_close(tile.linop(x[3:7]), whole(x))


def test_a_tile_that_touches_nothing_is_zero() -> None:
    A = convolution(9)
    tile = narrowed(A.split(A, {N: slice(0, 2), M: slice(6, 9)}))
    assert isinstance(tile.linop, Zero) and not tile.window
    x = torch.rand(2, dtype=torch.complex128)
    assert torch.equal(tile.linop(x), torch.zeros(3, dtype=torch.complex128))


def test_zeros_of_a_real_part_stay_real() -> None:
    zero = Zero((), ("N", "M"), sizes={"N": 2, "M": 3})
    A, x = Chain(RealPart(()), zero), torch.ones((), dtype=torch.complex128)
    assert torch.equal(A(x), torch.zeros(2, 3, dtype=torch.float64))
    torch.testing.assert_close(batch_linop(A, {"N": 1})(x), A(x))


def test_zeros_beside_a_real_part_are_complex() -> None:
    A = Concat(
        Zero(("N",), sizes={"N": 2}),
        RealPart(("N",)),
        idim="N",
        odim="N",
        isizes=(2, 2),
        osizes=(2, 2),
    )
    x = torch.rand(4, dtype=torch.complex128)
    for linop, y in ((A, x), (A.H, x.real), (A.N, x)):
        torch.testing.assert_close(batch_linop(linop, {"N": 2})(y), linop(y))


def test_zeros_that_are_added_to_a_real_part_vanish() -> None:
    zero, real = Zero(("N",), ("M",), sizes={"N": 2, "M": 2}), RealPart(("M",))
    row, x = HStack(zero, real, batch_dims=(), sizes={"M": 2}), torch.rand(4).to(torch.complex128)
    torch.testing.assert_close(batch_linop(row, {"Columns": 2})(x), row(x))
    behind = HStack(Zero(("M",), sizes={"M": 2}), real, batch_dims=(), sizes={"M": 2})
    for sizes in ({"Columns": 2}, {"M": 1}):  # this zero is behind a layout
        torch.testing.assert_close(batch_linop(behind, sizes)(x), behind(x))
    diagonal = BlockDiag(real, real, batch_dims=(), sizes={"M": 2})
    torch.testing.assert_close(batch_linop(diagonal, {"Columns": 2, "Rows": 1})(x), diagonal(x))


@pytest.mark.parametrize("sides", [("idim",), ("odim",), ("idim", "odim")])
def test_blocks_that_vanish_have_the_dtype_that_they_have_in_the_whole(
    sides: Sequence[str],
) -> None:
    """A row leaves out a Zero, but not a chain that vanishes only by its supports."""
    pad = PadDim("N", 2, 4, ("N",), ("L",))
    behind = PadDim("N", 2, 4, ("N",), ("L",), before=2).H @ pad
    x = torch.ones(2, 2, dtype=torch.complex128)
    for blocks in product([RealPart(("N",)), behind, Zero(("N",), ("N",))], repeat=2):
        along: dict[str, Any] = {f"{side}_and_idx": ("C", 0) for side in sides}
        A = Stack(*blocks, **along)
        y = x if "idim" in sides else x[0]
        assert torch.equal(batch_linop(A, {"C": 1})(y), A(y))
        assert batch_linop(A, {"C": 1})(y).dtype == A(y).dtype


def test_zeros_of_a_complex_operator_are_complex() -> None:
    """Also those of a real input."""
    A = Chain(Zero(("N",), ("M",), sizes={"N": 3, "M": 2}), Diagonal(torch.tensor([1j, 2]), ("M",)))
    for sizes in ({"M": 1}, {"N": 1}, {"M": 1, "N": 2}):
        B = batch_linop(A, sizes)
        torch.testing.assert_close(B(torch.ones(3)), A(torch.ones(3)))
        torch.testing.assert_close(B.H(torch.ones(2)), A.H(torch.ones(2)))
    P = Diagonal(torch.tensor([1j, 2, 3, 4]), ("M",)) @ PadDim("N", 1, 4, ("N",), ("M",))
    windows = [{ND("M"): slice(start, start + 1)} for start in range(4)]
    for window in windows:
        part, wanted = (L.split(L, window)(torch.ones(1)) for L in (batch_linop(P, {"M": 1}), P))
        torch.testing.assert_close(part, wanted)


def test_an_operator_that_uses_everything_is_itself() -> None:
    for A in (Dense(torch.rand(2, 3)), convolution(4)):
        assert narrowed(A) == Part(A)


def test_batched_convolutions_equal_the_whole() -> None:
    A = convolution(7)
    for sizes in ({"M": 2}, {"N": 3}, {"N": 3, "M": 2}, {"M": 1, "N": 1}):
        batched = batch_linop(A, sizes)
        x = torch.rand(7, dtype=torch.complex128)
        torch.testing.assert_close(batched(x), A(x))
        torch.testing.assert_close(batched.H(x), A.H(x))
        torch.testing.assert_close(batched.N(x), A.N(x))


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(1, 8), st.integers(1, 6), st.sampled_from([1, 3, 5]))
def test_nothing_is_computed_that_is_not_read(n: int, size: int, length: int) -> None:
    """What is in between is as long as a tile and its halo."""
    kernel = torch.rand(length, dtype=torch.complex128)
    blur = Convolution(kernel, (), ("Nx",), ("Ny",), grid_size=(n + 4,))
    matrix = torch.rand(n + 4, 3, dtype=torch.complex128)
    A = Truncate("Ny", n + 4, n, ("Ny",), ("Nz",)) @ blur @ Dense(matrix, ("Nx", "M"))
    assert_tiles_make_the_whole(A, {"Nz": size})
    for start in range(0, n, size):
        stop = min(start + size, n)
        tile = narrowed(A.split(A, {ND("Nz"): slice(start, stop)}))
        halo = length // 2
        assert tile.linop.size("Nx") == min(stop + halo, n + 4) - max(start - halo, 0)
        assert tile.linop.size("Ny") == stop - start


def test_what_is_zero_is_computed_where_nobody_knows_its_length() -> None:
    """The output of a user's function has a length when it was computed, and not before."""
    weight = torch.rand(2, 3, dtype=torch.complex128)
    ours = SimpleLinop(
        lambda x: weight @ x[:, 0], lambda y: (weight.mH @ y)[:, None], None, ("D", "A"), ("B",)
    )
    A = (ours @ Truncate("B", 2, 1, ("D", "B"), ("D", "A"))).N
    x = torch.rand(3, 2, dtype=torch.complex128)
    torch.testing.assert_close(batch_linop(A, {"B1": 1})(x), A(x))


class Columns(SliceableLinop):
    """Sums over U, whose length only its adjoint knows."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(NamedShape(("X", "U"), ("X",), weight_shape=("X",)))
        self.register_weight("weight", weight, "weight_shape")

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.weight_part("weight") * x.sum(1)  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, y: Tensor, /) -> Tensor:
        return (linop.weight_part("weight").conj() * y)[:, None].expand(-1, 3)  # type: ignore[no-any-return]


def test_zero_tiles_have_adjoints_and_normals_where_a_length_of_the_input_is_unknown() -> None:
    weight = torch.rand(6, dtype=torch.complex128)
    A = Crop([2], [6], ("X",), ("Y",), ()) @ Columns(weight)
    assert A.size("U") is None
    matrix = A.to_dense({"U": 3})
    for size in range(1, 6):
        batched = batch_linop(A, {"X": size})
        torch.testing.assert_close(batched.to_dense({"U": 3}), matrix)
        torch.testing.assert_close(batched.H.to_dense(), matrix.mH)
        torch.testing.assert_close(batched.N.to_dense({"U": 3}), matrix.mH @ matrix)
        torch.testing.assert_close(batched.H.N.to_dense(), matrix @ matrix.mH)


def test_zero_tiles_have_both_lengths_of_a_name_that_means_two_dimensions() -> None:
    there = Dense(torch.rand(3, 2, dtype=torch.complex128), ("M", "E"))
    back = Dense(torch.rand(4, 2, 3, dtype=torch.complex128), ("E", "F", "M"), oshape=("E", "F"))
    A = PadLast([6], [2], ("F",), ("H",), ("E",)) @ back @ there
    assert (A.sizes("input"), A.sizes("output")) == ((2,), (4, 6))
    for size in (1, 2, 4):
        assert_tiles_make_the_whole(A, {"H": size})
        assert_tiles_make_the_whole(A.H, {"H": size, "M": 2})


def test_normals_of_normals_of_zero_tiles_can_be_cut() -> None:
    pad = PadDim("B", 3, 4, ("C", "B"), ("C", "A"))
    A = pad @ Dense(torch.rand(4, 3, 2, dtype=torch.complex128), ("C", "B", "N"), oshape=("C", "B"))
    for linop in (pad, A):
        twice = batch_linop(linop, {"A": 1}).N.N
        sizes = {"C": 4, "B": 3, "N": 2}
        matrix = linop.to_dense(sizes)
        again = batch_linop(twice, {"B": 2})
        normal = matrix.mH @ matrix
        result = again.to_dense(sizes)
        torch.testing.assert_close(result, (normal @ normal).to(result.dtype))


def test_a_part_that_is_zero_must_know_its_length_to_be_cut_off() -> None:
    tile = around(FFT(1, ("C",)), {C: (slice(1, 3), 4)})
    with pytest.raises(
        SplitError, match=r"zero at \{'C': slice\(0, 1, None\)\}; to cut there, each"
    ):
        tile.split(tile, {C: slice(0, 1)})


def test_a_tile_without_a_term_of_a_sum_has_lengths_of_its_own() -> None:
    """Of (B^T B + I/2)^2, the identity of the first factor is in the first tile alone."""
    blur = Convolution(torch.randn(3), (), ("N",), ("M",), grid_size=(4,))
    square = (blur.N + 0.5 * Identity()) ** 2
    tiles, _, _ = split_linop(square, {"M": 2})
    part = tiles[1].split(tiles[1], {N: slice(1, 4)})
    assert part.sizes("input") == (3,) and part.sizes("output") == (4,)
    assert part(torch.ones(3)).shape == (4,)
    assert_tiles_make_the_whole(square, {"M": 2})
