"""Sizes that no operator knows: asked for, and checked against what is called.

Shapes: C coils, Nx image, Kx k-space.
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import FFT, Dense, Diagonal, Identity, NamedLinop, Scalar, SplitError
from linops_split import batch_linop, split_linop, tile_grid, tile_lengths
from linops_split.testing import assert_tiles_make_the_whole

UNKNOWN = [FFT(1, batch_shape=("C",)), Scalar(2.0, ("C", "Nx")), Identity(("C", "Nx"))]


def test_a_size_that_nobody_knows_is_asked_for() -> None:
    with pytest.raises(SplitError, match=r"C must be known .* give it, as in sizes=\{'C': 8\}"):
        split_linop(UNKNOWN[0], {"C": 2})
    assert tile_lengths(tile_grid(UNKNOWN[0], {"C": 3}, sizes={"C": 8})) == {"C": [3, 3, 2]}


@given(st.sampled_from(UNKNOWN), st.integers(1, 5), st.integers(1, 6))
def test_with_a_size_it_is_cut(A: NamedLinop, n_coils: int, batch_size: int) -> None:
    batched = batch_linop(A, {"C": batch_size}, sizes={"C": n_coils})
    x = torch.rand(n_coils, 4, dtype=torch.complex128)
    torch.testing.assert_close(batched(x), A(x))
    torch.testing.assert_close(batched.H(x), A.H(x))
    torch.testing.assert_close(batched.N(x), A.N(x))
    tiles, ibatches, obatches = split_linop(A, {"C": batch_size}, sizes={"C": n_coils})
    for tile, ibatch, obatch in zip(tiles, ibatches, obatches, strict=True):
        torch.testing.assert_close(tile(x[tuple(ibatch)]), A(x)[tuple(obatch)])


def test_a_size_that_was_given_is_checked_when_it_is_called() -> None:
    batched = batch_linop(UNKNOWN[0], {"C": 2}, sizes={"C": 3})
    for linop in (batched, batched.H, batched.N):
        with pytest.raises(ValueError, match="C must have size 3, got 4"):
            linop(torch.rand(4, 5, dtype=torch.complex128))


def test_a_size_is_found_along_a_chain() -> None:
    A = FFT(1, batch_shape=("C",)) @ Dense(
        torch.rand(3, 4, dtype=torch.complex128), ("C", "Nx"), ("Nx",), ("C", "Nx")
    )
    assert_tiles_make_the_whole(A, {"C": 2})
    assert batch_linop(A, {"C": 2}, sizes={"C": 3}).size("C") == 3


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"C": 4}, r"Dense \(Nx\) -> \(C\): C must have size 3, got 4 in sizes"),
        ({"Q": 4}, r"the dimension to split must be one of \['C', 'Nx'\], got Q"),
        ({"C": 0}, r"Dense \(Nx\) -> \(C\): C must have size 3, got 0 in sizes"),
        ({"C": 3.0}, r"the size of C must be an integer, at least 0, got 3\.0"),
    ],
)
def test_a_size_that_is_wrong_is_refused(sizes: dict[str, int], message: str) -> None:
    A = Dense(torch.rand(3, 4), ("C", "Nx"))
    for cut in (tile_grid, split_linop, batch_linop):
        with pytest.raises(SplitError, match=message):
            cut(A, {"C": 2}, sizes=sizes)


@pytest.mark.parametrize(
    ("linop", "batch_sizes", "sizes", "message"),
    [
        (None, {"C": 2}, None, "linop must be a NamedLinop, got <class 'NoneType'>"),
        (Diagonal(torch.ones(2), ("C",)), None, None, "Diagonal .*: batch_sizes must be a mapping"),
        (Diagonal(torch.ones(2), ("C",)), {"C": 2}, torch.ones(2), "sizes must be a mapping of"),
    ],
)
def test_what_is_of_another_type_is_refused(
    linop: Any, batch_sizes: Any, sizes: Any, message: str
) -> None:
    for cut in (tile_grid, split_linop, batch_linop):
        with pytest.raises(TypeError, match=message):
            cut(linop, batch_sizes, sizes=sizes)
