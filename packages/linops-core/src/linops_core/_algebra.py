"""The rules by which expressions of operators are built and made simpler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

from torch import Tensor

from ._add import Add, flat_sum
from ._chain import Chain, fit, flat
from ._endomorphism import following, landing_alike
from ._identity import Identity, is_identity
from ._linop import NamedLinop
from ._same_space import same_space
from ._scalar import Scalar, is_moderate, is_number, number_of
from ._zero import Zero


def composed(*linops: NamedLinop) -> NamedLinop:
    """Return the composition, first operator first, made simpler.

    Raises
    ------
    ValueError
        If neighbours do not fit, in names or in sizes.
    """
    fitted = fit(flat(following(linops)))
    result = _without_zeros(fitted) or _chained(fitted)
    every = all(linop.is_endomorphism for linop in linops)
    return result.as_endomorphism() if every else result


def _without_zeros(fitted: Sequence[NamedLinop]) -> NamedLinop | None:
    """Return the Zero that a chain with a Zero in it is, where all sizes it needs are known."""
    if not any(isinstance(linop, Zero) for linop in fitted):
        return None
    ishape, oshape = fitted[0].ishape, fitted[-1].oshape
    sizes = {dim: fitted[0].size(dim) for dim in ishape}
    sizes |= {dim: fitted[-1].size(dim) for dim in oshape if sizes.get(dim) is None}
    if any(sizes[dim] is None for dim in {*ishape} ^ {*oshape}):
        return None
    return Zero(ishape, oshape, sizes={dim: n for dim, n in sizes.items() if n is not None})


def _chained(fitted: Sequence[NamedLinop]) -> NamedLinop:
    """Return the chain without identities, its numbers in one."""
    parts = _with_one_number([linop for linop in fitted if not is_identity(linop)])
    if not parts:
        return Identity(fitted[0].ishape)
    return parts[0] if len(parts) == 1 else Chain(*parts)


def _with_one_number(parts: Sequence[NamedLinop]) -> list[NamedLinop]:
    """Return the operators with all of Python's numbers multiplied into the last of them.

    Those that are very large or small stay where they are: what lies between them may be of the
    opposite size, and the product of all in range.
    """
    places = [i for i, part in enumerate(parts) if is_number(part)]
    places = [i for i in places if is_moderate(number_of(parts[i]))]
    product = reduce(mul, [number_of(parts[i]) for i in places], 1)
    if len(places) < 2 or not is_moderate(product):
        return list(parts)
    merged = {places[-1]: Scalar(product, parts[places[-1]].ishape)}
    return [merged.get(i, part) for i, part in enumerate(parts) if i not in places[:-1]]


def scaled(linop: NamedLinop, number: complex | Tensor) -> NamedLinop:
    """Return ``number`` times the operator."""
    return composed(linop, Scalar(number, linop.oshape))


def power(linop: NamedLinop, exponent: int) -> NamedLinop:
    """Return the operator applied ``exponent`` times.

    Raises
    ------
    ValueError
        If the exponent is negative, or the operator does not map a space to itself.
    """
    if exponent < 0:
        raise ValueError(
            f"{linop.signature}: the exponent of a power must not be negative, got {exponent}"
        )
    if not linop.is_endomorphism:
        raise ValueError(
            f"{linop.signature}: an operator must map a space to itself to have powers, "
            f"got {linop.shape}"
        )
    if exponent == 0:
        return Identity(linop.ishape, linop.oshape).as_endomorphism()
    return composed(*[linop] * exponent)


def summed(*linops: NamedLinop) -> NamedLinop:
    """Return the sum of the operators, made simpler.

    Raises
    ------
    TypeError
        If one is no operator.
    ValueError
        If they do not share one shape, in names or in sizes.
    """
    terms = same_space("Add", landing_alike(flat_sum(linops)))
    for place in reversed(range(len(terms))):
        others = [*terms[:place], *terms[place + 1 :]]
        if isinstance(terms[place], Zero) and others and _adds_no_size(terms[place], others):
            terms = others
    result = terms[0] if len(terms) == 1 else Add(*terms)
    every = all(linop.is_endomorphism for linop in linops)
    return result.as_endomorphism() if every else result


def _adds_no_size(zero: NamedLinop, others: Sequence[NamedLinop]) -> bool:
    """Whether each size that ``zero`` knows is known by one of ``others``."""
    return all(
        zero.size(dim) is None or any(other.size(dim) is not None for other in others)
        for dim in zero.dims
    )
