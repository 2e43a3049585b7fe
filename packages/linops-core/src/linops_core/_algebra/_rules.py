"""The rules that build and simplify expressions of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from .. import config
from .._base._arithmetic import rules
from .._base._dimensions import SIDES
from .._base._linop import NamedLinop
from .._base._places import CompositionDims
from .._base._question import acts_as
from ._add import Add
from ._chain import chain_without_check, fit_whole
from ._endomorphism import named_in_order, with_outputs_alike
from ._identity import Identity, is_identity
from ._normal import Normal, composed_normal, fit_inner, normal_around
from ._same_space import same_space
from ._scalar import Scalar, with_few_numbers
from ._shifted import solve_shifted
from ._wrapper import Conjugate
from ._zero import Zero


def simplified_chain(*linops: NamedLinop) -> NamedLinop:
    """Return the simplified composition; the first operator is applied first."""
    if len(linops) == 1:
        return linops[0]
    every = all(linop.is_endomorphism for linop in linops)
    operands, composition = fit_whole(named_in_order(linops))
    kinds = {type(linop) for linop in operands}  # few, also in a long chain
    if any(issubclass(kind, (Zero, Identity, Scalar)) for kind in kinds):
        result = _without_zeros(operands, composition) or _simplified(operands, composition, every)
    else:
        result = chain_without_check(operands, composition, every)
    return result.as_endomorphism() if every else result


def _without_zeros(
    operands: Sequence[NamedLinop], composition: CompositionDims
) -> NamedLinop | None:
    """Return the Zero for a chain that contains one, if all sizes are known."""
    if not any(acts_as(linop, Zero) for linop in operands):
        return None
    zero = Zero.like(chain_without_check(operands, composition, False))
    return zero if zero is not None and zero.is_complete else None


def _simplified(
    operands: Sequence[NamedLinop], composition: CompositionDims, is_endomorphism: bool
) -> NamedLinop:
    """Return the chain without identities, and with few scalars."""
    kept: dict[int, NamedLinop] = {}
    for number, linop in enumerate(operands):
        if not is_identity(linop) or _knows_more(linop, kept, operands[number + 1 :]):
            kept[number] = linop
    kept = with_few_numbers(kept)
    if not kept:
        return Identity(operands[0].ishape)
    if len(kept) == 1:
        return next(iter(kept.values()))
    return chain_without_check([*kept.values()], composition.among([*kept]), is_endomorphism)


def _knows_more(
    identity: NamedLinop, before: Mapping[int, NamedLinop], after: Sequence[NamedLinop]
) -> bool:
    """Whether an identity knows a length that the operators next to it do not."""
    last = [*before.values()][-1:]
    sides = [zip(linop.oshape, linop.sizes("output"), strict=True) for linop in last]
    following = [linop for linop in after if not is_identity(linop)][:1]
    sides += [zip(linop.ishape, linop.sizes("input"), strict=True) for linop in following]
    dims = {dim for pairs in sides for dim, size in pairs if size is not None}
    sizes_by_dim = zip(identity.ishape, identity.sizes("input"), strict=True)
    return any(size is not None and dim not in dims for dim, size in sizes_by_dim)


def simplified_multiple(linop: NamedLinop, number: complex | Tensor) -> NamedLinop:
    """Return ``number`` times the operator."""
    return simplified_chain(linop, Scalar(number, linop.oshape))


def power(linop: NamedLinop, exponent: int) -> NamedLinop:
    """Return the operator applied ``exponent`` times."""
    if exponent < 0:
        raise ValueError(
            f"{linop.signature}: the exponent of a power must not be negative, got {exponent}"
        )
    if not linop.is_endomorphism:
        raise ValueError(
            f"{linop.signature}: an operator must map a space to itself to have powers, with the "
            f"same names and sizes, got input sizes {linop.sizes('input')} and output sizes "
            f"{linop.sizes('output')} (None: not known)"
        )
    if exponent == 0:
        one = simplified_chain(Identity.on_input_of(linop), Identity(linop.ishape, linop.oshape))
        return one.as_endomorphism()
    return simplified_chain(*[linop] * exponent)


def simplified_sum(*linops: NamedLinop) -> NamedLinop:
    """Return the simplified sum of the operators."""
    terms = same_space("Add", with_outputs_alike(linops))
    for number in [i for i, term in enumerate(terms) if acts_as(term, Zero)][::-1]:
        others = [*terms[:number], *terms[number + 1 :]]
        if others and _adds_no_size(terms[number], others):
            terms = others
    result = terms[0] if len(terms) == 1 else Add(*terms)
    every = all(linop.is_endomorphism for linop in linops)
    return result.as_endomorphism() if every else result


def _adds_no_size(zero: NamedLinop, others: Sequence[NamedLinop]) -> bool:
    """Whether each length that ``zero`` knows is known by one of ``others``."""
    for side in SIDES:
        of_others = [other.sizes(side) for other in others]
        for position, size in enumerate(zero.sizes(side)):
            if size is not None and all(sizes[position] is None for sizes in of_others):
                return False
    return True


def normal(linop: NamedLinop, inner: NamedLinop | None) -> NamedLinop:
    """Return A^H inner A, in closed form if there is no inner operator and A has one."""
    if inner is None:
        has_form = linop.normal_fn is not NamedLinop.normal_fn
        return Normal(linop) if has_form else composed_normal(linop)
    may_leave_out = is_identity(inner) and not _knows_more(inner, {0: linop}, [])
    if may_leave_out and config.reduce_identity_in_normal:
        return fit_inner(linop, inner)[0].own_normal().as_endomorphism()
    return normal_around(inner, linop) or composed_normal(linop, inner)


rules.compose, rules.add, rules.scale, rules.power = (
    simplified_chain,
    simplified_sum,
    simplified_multiple,
    power,
)
rules.conjugate, rules.normal, rules.solve_shifted = Conjugate, normal, solve_shifted
