"""What the tests of operators share: slices of an operator to cut it by."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import strategies as st

from linops_core import NamedLinop
from nameddim import NamedDimension

Windows: TypeAlias = st.SearchStrategy[dict[NamedDimension, slice]]


@pytest.fixture(scope="session")
def windows_in() -> Callable[[NamedLinop], Windows]:
    """Slices along some of the dimensions of an operator that knows the sizes of all."""

    def windows(linop: NamedLinop) -> Windows:
        pieces = {dim: slices_in(linop.size(dim) or 0) for dim in linop.dims}
        return st.fixed_dictionaries({}, optional=pieces)

    return windows


@st.composite
def slices_in(draw: st.DrawFn, size: int) -> slice:
    """Slices of a dimension of that size, with both ends."""
    start = draw(st.integers(0, size - 1))
    return slice(start, draw(st.integers(start + 1, size)))
