"""Random tables of parts are the sums of what their parts do to slices.

Shapes: C coils, M rows, N columns, K inside.
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Scalar,
    SimpleLinop,
    Zero,
)
from linops_split import Part, Tiled, Tiles
from linops_split._out_of_place import applied_out_of_place
from linops_split.testing import assert_tiles_make_the_whole, batch_sizes
from nameddim import ND, NamedDimension, NamedShape

C, M, N, K = ND.infer(("C", "M", "N", "K"))
SHAPE = NamedShape(("N",), ("M",))


@st.composite
def pieces(draw: st.DrawFn, length: int) -> slice | None:
    if draw(st.booleans()):
        return None
    start = draw(st.integers(0, length - 1))
    return slice(start, draw(st.integers(start + 1, length)))


def length_of(piece: slice | None, length: int) -> int:
    return length if piece is None else piece.stop - piece.start


@st.composite
def tables(draw: st.DrawFn, rows: int, columns: int, dtypes: Any = None) -> Tiles:
    """A table (N) -> (M) of parts with any slices."""
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        result = {M: draw(pieces(rows)), N: draw(pieces(columns))}
        n_rows, n_columns = length_of(result[M], rows), length_of(result[N], columns)
        kind = draw(st.sampled_from(dtypes or [torch.complex128, torch.float64, "zero", "inside"]))
        if kind == "zero":
            linop: NamedLinop = Zero(("N",), ("M",), sizes={"M": n_rows, "N": n_columns})
        elif kind == "inside":
            linop = dense(n_rows, 2, "M", "K") @ dense(2, n_columns, "K", "N")
        else:
            linop = Dense(torch.rand(n_rows, n_columns).mul(9).to(kind), ("M", "N"))
        parts.append(
            Part(linop, {dim: piece for dim, piece in result.items() if piece is not None})
        )
    return Tiles(SHAPE, parts, {M: rows, N: columns})


def dense(rows: int, columns: int, out: str = "M", into: str = "N") -> Dense:
    return Dense(torch.rand(rows, columns, dtype=torch.complex128), (out, into))


def matrix_of(tiles: Tiles) -> Tensor:
    """The matrix of a table, put together by hand."""
    whole = torch.zeros(tiles.lengths[M], tiles.lengths[N], dtype=torch.complex128)
    for part in tiles.parts:
        place = part.window.get(M, slice(None)), part.window.get(N, slice(None))
        whole[place] += part.linop.to_dense()
    return whole


sizes = st.integers(1, 4)


@given(st.data(), sizes, sizes)
def test_a_table_is_the_sum_of_its_parts(data: st.DataObject, rows: int, columns: int) -> None:
    tiles = data.draw(tables(rows, columns))
    A, wanted = Tiled(tiles), matrix_of(tiles)
    torch.testing.assert_close(A.to_dense(), wanted, check_dtype=False)
    torch.testing.assert_close(A.H.to_dense(), wanted.mH, check_dtype=False)
    torch.testing.assert_close(A.conj().to_dense(), wanted.conj(), check_dtype=False)
    torch.testing.assert_close(A.N.to_dense(), wanted.mH @ wanted, check_dtype=False)
    torch.testing.assert_close(A.H.N.to_dense(), wanted @ wanted.mH, check_dtype=False)
    renamed = A.renamed({M: ND("A"), N: ND("B")})
    assert (renamed.ishape, renamed.oshape) == (("B",), ("A",))
    torch.testing.assert_close(renamed.to_dense(), wanted, check_dtype=False)
    assert (A.size("M"), A.size("N")) == (rows, columns)


@given(st.data(), sizes, sizes)
def test_a_table_is_cut_like_any_other_operator(
    data: st.DataObject, rows: int, columns: int
) -> None:
    A = Tiled(data.draw(tables(rows, columns)))
    cut = data.draw(batch_sizes(A).filter(lambda cut: K not in cut))
    assert_tiles_make_the_whole(A, cut)


@given(st.data(), sizes, sizes)
def test_results_are_promoted_to_one_dtype(data: st.DataObject, rows: int, columns: int) -> None:
    dtypes = [torch.float32, torch.complex64, torch.float64, torch.int64, torch.uint8]
    tiles = data.draw(tables(rows, columns, dtypes))
    x = torch.ones(columns, dtype=data.draw(st.sampled_from([torch.float32, torch.complex64])))
    result, wanted = Tiled(tiles)(x), applied_out_of_place(tiles, x)
    assert result.dtype == wanted.dtype
    torch.testing.assert_close(result, wanted)


@given(st.data(), sizes, sizes)
def test_integers_are_summed_in_int64(data: st.DataObject, rows: int, columns: int) -> None:
    tiles = data.draw(tables(rows, columns, [torch.uint8, torch.int32, torch.bool]))
    x = torch.ones(columns, dtype=torch.bool)
    y = Tiled(tiles)(x)
    assert not tiles.output.is_summed or y.dtype == torch.int64
    assert y.dtype == applied_out_of_place(tiles, x).dtype


@given(st.data(), sizes, sizes)
def test_the_views_are_those_of_the_windows(data: st.DataObject, rows: int, columns: int) -> None:
    layout, y = data.draw(tables(rows, columns)).output, torch.arange(rows)
    for view, window in zip(layout.views(y), layout.windows, strict=True):
        (piece,) = window.values() or [slice(None)]
        assert torch.equal(view, y[piece]) and view.data_ptr() == y[piece].data_ptr()


@given(st.data(), sizes, sizes)
def test_slices_without_common_elements_are_in_different_groups(
    data: st.DataObject, rows: int, columns: int
) -> None:
    layout = data.draw(tables(rows, columns)).output
    counts = torch.zeros(rows)
    for view in layout.views(counts):
        view += 1
    for group in layout.groups:
        own = torch.zeros(rows)
        for number in group:
            layout.views(own)[number].fill_(1)
        others = torch.zeros(rows)
        for number in {*range(len(layout.windows))} - {*group}:
            layout.views(others)[number].fill_(1)
        assert not (own * others).any()
    assert bool((counts > 1).any()) <= layout.is_summed
    written = torch.zeros(rows)
    for view, adds in zip(layout.views(written), layout.adds, strict=True):
        view += not adds
    assert not layout.fills or torch.equal(written, torch.ones(rows))


@given(st.data(), sizes, sizes, st.booleans(), st.booleans())
def test_gradients_are_those_of_torch(
    data: st.DataObject, rows: int, columns: int, of_input: bool, of_weights: bool
) -> None:
    tiles = data.draw(tables(rows, columns, [torch.complex128, torch.float64, "inside"]))
    A = Tiled(tiles).requires_grad_(of_weights)
    for tensor in A.buffers():
        tensor.requires_grad_(of_weights)
    x = torch.rand(columns, dtype=torch.complex128, requires_grad=of_input)
    wanted = [x] * of_input + [*A.buffers()] * of_weights
    if not wanted:
        return
    result = torch.autograd.grad(A(x).abs().square().sum(), wanted)
    expected = torch.autograd.grad(applied_out_of_place(tiles, x).abs().square().sum(), wanted)
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_dimensions_hidden_by_an_ellipsis_go_through() -> None:
    A, B = (Diagonal(torch.rand(n), ("...", "N")) for n in (2, 3))
    parts = [Part(linop, {N: piece}) for linop, piece in ((A, slice(0, 2)), (A, slice(0, 2)))]
    tiles = Tiles(A.shape, [*parts, Part(B, {N: slice(2, 5)})], {N: 5})
    weight = torch.cat([2 * A.weight, B.weight])
    for lengths in ([5], [4, 5], [2, 0, 5], [0, 5]):
        x = torch.rand(lengths)
        torch.testing.assert_close(Tiled(tiles)(x), weight * x)
        torch.testing.assert_close(applied_out_of_place(tiles, x), weight * x)
    F, C = FFT(1, batch_shape=("C",)), ND("C")
    front = Tiled(Tiles(F.shape, [Part(F, {C: slice(0, 1)}), Part(F, {C: slice(1, 3)})], {C: 3}))
    x = torch.rand(3, 4, dtype=torch.complex128)
    torch.testing.assert_close(front(x), F(x))


def test_a_result_that_is_a_view_of_the_input_is_not_written_into() -> None:
    x = torch.rand(3)
    before = x.clone()
    identity = Identity(("N",))
    for other in (Scalar(2.0, ("N",)), identity):
        y = Tiled(Tiles(identity.shape, [Part(identity), Part(other)], {}))(x)
        y.zero_()
        assert torch.equal(x, before)


def test_a_tile_that_returns_another_shape_is_named() -> None:
    class Longer(Dense):
        @staticmethod
        def fn(linop: Dense, x: Tensor, /) -> Tensor:
            return torch.cat([Dense.fn(linop, x)] * 2)

    A, wrong = dense(2, 3), Longer(torch.rand(2, 3, dtype=torch.complex128))
    x = torch.rand(3, dtype=torch.complex128)
    rows = {M: slice(0, 2)}, {M: slice(2, 4)}
    for parts, lengths in (
        ([Part(A, rows[0]), Part(wrong, rows[1])], {M: 4}),
        ([Part(A), Part(wrong)], {}),
        ([Part(wrong, rows[0]), Part(A, rows[1])], {M: 4}),
    ):
        with pytest.raises(
            ValueError, match=r"Longer.*(a tile must return shape|M must have size 2, got 4)"
        ):
            Tiled(Tiles(SHAPE, parts, lengths))(x)


@pytest.mark.parametrize("n_before", [1, 9])
@pytest.mark.parametrize("adds", [False, True])
def test_a_tile_is_refused_whose_result_would_be_repeated_to_fit(n_before: int, adds: bool) -> None:
    good = Diagonal(torch.rand(2 * n_before, dtype=torch.complex128), ("N",))
    linops = good.tiles_along(N, [slice(2 * k, 2 * k + 2) for k in range(n_before)])
    linops.append(SimpleLinop(lambda x: x[:1], lambda x: x, ishape=("N",)))
    windows = [{} if adds else {N: slice(2 * k, 2 * k + 2)} for k in range(len(linops))]
    parts = [Part(linop, window) for linop, window in zip(linops, windows, strict=True)]
    x = torch.rand(2 if adds else 2 * len(linops), dtype=torch.complex128)
    for run in (Tiled(Tiles(good.shape, parts, {} if adds else {N: len(x)})),):
        with pytest.raises(ValueError, match=r"a tile must return shape \(2,\), got \(1,\)"):
            run(x)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(TypeError, match="Tiled: tiles must be Tiles, got"):
        Tiled(dense(2, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window", "lengths"),
    [
        ({N: slice(0, 2)}, {}),
        ({C: slice(0, 2)}, {N: 4}),
        *[({N: slice(*ends)}, {N: 4}) for ends in [(2, 6), (-2, 4), (2, 2), (3, 1), (0, 4, 2)]],
        ({N: slice(2, None)}, {N: 4}),
    ],
)
def test_slices_outside_of_the_whole_are_refused(
    window: dict[NamedDimension, slice], lengths: dict[NamedDimension, int]
) -> None:
    A = Identity((N,))
    with pytest.raises(ValueError, match=r"Tiled: slices of \w must have no step and be within"):
        Tiled(Tiles(A.shape, [Part(A, window)], lengths))


def test_parts_that_do_not_belong_to_a_table_are_refused() -> None:
    shape, parts = NamedShape((N,)), [Part(Identity((N,))), Part(Identity((C,)))]
    with pytest.raises(ValueError, match=r"each part must have the shape .*N.*, got Identity .*C"):
        Tiled(Tiles(shape, parts, {}))
    with pytest.raises(ValueError, match="Tiled: tiles must have at least one part, got none"):
        Tiled(Tiles(shape, [], {}))
    with pytest.raises(TypeError, match="Tiled: tiles must have Parts with NamedLinops, got"):
        Tiled(Tiles(shape, [Part("A")], {}))  # type: ignore[arg-type]
