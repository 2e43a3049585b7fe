"""Trees of sums and blocks taken apart: the parts, where they read and write, make up the tree.

Shapes: M rows, N columns, C coils.
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Add,
    Concat,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Scalar,
    SimpleLinop,
    Zero,
)
from linops_split import Narrowed, Tiled, Tiling
from nameddim import ND

M, N = ND.infer(("M", "N"))


class OwnSum(Add):
    """A sum that does something of its own with its terms."""

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return 2 * Add.fn(linop, x)

    @staticmethod
    def adj_fn(linop: Any, y: Tensor, /) -> Tensor:
        total: Tensor = 2 * sum((term.H(y) for term in linop.linops[1:]), linop.linops[0].H(y))
        return total


@st.composite
def blocks(draw: st.DrawFn, rows: int, columns: int, depth: int = 3) -> NamedLinop:
    """An operator (N) -> (M) of these sizes: a tree of sums and blocks, or a leaf."""
    kinds = ["dense", "real", "zero", "narrowed"]
    if depth:
        kinds += ["add", "own sum"] + ["rows"] * (rows > 1) + ["columns"] * (columns > 1)
    kind = draw(st.sampled_from(kinds))
    options = {"threaded": True, "num_workers": 2} if draw(st.integers(0, 9)) == 0 else {}
    if kind in ("add", "own sum"):
        terms = [draw(blocks(rows, columns, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        return (Add if kind == "add" else OwnSum)(*terms, **options)  # type: ignore[arg-type]
    if kind in ("rows", "columns"):
        length = rows if kind == "rows" else columns
        first = draw(st.integers(1, length - 1))
        sides = {"odim": "M"} if kind == "rows" else {"idim": "N"}
        parts = [
            draw(blocks(n, columns, depth - 1) if kind == "rows" else blocks(rows, n, depth - 1))
            for n in (first, length - first)
        ]
        return Concat(*parts, **sides, **options)  # type: ignore[arg-type]
    if kind == "zero":
        return Zero(("N",), ("M",), sizes={"M": rows, "N": columns})
    if kind == "narrowed":
        reads, writes = draw(pieces(columns)), draw(pieces(rows))
        part = dense(writes.stop - writes.start, reads.stop - reads.start, torch.complex128)
        return Narrowed(part, {N: (reads, columns), M: (writes, rows)})
    return dense(rows, columns, torch.float64 if kind == "real" else torch.complex128)


@st.composite
def pieces(draw: st.DrawFn, length: int) -> slice:
    start = draw(st.integers(0, length - 1))
    return slice(start, draw(st.integers(start + 1, length)))


def dense(rows: int, columns: int, dtype: torch.dtype = torch.complex128) -> Dense:
    return Dense(torch.rand(rows, columns, dtype=dtype), ("M", "N"))


sizes = st.integers(1, 4)


@given(st.data(), sizes, sizes)
def test_the_parts_of_any_tree_make_the_tree(data: st.DataObject, rows: int, columns: int) -> None:
    whole = data.draw(blocks(rows, columns))
    tiled = Tiled(whole)
    assert tiled.written(torch.rand(columns)) is not None
    for linop, tree in ((tiled, whole), (tiled.H, whole.H), (tiled.conj(), whole.conj())):
        torch.testing.assert_close(linop.to_dense(), tree.to_dense())
    torch.testing.assert_close(tiled.N.to_dense(), whole.to_dense().mH @ whole.to_dense())


@given(st.data(), sizes, sizes)
def test_results_have_the_dtype_of_the_tree(data: st.DataObject, rows: int, columns: int) -> None:
    whole = data.draw(blocks(rows, columns))
    x = torch.rand(columns, dtype=data.draw(st.sampled_from([torch.float32, torch.complex64])))
    found, wanted = Tiled(whole)(x), whole(x)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted)


@given(st.data(), sizes, sizes)
def test_windows_and_views_say_the_same(data: st.DataObject, rows: int, columns: int) -> None:
    tiling = Tiling(data.draw(blocks(rows, columns)))
    x, y = torch.arange(columns), torch.arange(rows)
    views = zip(tiling.parts, tiling.inputs(x), tiling.outputs(y), strict=True)
    for part, read, written in views:
        assert torch.equal(read, x[part.reads.get(N, slice(None))])
        assert torch.equal(written, y[part.writes.get(M, slice(None))])


@given(st.data(), sizes, sizes)
def test_where_no_part_adds_all_is_written_once(
    data: st.DataObject, rows: int, columns: int
) -> None:
    tiling = Tiling(data.draw(blocks(rows, columns)))
    writes = torch.zeros(rows)
    for part, place in zip(tiling.parts, tiling.outputs(writes), strict=True):
        place += not part.adds
    if tiling.fills:
        assert torch.equal(writes, torch.ones(rows))
    assert tiling.output_shape([7]) in ([rows], [7])


def test_what_has_hooks_threads_or_a_class_of_its_own_is_one_tile() -> None:
    A, B = dense(2, 3), dense(2, 3)
    hooked = Add(A, B)
    hooked.register_forward_pre_hook(lambda *_: None)
    for whole in (hooked, OwnSum(A, B), Add(A, B, threaded=True)):
        (part,) = Tiling(whole).parts
        assert part.linop is whole
    assert [part.linop for part in Tiling(Add(A, B)).parts] == [A, B]


def test_a_hook_of_a_tile_that_uses_a_part_sees_the_whole() -> None:
    tile = Narrowed(dense(2, 2), {N: (slice(1, 3), 4), M: (slice(0, 2), 3)})
    tiled = Tiled(Add(tile, dense(3, 4)))
    x = torch.rand(4)
    wanted = tiled(x)
    seen: list[Tensor] = []
    tile.register_forward_hook(lambda _, args, result: seen.extend([*args, result]))
    torch.testing.assert_close(tiled(x), wanted)
    assert [len(tensor) for tensor in seen] == [4, 3]


def test_a_term_that_is_zero_is_no_tile() -> None:
    A, zero = dense(2, 3), Zero(("N",), ("M",), sizes={"M": 2, "N": 3})
    assert [part.linop for part in Tiling(Add(A, zero)).parts] == [A]
    assert [part.linop for part in Tiling(Add(zero, A)).parts] == [zero, A]


def test_real_tiles_before_complex_ones_are_promoted() -> None:
    A, B = dense(2, 3, torch.float64), dense(1, 3)
    whole = Concat(A, B, A, odim="M")
    x = torch.rand(3, dtype=torch.float64)
    torch.testing.assert_close(Tiled(whole)(x), whole(x))
    assert Tiled(Add(A, dense(2, 3), A))(x).dtype == torch.complex128


def test_dimensions_hidden_by_an_ellipsis_go_through() -> None:
    A, B = (Diagonal(torch.rand(n), ("...", "N")) for n in (2, 3))
    tiled = Tiled(Concat(Add(A, A), B, idim="N", odim="N"))
    for lengths in ([5], [4, 5], [2, 0, 5], [0, 5]):
        x = torch.rand(lengths)
        torch.testing.assert_close(tiled(x), tiled.whole(x))
    F = FFT(1, batch_shape=("C",))
    front = Tiled(Concat(F, F, idim="C", odim="C", isizes=[1, 2], osizes=[1, 2]))
    x = torch.rand(3, 4, dtype=torch.complex128)
    torch.testing.assert_close(front(x), F(x))


def test_a_result_that_is_a_view_of_the_input_is_not_written_into() -> None:
    x = torch.rand(3)
    before = x.clone()
    for whole in (Add(Identity(("N",)), Scalar(2.0, ("N",))), Add(*[Identity(("N",))] * 2)):
        y = Tiled(whole)(x)
        y.zero_()
        assert torch.equal(x, before)


def test_a_tile_that_returns_another_shape_is_named() -> None:
    class Longer(Dense):
        @staticmethod
        def fn(linop: Dense, x: Tensor, /) -> Tensor:
            return torch.cat([Dense.fn(linop, x)] * 2)

    A, wrong = dense(2, 3), Longer(torch.rand(2, 3, dtype=torch.complex128))
    x = torch.rand(3, dtype=torch.complex128)
    for whole in (Concat(A, wrong, odim="M"), Add(A, wrong), Concat(wrong, A, odim="M")):
        with pytest.raises(
            ValueError, match=r"Longer.*(a tile must return shape|M must have size 2, got 4)"
        ):
            Tiled(whole)(x)


@pytest.mark.parametrize("n_before", [1, 9])
def test_a_tile_is_refused_whose_result_would_be_repeated_to_fit(n_before: int) -> None:
    good = Diagonal(torch.rand(2 * n_before, dtype=torch.complex128), ("N",))
    tiles = good.tiles_along(ND("N"), [slice(2 * k, 2 * k + 2) for k in range(n_before)])
    short = SimpleLinop(lambda x: x[:1], lambda x: x, ishape=("N",))
    lengths = (2,) * (n_before + 1)
    in_place = Concat(*tiles, short, idim="N", odim="N", isizes=lengths, osizes=lengths)
    for whole in (in_place, Add(*tiles, short)):
        x = torch.rand(2 * len(lengths) if whole is in_place else 2, dtype=torch.complex128)
        with pytest.raises(ValueError, match=r"a tile must return shape \(2,\), got \(1,\)"):
            Tiled(whole)(x)
