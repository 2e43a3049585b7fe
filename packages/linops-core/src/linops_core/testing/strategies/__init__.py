"""Hypothesis strategies for operators, each with its matrix, which is built independently.

``leaves()`` draws single operators of this package. ``trees()`` draws nested compositions: chains,
sums, stacks, multiples, adjoints and normal operators. To test your own operator in the same way,
write a strategy with :func:`leaf`, and use :func:`check`; ``trees(own=[...])`` composes it with
the operators of this package.
"""

from .._tiles import LawError as LawError
from ._blocks import blocks as blocks
from ._flat_stacks import flat_stacks as flat_stacks
from ._grid_operators import centred_pads as centred_pads
from ._grid_operators import convolutions as convolutions
from ._grid_operators import interpolations as interpolations
from ._grid_operators import samplings as samplings
from ._grid_operators import transforms as transforms
from ._known import Known as Known
from ._known import between as between
from ._known import check as check
from ._known import leaf as leaf
from ._known import matrix_of as matrix_of
from ._leaves import LEAVES as LEAVES
from ._leaves import leaves as leaves
from ._matrices import dense_operators as dense_operators
from ._matrices import diagonal_powers as diagonal_powers
from ._matrices import diagonals as diagonals
from ._matrices import identities as identities
from ._matrices import kronecker_products as kronecker_products
from ._matrices import opaque_operators as opaque_operators
from ._matrices import plain_functions as plain_functions
from ._matrices import real_parts as real_parts
from ._matrices import scalars as scalars
from ._matrices import zeros as zeros
from ._moves import fourier_shifts as fourier_shifts
from ._moves import picks as picks
from ._moves import rolls as rolls
from ._real_transforms import cosine_transforms as cosine_transforms
from ._real_transforms import half_spectra as half_spectra
from ._shape_operators import end_pads as end_pads
from ._shape_operators import rearrangements as rearrangements
from ._shape_operators import repeats as repeats
from ._shape_operators import sums as sums
from ._spaces import Space as Space
from ._spaces import Spaces as Spaces
from ._spaces import spaces as spaces
from ._trees import sums_of_views as sums_of_views
from ._trees import trees as trees

__all__ = [
    "LEAVES",
    "Known",
    "LawError",
    "Space",
    "Spaces",
    "between",
    "blocks",
    "centred_pads",
    "check",
    "convolutions",
    "cosine_transforms",
    "dense_operators",
    "diagonal_powers",
    "diagonals",
    "end_pads",
    "flat_stacks",
    "fourier_shifts",
    "half_spectra",
    "identities",
    "interpolations",
    "kronecker_products",
    "leaf",
    "leaves",
    "matrix_of",
    "opaque_operators",
    "picks",
    "plain_functions",
    "real_parts",
    "rearrangements",
    "repeats",
    "rolls",
    "samplings",
    "scalars",
    "spaces",
    "sums",
    "sums_of_views",
    "transforms",
    "trees",
    "zeros",
]
