"""Neighbours that do not fit: fitted by name, or an error message with a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nameddim import ELLIPSES, NamedDimension, is_wildcard, iscompatible

from .._base._linop import NamedLinop
from .._base._places import matching_positions
from .._base._question import Question

Dims = tuple[NamedDimension, ...]


@Question.inherited
def finds_grid_by_name(linop: NamedLinop) -> bool | None:
    """Whether an operator finds the dimensions of its grid by name in the input of a neighbour.

    None for a class that has no ``dims=``.
    """
    return None


def fitted_input(linop: NamedLinop, dims: Dims) -> NamedLinop | None:
    """Return the operator for an input with exactly these dimensions, None if there is none."""
    if linop.ishape == dims:
        return linop
    try:
        fitted: NamedLinop | None = linop.resolved(ishape=dims)
    except ValueError:
        fitted = linop.fitted_to(dims)
    return fitted if fitted is not None and fitted.ishape == dims else None


def fitted_output(linop: NamedLinop, dims: Dims) -> NamedLinop | None:
    """Return the operator for an output with exactly these dimensions, None if there is none."""
    try:
        fitted = fitted_input(linop.H, dims)
    except NotImplementedError:  # there is no adjoint
        return None
    return None if fitted is None else fitted.H


def fitted_neighbours(
    before: NamedLinop, after: NamedLinop
) -> tuple[NamedLinop, NamedLinop] | None:
    """Return both operators fitted to each other, or None if that is impossible."""
    later = fitted_input(after, before.oshape)
    if later is not None:
        return before, later
    earlier = fitted_output(before, after.ishape)
    return None if earlier is None else (earlier, after)


def fitted_with_swapped_names(linop: NamedLinop, dims: Dims) -> NamedLinop | None:
    """Return (N1) -> (N), which maps a space to itself, as (N) -> (N1) for the input ``dims``."""
    if not linop.is_endomorphism or linop.ishape == linop.oshape:
        return None
    pairs = [
        (linop.ishape[at], linop.oshape[other])
        for at, other in matching_positions(linop.ishape, linop.oshape)
    ]
    names = {old: new for old, new in pairs if old != new}
    names |= {new: old for old, new in names.items()}
    return fitted_input(linop.renamed(names), dims)


def with_inputs_alike(linops: Sequence[NamedLinop]) -> Sequence[NamedLinop]:
    """Return the operators, fitted to the input of the first one for which this is possible."""
    for target in dict.fromkeys(linop.ishape for linop in linops):
        fitted_linops = (fitted_input(linop, target) for linop in linops)
        pairs = zip(fitted_linops, linops, strict=True)
        fitted = [
            fitted_with_swapped_names(linop, target) if f is None else f for f, linop in pairs
        ]
        result = [linop for linop in fitted if linop is not None]
        if len(result) == len(linops):
            return result
    return linops


def why_not_neighbours(before: NamedLinop, after: NamedLinop) -> str:
    """Return the message that ``before`` and ``after`` do not fit, with a remedy."""
    return (
        f"{after.name} expects ({_text(after.ishape)}) but {before.name} returns "
        f"({_text(before.oshape)}). {_remedy(before, after)}"
    )


def _remedy(before: NamedLinop, after: NamedLinop) -> str:
    returned, expected = _named(before.oshape), _named(after.ishape)
    given = {*after.oshape} - {*after.ishape}
    if finds_grid_by_name(after) and (twice := [dim for dim in returned if dim in given]):
        return (
            f"{after.name} would name a dimension of its output ({_text(twice)}), but "
            f"{before.name} has a dimension of this name already: give another name with to=."
        )
    sides = (after, expected, returned), (before, returned, expected)
    for linop, own_dims, others in sides:
        if _takes_dims(linop) and {*own_dims} < {*others}:
            return _remedy_of_fewer(linop, own_dims, others)
    names_dims = _takes_dims(after) and len(returned) == len(expected)
    turned = (after, before.oshape, after.oshape), (before, before.ishape, after.ishape)
    for linop, neighbour, dims in turned:
        if {*_named(neighbour)} & {*_named(dims)} and iscompatible(neighbour, dims):
            if linop is before and names_dims:
                return f"Did you mean {after.name} with dims=({_quoted(returned)})?"
            return f"Did you mean {linop.name}{' without .H' if linop.is_adjoint else '.H'}?"
    is_turned = returned != expected and {*returned} == {*expected}
    # A normal operator returns G1 for G.
    plain, wanted = ([dim.name for dim in dims] for dims in (returned, expected))
    if is_turned or (plain != wanted and sorted(plain) == sorted(wanted)):
        return (
            "They are the same dimensions in another order: put a Rearrange between them, or name "
            "the dimensions of a grid operator with dims=."
        )
    for linop, own_dims, others in sides:
        if {*own_dims} < {*others}:
            return _remedy_of_fewer(linop, own_dims, others)
    if not {*returned} & {*expected}:
        unknown = "The order of these dimensions is not known: "
        if all(map(finds_grid_by_name, (before, after))):
            return f"{unknown}give one of the operators shape=, with all dimensions in order."
        if all(linop.ishape == linop.oshape for linop in (before, after)):
            return (
                f"{unknown}name all dimensions in both, or first compose {before.name} with the "
                "operator before it, as in A @ (B @ C)."
            )
    if len(returned) == len(expected):
        names = {str(a): str(b) for a, b in zip(returned, expected, strict=True) if a != b}
        if names and not {*names.values()} & {*map(str, before.dims)}:
            other = f"make {after.name} with dims=({_quoted(returned)}), or " if names_dims else ""
            return (
                f"If they are the same dimensions, {other}rename them by "
                f"{before.name}.renamed({names}), "
                "or when you make the operator (a grid operator takes to=)."
            )
    return "Give both the same names, or insert the operator that is missing."


def _remedy_of_fewer(linop: NamedLinop, dims: Dims, others: Dims) -> str:
    """Return the remedy if ``linop`` has fewer dimensions than its neighbour."""
    if others[len(others) - len(dims) :] == dims:
        return f"Did you mean {linop.name} with ({_quoted((ELLIPSES, *dims))})?"
    more = [dim for dim in others if dim not in dims]
    in_order = [dim for dim in others if dim in dims]
    if in_order != [*dims]:
        how = f"dims=({_quoted(in_order)})" if _takes_dims(linop) else "this order"
        also = "" if _takes_dims(linop) else ", and permute its weight"
        return (
            f"The other operator has them in the order ({_text(in_order)}): make {linop.name} with "
            f"{how}{also}."
        )
    if _takes_dims(linop):
        return (
            f"Did you mean {linop.name} with dims=({_quoted(dims)}), or with ({_text(more)}) among "
            "its dimensions?"
        )
    return f"Did you mean {linop.name} with ({_quoted(others)})?"


def _takes_dims(linop: NamedLinop) -> bool:
    return finds_grid_by_name(linop) is not None


def _named(dims: Iterable[NamedDimension]) -> Dims:
    return tuple([dim for dim in dims if not is_wildcard(dim)])


def _text(dims: Iterable[NamedDimension]) -> str:
    return ", ".join(map(str, dims))


def _quoted(dims: Iterable[NamedDimension | str]) -> str:
    return ", ".join(f'"{dim}"' for dim in dims)
