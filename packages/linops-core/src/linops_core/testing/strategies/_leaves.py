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
from ._known import Known, Leaf
from ._spaces import Spaces

LEAVES: tuple[Leaf, ...] = (
    _matrices.dense_operators,
    _matrices.kronecker_products,
    _matrices.diagonals,
    _matrices.diagonal_powers,
    _grid_operators.transforms,
    _grid_operators.samplings,
    _matrices.scalars,
    _matrices.identities,
    _matrices.real_parts,
    _matrices.zeros,
    _matrices.opaque_operators,
    _grid_operators.centred_pads,
    _shape_operators.end_pads,
    _shape_operators.rearrangements,
    _shape_operators.repeats,
    _shape_operators.sums,
    _matrices.plain_functions,
    _blocks.blocks,
    _grid_operators.convolutions,
    _grid_operators.interpolations,
    _real_transforms.half_spectra,
    _real_transforms.cosine_transforms,
    _flat_stacks.flat_stacks,
    _moves.picks,
    _moves.rolls,
    _moves.fourier_shifts,
)
"""A strategy for each operator of the package; :class:`Spaces` as argument fix its spaces."""


def leaves(where: Spaces | None = None) -> st.SearchStrategy[Known]:
    """Any operator of the package, between the given spaces if any; used as :func:`trees`."""
    return st.one_of([strategy(where) for strategy in LEAVES])
