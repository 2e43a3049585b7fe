"""The strategies of all operators of the package, and any of them."""

from __future__ import annotations

from hypothesis import strategies as st

from . import (
    _blocks,
    _flat_stacks,
    _grid_operators,
    _matrices,
    _moves,
    _real_transforms,
    _shape_operators,
)
from ._known import MADE, Known, Leaf
from ._spaces import Spaces

MODULES = (
    _matrices,
    _grid_operators,
    _shape_operators,
    _blocks,
    _real_transforms,
    _flat_stacks,
    _moves,
)
LEAVES: tuple[Leaf, ...] = tuple(
    made for module in MODULES for made in MADE if made.__module__ == module.__name__
)
"""A strategy for each operator of the package; :class:`Spaces` as argument fix its spaces."""


def leaves(where: Spaces | None = None) -> st.SearchStrategy[Known]:
    """Any operator of the package, between the given spaces if any; used as :func:`trees`."""
    return st.one_of([strategy(where) for strategy in LEAVES])
