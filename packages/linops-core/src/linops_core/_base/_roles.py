"""The role of a dimension in an operator: it decides whether the dimension can be sliced."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nameddim import NamedDimension, NamedShape


class Role(StrEnum):
    """The role of a dimension in an operator; compositions derive it from their parts."""

    BATCH = "batch"
    """In the input and in the output; slices are independent."""

    OUTPUT = "output"
    """Only in the output: a slice of it is a slice of the rows."""

    INPUT = "input"
    """Only in the input, and summed over: the slices give partial sums."""

    INNER = "inner"
    """In neither, summed inside a composition: the slices give partial sums."""

    OPAQUE = "opaque"
    """Cannot be sliced; :meth:`NamedLinop.why_opaque` says why."""


def membership(shape: NamedShape, dim: NamedDimension | str) -> Role:
    """Return the role that follows from the sides on which ``dim`` appears."""
    if dim in shape.ishape:
        return Role.BATCH if dim in shape.oshape else Role.INPUT
    return Role.OUTPUT if dim in shape.oshape else Role.INNER


def why_on_both_sides(shape: NamedShape, dim: NamedDimension | str) -> str | None:
    """Return why ``dim`` of a grid that is another one in the output cannot be sliced there."""
    if dim in shape.ishape and dim in shape.oshape:
        return (
            "it is in the input and in the output, but a slice of the input gives no slice of the "
            "output; give to= other names for the output, or rename one of them"
        )
    return None
