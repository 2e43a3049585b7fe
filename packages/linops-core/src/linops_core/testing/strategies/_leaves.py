"""The strategies of all operators of the package, and any of them."""

from __future__ import annotations

from hypothesis import strategies as st

from ._blocks import blocks
from ._grid_operators import centred_pads, convolutions, interpolations, samplings, transforms
from ._known import Known, Leaf
from ._matrices import (
    dense_operators,
    diagonals,
    identities,
    opaque_operators,
    plain_functions,
    scalars,
    zeros,
)
from ._shape_operators import end_pads, rearrangements, repeats, sums
from ._spaces import Spaces

LEAVES: tuple[Leaf, ...] = (
    dense_operators,
    diagonals,
    transforms,
    samplings,
    scalars,
    identities,
    zeros,
    opaque_operators,
    centred_pads,
    end_pads,
    rearrangements,
    repeats,
    sums,
    plain_functions,
    blocks,
    convolutions,
    interpolations,
)
"""A strategy for each operator of the package; called with :class:`Spaces` it stays between."""


def leaves(where: Spaces | None = None) -> st.SearchStrategy[Known]:
    """Any operator of the package, between the given spaces if any.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(leaves())
    ... def test_twice_the_adjoint(known):
    ...     assert known.linop.H.H.shape == known.linop.shape
    >>> test_twice_the_adjoint()
    """
    return st.one_of([strategy(where) for strategy in LEAVES])
