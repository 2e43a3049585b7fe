"""Rows of tiles against the tiles themselves, one by one.

Shapes: C coil, M rows, N columns, Nx Ny image, Kx Ky k-space.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Chain, Dense, Diagonal, NamedLinop, Row, Sampling, SliceableLinop, rows
from nameddim import ND, NamedShape

N_TILES = 9
LETTERS = ("C", "Nx", "Ny")


def start_of(tile: SliceableLinop) -> int:
    cut = tile._weights["weight"].cut
    assert cut is not None
    return int(cut[0].start)


def random(*lengths: int) -> Tensor:
    return torch.rand(lengths, dtype=torch.complex128)


def matrix() -> NamedLinop:
    """Rows of a matrix, of which each tile has its own."""
    return Dense(random(N_TILES, 2), ("C", "N"))


def columns() -> NamedLinop:
    """Columns, which stand along the second axis of the weight."""
    return Dense(random(2, N_TILES), ("N", "C"), ("C",), ("N",))


def chain_with_a_weight_for_all() -> NamedLinop:
    D = Diagonal(random(1, 2), ("C", "N"), ("C",))
    return D @ Dense(random(N_TILES, 2), ("C", "N"), ("N",), ("C", "N"))


def coils() -> NamedLinop:
    """The FFT and the mask are the same operators in all tiles."""
    maps = Dense(random(N_TILES, 3, 2), LETTERS, LETTERS[1:], LETTERS)
    return Diagonal(torch.rand(3, 2), ("...", "Kx", "Ky")) @ FFT(2) @ maps


def samples() -> NamedLinop:
    """An operator that remembers what it checked."""
    return Sampling((torch.arange(N_TILES) % 4,), (4,), ("C",), ("Kx",))


MADE = [matrix, columns, chain_with_a_weight_for_all, coils, samples]


def tiles_along_c(A: NamedLinop, length: int = 1) -> list[NamedLinop]:
    starts = range(0, N_TILES, length)
    return A.tiles_along(ND.infer("C"), [slice(k, min(k + length, N_TILES)) for k in starts])


def part_of(A: NamedLinop) -> NamedLinop:
    """Return what is left of the operator when it is cut along all other dimensions too."""
    last = {dim: slice(1, 2) for dim in A.dims if dim != "C" and A.size(dim) == 2}
    return A.split(A, {dim: piece for dim, piece in last.items() if A.why_opaque(dim) is None})


def input_of(tile: NamedLinop) -> Tensor:
    grid = {"Kx": 3, "Ky": 2, "Kx1": 3}
    return random(*(tile.size(dim) or grid[str(dim)] for dim in tile.ishape if dim != "..."))


def results(tiles: list[NamedLinop], inputs: list[Tensor]) -> list[Tensor]:
    found: list[Tensor] = []
    for row in rows(tiles):
        found += row.results(inputs[len(found) : len(found) + len(row.tiles)])
    return found


@st.composite
def any_tiles(draw: st.DrawFn) -> list[NamedLinop]:
    """Return tiles of a few operators in any order, in runs forth and back."""
    made = draw(st.lists(st.sampled_from(MADE), min_size=1, max_size=3))
    linops = [make() for make in made]
    linops = [draw(st.sampled_from([A, A.H, A.conj(), A.H.H, part_of(A)])) for A in linops]
    tiles: list[NamedLinop] = []
    for _ in range(draw(st.integers(1, 4))):
        row = tiles_along_c(draw(st.sampled_from(linops)), draw(st.sampled_from([1, 1, 2])))
        start, stop = draw(st.sampled_from([0, 1, 4])), draw(st.sampled_from([9, 9, 5]))
        tiles += row[start:stop][:: draw(st.sampled_from([1, 1, 1, -1, 2]))]
    return tiles


@given(any_tiles())
def test_rows_return_what_their_tiles_return(tiles: list[NamedLinop]) -> None:
    inputs = [input_of(tile) for tile in tiles]
    found = rows(tiles)
    assert [tile for row in found for tile in row.tiles] == tiles
    expected = [tile(x) for tile, x in zip(tiles, inputs, strict=True)]
    torch.testing.assert_close(results(tiles, inputs), expected)
    left = iter(expected)
    for row in found:
        if len(row.tiles) > 1:
            assert len({input_of(tile).shape for tile in row.tiles}) == 1
        assert len({(y.shape, y.dtype) for y in islice(left, len(row.tiles))}) == 1


@pytest.mark.parametrize("make", [matrix, columns, chain_with_a_weight_for_all, coils])
def test_what_reads_one_part_after_the_other_is_one_row(make: Any) -> None:
    A = make()
    of_adjoint = [tile.H for tile in tiles_along_c(A)]
    of_part = tiles_along_c(part_of(A))
    for tiles in (tiles_along_c(A), tiles_along_c(A.H), of_adjoint, of_part):
        (row,) = rows(tiles)
        assert row.passed_over
        assert {*row.passed_over} >= {*tiles}
        inputs = [input_of(tile) for tile in tiles]
        expected = [tile(x) for tile, x in zip(tiles, inputs, strict=True)]
        torch.testing.assert_close([*row.results(inputs)], expected)


@pytest.mark.parametrize("make", [matrix, chain_with_a_weight_for_all, coils])
def test_the_first_tile_alone_makes_its_view(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    original = SliceableLinop.weight_part

    def weight_part(self: SliceableLinop, name: str) -> Tensor:
        names.append(self.name)
        return original(self, name)

    monkeypatch.setattr(SliceableLinop, "weight_part", weight_part)
    tiles = tiles_along_c(make())
    [*rows(tiles)[0].results([input_of(tile) for tile in tiles])]
    assert names.count("Dense") == 1


def test_the_last_and_shorter_tile_is_in_a_row_of_its_own() -> None:
    tiles = tiles_along_c(matrix(), 2)
    assert [len(row.tiles) for row in rows(tiles)] == [4, 1]
    assert [row.passed_over for row in rows(tiles)] == [[], []]  # there are too few


def test_no_tiles_are_no_rows() -> None:
    assert rows([]) == []
    assert [*Row([]).results([])] == []


@pytest.mark.parametrize("way", ["replace", "data", "write"])
def test_weights_are_looked_up_at_each_call(way: str) -> None:
    A = Dense(nn.Parameter(random(N_TILES, 2)), ("C", "N"))
    tiles = tiles_along_c(A)
    (row,) = rows(tiles)
    inputs = [random(2)] * N_TILES
    with torch.no_grad():
        before = [*row.results(inputs)]
        if way == "replace":
            A.weight = nn.Parameter(random(N_TILES, 2))
        elif way == "data":
            A.weight.data = random(N_TILES, 2)
        else:
            A.weight.mul_(2)
        found = [*row.results(inputs)]
        torch.testing.assert_close(torch.cat(found), A.weight @ inputs[0])
    assert not any(torch.equal(*pair) for pair in zip(before, found, strict=True))


def test_a_weight_of_another_shape_is_refused_by_the_tiles() -> None:
    A = Dense(nn.Parameter(random(N_TILES, 2)), ("C", "N"))
    (row,) = rows(tiles_along_c(A))
    [*row.results([random(2)] * N_TILES)]
    A.weight = nn.Parameter(random(N_TILES + 1, 2))
    with pytest.raises(ValueError, match="must keep the shape that it was cut from"):
        [*row.results([random(2)] * N_TILES)]


def test_a_wrong_input_is_refused_by_the_first_tile() -> None:
    (row,) = rows(tiles_along_c(matrix()))
    with pytest.raises(ValueError, match="N must have size 2"):
        [*row.results([random(3)] * N_TILES)]


@pytest.mark.parametrize("part", [0, 1, "chain"])
def test_what_has_hooks_is_called(part: Any) -> None:
    tiles = tiles_along_c(chain_with_a_weight_for_all())
    tile = tiles[8]
    assert isinstance(tile, Chain)
    hooked = tile if part == "chain" else tile.linops[part]
    calls = list[Tensor]()
    hooked.register_forward_hook(lambda linop, args, y: calls.append(y))
    assert [len(row.tiles) for row in rows(tiles)] == [8, 1]
    results(tiles, [input_of(tile) for tile in tiles])
    assert len(calls) == 1


def test_the_same_tile_again_and_again_is_called() -> None:
    A = chain_with_a_weight_for_all()
    calls = []
    A.register_forward_hook(lambda linop, args, y: calls.append(y))
    results([A] * N_TILES, [random(2)] * N_TILES)
    assert len(calls) == N_TILES


@pytest.mark.parametrize("path", ["diagonal", "around the corner"])
def test_a_row_moves_along_one_axis(path: str) -> None:
    A = Dense(random(N_TILES, N_TILES), ("C", "N"))
    last = N_TILES - 1
    places = [(k, k) for k in range(N_TILES)]
    if path == "around the corner":
        places = [(k, 0) for k in range(N_TILES)] + [(last, k) for k in range(1, N_TILES)]
    tiles = [
        A.split(A, {ND.infer("C"): slice(row, row + 1), ND.infer("N"): slice(column, column + 1)})
        for row, column in places
    ]
    inputs = [random(1)] * len(tiles)
    expected = [tile(x) for tile, x in zip(tiles, inputs, strict=True)]
    torch.testing.assert_close(results(tiles, inputs), expected)


def test_rows_of_different_operators_follow_each_other() -> None:
    tiles = [tile for make in (*MADE, *reversed(MADE)) for tile in tiles_along_c(make())]
    inputs = [input_of(tile) for tile in tiles]
    expected = [tile(x) for tile, x in zip(tiles, inputs, strict=True)]
    torch.testing.assert_close(results(tiles, inputs), expected)


def test_what_a_class_does_otherwise_is_done() -> None:
    class Doubled(Diagonal):
        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            return Diagonal.fn(linop, x) + start_of(linop)

    class Read(Diagonal):
        def weight_part(self, name: str) -> Tensor:
            return super().weight_part(name) + start_of(self)

    class Called(Diagonal):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + start_of(self)

    class Own(SliceableLinop):
        def __init__(self, gain: Tensor, shape: tuple[str, ...]) -> None:
            super().__init__(NamedShape(shape, gain_shape=shape))
            self.register_weight("gain", gain, "gain_shape")
            self._calls = [0]

        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            linop._calls[0] += 1
            return linop._calls[0] * linop.weight_part("gain") * x  # type: ignore[no-any-return]

    for kind in (Doubled, Read, Called, Own):
        tiles = tiles_along_c(kind(random(N_TILES), ("C",)))
        assert not any(row.passed_over for row in rows(tiles))


def test_an_operator_that_may_return_anything_is_asked_for_each_tile() -> None:
    class Skip(SliceableLinop):
        def __init__(self) -> None:
            super().__init__(NamedShape(("C",)))

        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            return x * 1j if x.any() else x.real

    tiles = tiles_along_c(Skip() @ Diagonal(random(N_TILES), ("C",)))
    assert not any(row.passed_over for row in rows(tiles))


def test_tiles_whose_weights_are_shifted_shift_them() -> None:
    shifted = Diagonal(random(N_TILES, 2), ("C", "N")).without_fftshift([ND.infer("N")])
    assert shifted is not None
    tiles = tiles_along_c(shifted)
    inputs = [random(1, 2)] * N_TILES
    expected = [tile(x) for tile, x in zip(tiles, inputs, strict=True)]
    torch.testing.assert_close(results(tiles, inputs), expected)


def test_tiles_that_differ_in_an_attribute_are_in_no_row() -> None:
    tiles = tiles_along_c(matrix())
    vars(tiles[5])["_forward"] = tiles[5]._backward
    assert [len(row.tiles) for row in rows(tiles)] == [5, 1, 3]
    tiles = tiles_along_c(matrix())
    others = [tile.with_weights(torch.clone) for tile in tiles]
    assert len(rows(others)) == N_TILES


def test_tiles_of_other_dimensions_are_in_no_row() -> None:
    A = Dense(random(N_TILES, 2), ("C", "N"), ("...", "N"), ("...", "C"))
    tiles = tiles_along_c(A)
    named = [tile.resolved(ishape=ND.infer(("B", "N"))) for tile in tiles]
    assert [len(row.tiles) for row in rows([*tiles[:3], *named[3:]])] == [3, 6]
    chains: Any = tiles_along_c(chain_with_a_weight_for_all())
    shorter = [chain.with_operands(chain.linops[:1]) for chain in chains[4:]]
    assert [len(row.tiles) for row in rows([*chains[:4], *shorter])] == [4, 5]
