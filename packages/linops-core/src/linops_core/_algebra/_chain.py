"""Composition: one operator after another, and what it simplifies to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._base._arithmetic import rules
from .._base._calls import apply_with_lazy_conjugate
from .._base._cutting import tiles_at
from .._base._dimensions import Side
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._places import CompositionDims, EqualPlaces, composition_dims, equal_places_in_chain
from .._base._question import acts_as
from .._base._swapped_functions import of_adjoint
from .._base._tile import Window
from .._base._totals import Totals, totals_of
from ._composite import Composite, operands_without_fftshift, with_operands_inlined
from ._endomorphism import named_in_order
from ._fitting import fitted_input, fitted_neighbours, fitted_output, why_not_neighbours
from ._identity import Identity, is_identity, knows_more
from ._normal import fit_inner
from ._over_processes import check_shares_pass, check_totals
from ._scalar import Scalar, is_number, is_real_number, with_few_numbers
from ._slice_by_slice import slices_of
from ._supports import supports_along
from ._zero import Zero


class Chain(Composite):
    r"""The composition :math:`A_n \cdots A_2 A_1` of operators.

    A dimension begins in one operator of the chain, or in the input. It ends in the operator that
    sums over it, or in the output. The chain can be sliced along a dimension if all operators
    between these two can be sliced along it.

    Parameters
    ----------
    *linops : NamedLinop
        At least one; the first is applied first. Chains among them are flattened. Wildcards in
        their shapes are replaced by the dimensions of their neighbours.
    name : str, optional

    Raises
    ------
    ValueError
        If neighbours do not fit, in names or in sizes.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense, Diagonal
    >>> D = Diagonal(torch.tensor([1.0, 2.0]), ("N",))
    >>> B = Dense(torch.tensor([[1.0, 1.0]]), ("M", "N"), ("N",), ("M",))
    >>> Chain(D, B)(torch.ones(2))
    tensor([3.])
    """

    def __init__(self, *linops: NamedLinop, name: str | None = None) -> None:
        operands, composition = fit_whole(named_in_order(linops))
        self._set_up(operands, composition, all(linop.is_endomorphism for linop in linops), name)

    def _set_up(
        self,
        operands: Sequence[NamedLinop],
        composition: CompositionDims | None,
        is_endomorphism: bool,
        name: str | None = None,
    ) -> None:
        """Set the operands, which fit and are no chains, and their dimensions if known."""
        shape = NamedShape(operands[0].ishape, operands[-1].oshape)
        Composite.__init__(self, shape, operands, name, composition)
        self._is_endomorphism = is_endomorphism
        check_totals(self)

    @staticmethod
    def fn(linop: Chain, x: Tensor, /) -> Tensor:
        """Return A_n ... A_1 x."""
        if (slices := slices_of(linop, x)) is not None:
            return slices.run(x)
        for operand in linop.linops:
            x = apply_with_lazy_conjugate(operand, x)
        return x

    adj_fn = staticmethod(of_adjoint)

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """Those of the first operand that is on a device."""
        return next((linop.input_devices for linop in self.linops if linop.input_devices), ())

    def adjoint(self) -> NamedLinop:
        """Return the chain of the adjoints, in reverse order."""
        return self.with_operands([linop.H for linop in reversed(self.linops)], self.shape.H)

    conj = Composite._conj_of_operands
    _supports = supports_along

    def flatten(self) -> list[NamedLinop]:
        """Return the operands, first applied first; chains in them are already flat."""
        return list(self.linops)

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return (A B)^H (A B) as B^H (A^H A) B, so that closed forms inside are found.

        From the last operator to the first one, N becomes the normal of the operator around N.
        Numbers that commute with all operands are moved to the front, so that they do not hide a
        closed form.
        """
        if inner is not None:  # fitted to all of the chain, so that an error names the chain
            _, inner = fit_inner(self, inner)
        operands = self.linops if inner is None else (*self.linops, inner)
        all_commute = all([operand.is_complex_linear for operand in operands])
        numbers, others = list[Scalar](), list[NamedLinop]()
        for linop in self.linops:
            if acts_as(linop, Scalar) and (all_commute or is_real_number(linop)):
                numbers.append(linop.anywhere())
            else:
                others.append(linop)
        for linop in reversed(others):
            inner = linop.normal(inner)
        result = Identity.on_input_of(self) if inner is None else inner
        return _multiplied(result, numbers).as_endomorphism()

    def _equal_places(self) -> Iterable[EqualPlaces]:
        return equal_places_in_chain(self._shape, self.linops)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: an operand cannot, or the name is ambiguous."""
        stretches = int(dim in self.ishape)
        for linop in self._having_dim(dim):
            if (reason := linop.why_opaque(dim)) is not None:
                return f"{linop.signature}: {reason}"
            stretches += dim not in linop.ishape
        if stretches > 1:
            return (
                f"{stretches} separate dimensions along the chain have this name; "
                "rename all but one"
            )
        return None

    def _tiles_at(self, windows: Sequence[Window]) -> Iterable[NamedLinop]:
        """Return the chain of the parts for each of the windows."""
        rows = [tiles_at(operand, windows) for operand in self.linops]
        return self.with_operands_of_each(zip(*rows, strict=True))

    def _with_operands_at(self, numbers: range) -> NamedLinop:
        """Return the chain of some operands, which must fit."""
        return Chain(*map(self._operand, numbers))

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the chain for an input with these dimensions; see :class:`NamedLinop`."""
        fitted: list[NamedLinop] = []
        for linop in self.linops:
            operand = fitted_input(linop, fitted[-1].oshape if fitted else dims)
            if operand is None:
                return None
            fitted.append(operand)
        if self.is_endomorphism:
            renamed = dict(zip(self.ishape, self.oshape, strict=True))
            if not self._fit_to_output(fitted, tuple([renamed.get(dim, dim) for dim in dims])):
                return None
        return self.with_operands(fitted, NamedShape(fitted[0].ishape, fitted[-1].oshape))

    def _fit_to_output(self, fitted: list[NamedLinop], dims: tuple[NamedDimension, ...]) -> bool:
        """Fit the last operators, in the list itself, to an output with exactly these dimensions.

        From (K, Z) alone, the adjoint of an operator from (Kx, Z, Ky) to (K, Z) cannot know where
        it must put Kx and Ky. The input of a chain from a space to itself decides that.
        """
        ishape = fitted[0].ishape
        for number in reversed(range(len(fitted))):
            if fitted[number].oshape == dims:
                return True
            operand = fitted_output(self._operand(number), dims)
            if operand is None:
                return False
            fitted[number], dims = operand, operand.ishape
        return dims == ishape

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the chain with ``shape``, resolved along all operands."""
        fitted, _ = fit(self.linops, shape)
        return self.with_operands(fitted, NamedShape(fitted[0].ishape, fitted[-1].oshape))


@totals_of.register(Chain)
def _totals_of_outermost(linop: Chain, side: Side) -> Totals | None:
    """Return how sums are collected: as in the outermost operand with parts.

    Operands of one process get the parts of the operand before them, so these must pass.
    """
    result: Totals | None = None
    for operand in linop.linops if side == "output" else reversed(linop.linops):
        totals = totals_of(operand, side)
        if totals is None and result is not None:
            check_shares_pass(operand, result)
        result = totals or result
    return result


without_fftshift.register(Chain)(operands_without_fftshift)


def compose(*linops: NamedLinop) -> NamedLinop:
    """Return the simplified composition; the first operator is applied first."""
    if len(linops) == 1:
        return linops[0]
    every = all(linop.is_endomorphism for linop in linops)
    operands, composition = fit_whole(named_in_order(linops))
    kinds = {type(linop) for linop in operands}  # a long chain has few classes
    if any(issubclass(kind, (Zero, Identity, Scalar)) for kind in kinds):
        result = _without_zeros(operands, composition) or _simplified(operands, composition, every)
    else:
        result = chain_without_check(operands, composition, every)
    return result.as_endomorphism() if every else result


def _without_zeros(
    operands: Sequence[NamedLinop], composition: CompositionDims
) -> NamedLinop | None:
    """Return the Zero for a chain that contains one, if all sizes are known.

    Not with a real part, which returns zeros of another dtype.
    """
    has_zero = any(acts_as(linop, Zero) for linop in operands)
    if not has_zero or not all(linop.is_complex_linear for linop in operands):
        return None
    zero = Zero.like(chain_without_check(operands, composition, False))
    return zero if zero is not None and zero.is_complete else None


def _simplified(
    operands: Sequence[NamedLinop], composition: CompositionDims, is_endomorphism: bool
) -> NamedLinop:
    """Return the chain without identities, and with few scalars."""
    kept: dict[int, NamedLinop] = {}
    for number, linop in enumerate(operands):
        if not is_identity(linop) or knows_more(linop, [*kept.values()], operands[number + 1 :]):
            kept[number] = linop
    kept = with_few_numbers(kept)
    if not kept:
        return Identity(operands[0].ishape)
    if len(kept) == 1:
        return next(iter(kept.values()))
    return chain_without_check([*kept.values()], composition.among([*kept]), is_endomorphism)


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
        one = compose(Identity.on_input_of(linop), Identity(linop.ishape, linop.oshape))
        return one.as_endomorphism()
    return compose(*[linop] * exponent)


rules.compose, rules.power = compose, power


def chain_without_check(
    operands: Sequence[NamedLinop], composition: CompositionDims | None, is_endomorphism: bool
) -> Chain:
    """Return the chain of operators that fit and are no chains, without a check."""
    chain = Chain.__new__(Chain)
    chain._set_up(operands, composition, is_endomorphism)
    return chain


def _multiplied(linop: NamedLinop, numbers: Sequence[Scalar]) -> NamedLinop:
    """Return conj(w) A w for each w: ``|w|^2 A`` if that is a moderate number."""
    before, after = list[NamedLinop](), list[NamedLinop]()
    for number in numbers:
        normal = number.normal()
        if is_number(normal):
            after.append(normal)
        else:
            before.append(number)
            after.insert(0, number.H)
    return compose(*before, linop, *after) if numbers else linop


def _flat(linops: Sequence[NamedLinop]) -> list[NamedLinop]:
    """Return the operators with the operands of every Chain in its place."""
    return [
        operand
        for linop in linops
        for operand in (linop.linops if type(linop) is Chain else [linop])
    ]


def fit_whole(linops: Sequence[NamedLinop]) -> tuple[list[NamedLinop], CompositionDims]:
    """Return the operators, fitted and with chains among them flattened, and the dimensions.

    Chains are fitted as a whole if that is possible: the dimensions of their operands are known.
    """
    # The next attempt is not inside the handler, so that its traceback does not show this one.
    try:
        return _inlined(*fit(linops))
    except ValueError:
        pass
    # A chain from a space to itself stays whole: its operands, fitted one by one, may return the
    # dimensions in another order than its input has.
    rows = ([linop] if linop.is_endomorphism else _flat([linop]) for linop in linops)
    try:
        return _inlined(*fit([*chain.from_iterable(rows)]))
    except ValueError as error:
        refusal = error
    fit(_flat(linops))  # raises an error that names the operands
    raise refusal


def _inlined(
    fitted: list[NamedLinop], composition: CompositionDims
) -> tuple[list[NamedLinop], CompositionDims]:
    return with_operands_inlined(fitted, [type(linop) is Chain for linop in fitted], composition)


def fit(
    linops: Sequence[NamedLinop], ends: NamedShape | None = None
) -> tuple[list[NamedLinop], CompositionDims]:
    """Return the operators with wildcards resolved by their neighbours, and the dimensions."""
    fitted = list(linops)
    if ends is not None:
        fitted[0] = fitted[0].resolved(ishape=ends.ishape)
        fitted[-1] = fitted[-1].resolved(oshape=ends.oshape)
    _resolve_neighbours(fitted)
    shape = NamedShape(fitted[0].ishape, fitted[-1].oshape)
    return fitted, composition_dims(
        shape, fitted, equal_places_in_chain(shape, fitted), owner="Chain"
    )


def _resolve_neighbours(fitted: list[NamedLinop]) -> None:
    """Replace wildcards by the dimensions of neighbours, in the list itself.

    Names propagate from end to end and back, so few passes suffice for any length.
    """
    steps = range(len(fitted) - 1)
    changed, n_fits = True, 4 * len(fitted)
    while changed:
        changed = False
        for i in (*steps, *reversed(steps)):
            before, after = fitted[i], fitted[i + 1]
            if before.oshape == after.ishape:
                continue
            try:
                fitted[i] = before.resolved(oshape=after.ishape)
                fitted[i + 1] = after.resolved(ishape=fitted[i].oshape)
            except ValueError:
                pair, n_fits = fitted_neighbours(before, after), n_fits - 1
                # Without a limit, two neighbours could fit the operator between them in turn.
                if pair is None or n_fits < 0:
                    raise ValueError(f"Chain: {why_not_neighbours(before, after)}") from None
                fitted[i : i + 2] = pair
            changed |= fitted[i] is not before or fitted[i + 1] is not after
