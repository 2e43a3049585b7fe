"""Differences cut along grid and components, several dimensions at once: with their halos."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import NamedLinop
from linops_imaging import FiniteDifference, Gradient, Laplacian, SymmetrizedGradient
from linops_split import batch_linop
from linops_split.testing import assert_tiles_make_the_whole, batch_sizes

boundaries = st.sampled_from(["zeros", "circular", "replicate"])
schemes = st.sampled_from(["forward", "backward", "central"])


@st.composite
def differences(draw: st.DrawFn) -> NamedLinop:
    """An operator on a small grid, whose output has other names."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))
    boundary, scheme = draw(boundaries), draw(schemes)
    dims, to = ("Nx", "Ny"), ("Mx", "My")
    return draw(
        st.sampled_from(
            [
                FiniteDifference("Ny", sizes[1], scheme, boundary, shape=("Ny",), to="My"),
                Gradient(dims, sizes, "D", scheme, boundary, shape=dims, to=to),
                SymmetrizedGradient(dims, sizes, "D", "S", scheme, boundary, shape=dims, to=to),
                Laplacian(dims, sizes, boundary, shape=dims, to=to),
            ]
        )
    )


@given(st.data(), differences())
def test_tiles_make_the_whole(data: st.DataObject, A: NamedLinop) -> None:
    assert_tiles_make_the_whole(A, data.draw(batch_sizes(A)))


@pytest.mark.parametrize("boundary", ["zeros", "circular", "replicate"])
def test_the_normal_is_cut_along_the_grid(boundary: str) -> None:
    G = Gradient(("Nx", "Ny"), [9, 8], boundary=boundary, to=("Mx", "My"))
    x = torch.randn(2, 9, 8, dtype=torch.complex128)
    tiles = {"Nx": 3, "Ny": 3, "Nx1": 4, "Ny1": 5, "D": 1}
    torch.testing.assert_close(batch_linop(G.N, tiles)(x), G.N(x))
