"""Strategies for sums of operators whose results are views of their inputs."""

from __future__ import annotations

from hypothesis import strategies as st

from ... import Stack
from ._blocks import blocks
from ._known import Known
from ._matrices import dense_operators, identities
from ._shape_operators import end_pads, rearrangements
from ._spaces import Spaces
from ._trees import named, side_by_side


@st.composite
def sums_of_views(draw: st.DrawFn) -> Known:
    r"""Sums over a dimension K of operators that mostly return a view of their input.

    :math:`y = \sum_k A_k x_k`, where most :math:`A_k` copy nothing: an identity, the first
    elements, another order of the axes, or blocks that do not overlap. When such an operator is
    cut along K, partial sums begin with a view of what a tile was given.

    Examples
    --------
    >>> from hypothesis import given
    >>> @given(sums_of_views())
    ... def test_the_dimension_that_is_summed_is_first(known):
    ...     assert str(known.linop.ishape[0]) == "K"
    >>> test_the_dimension_that_is_summed_is_first()
    """
    inside, views = draw(st.sampled_from(_VIEWS))
    n_operands = draw(st.integers(2, 5))
    is_view = draw(st.lists(st.integers(0, 3), min_size=n_operands, max_size=n_operands))
    operands = [named(draw((views if n else dense_operators)(inside))) for n in is_view]
    where = Spaces(("K", *inside.ishape), inside.oshape, {**inside.sizes, "K": n_operands})
    linop = Stack(*(operand.linop for operand in operands), idim_and_idx=("K", 0))
    return side_by_side(operands, linop, where, [1] * n_operands, "K", None)


_SIZES = {"A": 4, "B": 4, "C": 3, "D": 2, "E": 2}
_VIEWS = [
    (Spaces(("A",), ("A",), _SIZES), identities),
    (Spaces(("A",), ("B",), _SIZES), identities),
    (Spaces(("A",), ("C",), _SIZES), end_pads),
    (Spaces(("C", "D"), ("D", "C"), _SIZES), rearrangements),
    (Spaces(("A",), ("D", "E"), _SIZES), blocks),
    (Spaces(("D", "E"), ("A",), _SIZES), blocks),
]
