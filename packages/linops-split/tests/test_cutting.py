"""Operators that users wrote: with a split of their own, with that of SliceableLinop, with none.

Shapes: M rows, N columns, K inner.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Add, Chain, Concat, Dense, Diagonal, NamedLinop, SliceableLinop, SplitError
from linops_core.siblings import own_window
from linops_split import batch_linop, split_linop
from linops_split.testing import assert_tiles_make_the_whole
from nameddim import ND, NamedDimension, NamedShape

M, N = ND.infer(("M", "N"))


class Scale(SliceableLinop):
    """Multiplication with a gain, cut by the names of its weight."""

    def __init__(self, gain: Tensor) -> None:
        super().__init__(NamedShape(("M", "N"), gain_shape=("N",)))
        self.register_weight("gain", gain, "gain_shape")

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.weight_part("gain") * x  # type: ignore[no-any-return]

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.weight_part("gain").conj() * x  # type: ignore[no-any-return]


class Matrix(NamedLinop):
    """A matrix that is cut once: the tiles do not say how to split them again."""

    def __init__(
        self, weight: Tensor, names: tuple[str, ...] = ("M", "N"), *, is_tile: bool = False
    ) -> None:
        super().__init__(NamedShape(names[1:], names[:1], weight=names))
        self.register_buffer("weight", weight)
        self.is_tile = is_tile

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return torch.mv(linop.weight, x)

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        return torch.mv(linop.weight.mH, x)

    def size(self, dim: NamedDimension | str) -> int | None:
        sizes = zip(self.shape.other_shapes["weight"], self.get_buffer("weight").shape, strict=True)
        return dict(sizes).get(ND.infer(dim))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        return "it was cut already" if self.is_tile else None

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        window = own_window(linop, tile)
        if not window:
            return linop  # type: ignore[no-any-return]
        names = linop.shape.other_shapes["weight"]
        part = linop.weight[tuple(window.get(dim, slice(None)) for dim in names)]
        return Matrix(part, names, is_tile=True)


def matrix(rows: int = 4, columns: int = 5) -> Matrix:
    return Matrix(torch.rand(rows, columns, dtype=torch.complex128))


sides = st.integers(1, 6)


@given(sides, sides)
def test_a_sliceable_operator_is_cut_like_ours(rows: int, columns: int) -> None:
    A = Scale(torch.rand(5, dtype=torch.complex128)) @ Diagonal(
        torch.rand(4, 5, dtype=torch.complex128), ("M", "N")
    )
    assert_tiles_make_the_whole(A, {"M": rows, "N": columns})


@pytest.mark.parametrize("kind", [Chain, Diagonal])
def test_a_class_that_says_how_to_split_is_asked_for_each_tile(kind: type[NamedLinop]) -> None:
    asked = []

    class Asked(kind):  # type: ignore[misc, valid-type]
        @staticmethod
        def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
            asked.append(dict(tile))
            return kind.split(linop, tile)

        adj_split = split

    D = Diagonal(torch.rand(4), ("N",))
    A = Asked(D, D) if kind is Chain else Asked(torch.rand(4), ("N",))
    for linop in (A, A.H):
        asked.clear()
        split_linop(linop, {"N": 3})
        assert [[*tile.values()] for tile in asked] == [[slice(0, 3)], [slice(3, 4)]]


@given(sides, sides)
def test_tiles_that_cannot_be_cut_again_are_cut_from_the_whole(rows: int, columns: int) -> None:
    sizes = {"M": rows, "N": columns}
    assert_tiles_make_the_whole(matrix(), sizes)
    assert_tiles_make_the_whole(
        matrix() @ Dense(torch.rand(5, 3, dtype=torch.complex128), ("N", "K")), {**sizes, "K": 2}
    )
    assert_tiles_make_the_whole(Add(matrix(), matrix()), sizes)


def test_an_operator_without_split_is_refused_by_its_name() -> None:
    class Flip(NamedLinop):
        @staticmethod
        def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
            return x.flip(0)

        adj_fn = fn

    A = matrix() @ Flip(NamedShape(("N",)))
    with pytest.raises(SplitError, match=r"N cannot be split: Flip \(N\) -> \(N\): the operator"):
        split_linop(A, {"N": 2})
    assert_tiles_make_the_whole(A, {"M": 2}, {"N": 5})


def with_split(result: object) -> Matrix:
    class Wrong(Matrix):
        @staticmethod
        def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
            return result  # type: ignore[return-value]

    return Wrong(torch.rand(4, 5, dtype=torch.complex128))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, r"Wrong \(N\) -> \(M\): split must return a NamedLinop, got None"),
        (Dense(torch.rand(2, 5), ("M", "K")), "between the same dimensions, got Dense .K. -> .M."),
        (Dense(torch.rand(2, 5), ("K", "N")), "between the same dimensions, got Dense .N. -> .K."),
        (matrix(3, 5), r"in which M has size 2 for slice\(0, 2, None\), got 3"),
    ],
)
def test_what_cannot_be_a_tile_is_refused(result: object, message: str) -> None:
    A = with_split(result)
    before, after = Dense(torch.rand(5, 3), ("N", "K")), Diagonal(torch.rand(4), ("M",))
    for linop in (A, after @ A @ before, A + matrix(), A.conj(), Concat(A, matrix(), odim="M")):
        for cut in (split_linop, batch_linop):
            with pytest.raises(SplitError, match=message):
                cut(linop, {"M": 2})


def test_what_a_row_has_in_common_is_cut_once() -> None:
    A = Dense(torch.rand(3, 4), ("K", "M")) @ Dense(torch.rand(4, 5), ("M", "N"))
    tiles, _, _ = split_linop(A, {"M": 2, "N": 1})
    for row in tiles:
        assert len({id(tile.linops[1]) for tile in row}) == 1


@given(st.data())
def test_several_dimensions_at_once_are_the_same_as_one_after_the_other(
    data: st.DataObject,
) -> None:
    A = data.draw(st.sampled_from([matrix(), Dense(torch.rand(4, 5)), Dense(torch.rand(4, 5)).N]))
    dims = sorted(A.dims & {M, N})
    sizes = {dim: data.draw(sides) for dim in data.draw(st.permutations(dims))}
    tiles, ibatches, _ = (grid.ravel().tolist() for grid in split_linop(A, sizes))
    for tile, ibatch in zip(tiles, ibatches, strict=True):
        x = torch.rand(5, dtype=torch.complex128)[tuple(ibatch)]
        assert tile(x).shape == tuple(tile.size(dim) for dim in tile.oshape)
