"""The sum of operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress

from torch import Tensor

from nameddim import NamedDimension, NamedShape

from .._base._arithmetic import rules
from .._base._cutting import overridable, tiles_at
from .._base._dimensions import SIDES, Side
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._places import composition_dims, equal_places_side_by_side
from .._base._question import acts_as
from .._base._swapped_functions import of_adjoint
from .._base._tile import Window
from .._base._totals import Totals, totals_of
from .._kernels._accumulate import accumulate
from ._composite import Composite, operands_without_fftshift, with_operands_inlined
from ._endomorphism import with_outputs_alike
from ._fitting import fitted_input
from ._over_processes import check_shares_pass, check_totals
from ._same_space import check_operands, same_space, why_not_alike
from ._supports import supports_side_by_side
from ._threads import check_workers, combine_on_threads
from ._zero import Zero, lengths_of, zero_between


class Add(Composite):
    r"""The sum :math:`A_1 + A_2 + \dots` of operators between the same spaces.

    Parameters
    ----------
    *linops : NamedLinop
        At least one. Sums among them are flattened, except threaded ones in a sum without threads.
    threaded, num_workers : optional
        Whether the terms run on several threads, and the number of threads; see :class:`Stack`.

    Raises
    ------
    ValueError
        If the operators differ in names or sizes, or num_workers is not positive.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Scalar
    >>> Add(Scalar(2.0, ("N",)), Scalar(3.0, ("N",)))(torch.ones(1))
    tensor([5.])
    """

    _is_side_by_side = True

    def __init__(
        self,
        *linops: NamedLinop,
        threaded: bool = False,
        num_workers: int | None = None,
        name: str | None = None,
    ) -> None:
        check_workers("Add", threaded, num_workers)
        check_operands("Add", linops)
        # Sums are fitted as a whole: the dimensions of their terms are known.
        operands = same_space("Add", with_outputs_alike(linops))
        shape = NamedShape(operands[0].ishape, operands[0].oshape)
        are_sums = [type(linop) is Add and (threaded or not linop.threaded) for linop in operands]
        terms, composition = operands, None
        if any(are_sums):
            composition = composition_dims(
                shape, operands, equal_places_side_by_side(shape, operands)
            )
            terms, composition = with_operands_inlined(operands, are_sums, composition)
        super().__init__(shape, terms, name, composition)
        self._is_endomorphism = all(linop.is_endomorphism for linop in operands)
        self.threaded, self.num_workers = threaded, num_workers
        check_totals(self)

    @overridable
    def fn(linop: Add, x: Tensor, /) -> Tensor:
        """Return A_1 x + A_2 x + ..., in this order."""
        pairs = [(term, x) for term in linop.linops]
        total = partial(accumulate, owner=linop.name)
        return combine_on_threads(total, pairs, linop.threaded, linop.num_workers)

    adj_fn = staticmethod(of_adjoint)

    adjoint = Composite._adjoint_of_operands
    conj = Composite._conj_of_operands
    _supports = supports_side_by_side

    def _with_operands_at(self, numbers: range) -> NamedLinop:
        """Return the sum of some terms."""
        return self.with_operands(map(self._operand, numbers), self.shape)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the sum for an input with these dimensions; see :class:`NamedLinop`."""
        terms = [fitted_input(linop, dims) for linop in self.linops]
        fitted = [linop for linop in terms if linop is not None]
        outputs = {linop.oshape for linop in fitted}
        if len(fitted) < len(terms) or len(outputs) > 1:
            return None
        return self.with_operands(fitted, NamedShape(dims, outputs.pop()))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: its roles in the terms differ."""
        return why_not_alike(self, dim)

    def _tiles_at(self, windows: Sequence[Window]) -> Iterable[NamedLinop]:
        """Return the sum of the parts for each of the windows."""
        rows = zip(*(_tiles_of_term(term, windows) for term in self.linops), strict=True)
        sums = [[part for part in row if part is not None] for row in rows]
        tiles = iter(self.with_operands_of_each(filter(None, sums)))
        for window, parts in zip(windows, sums, strict=True):
            yield next(tiles) if parts else zero_between(self, lengths_of(window))


def add(*linops: NamedLinop) -> NamedLinop:
    """Return the simplified sum of the operators."""
    terms = same_space("Add", with_outputs_alike(linops))
    for number in [i for i, term in enumerate(terms) if acts_as(term, Zero)][::-1]:
        others = [*terms[:number], *terms[number + 1 :]]
        if others and _adds_no_size(terms[number], others):
            terms = others
    result = terms[0] if len(terms) == 1 else Add(*terms)
    every = all(linop.is_endomorphism for linop in linops)
    return result.as_endomorphism() if every else result


rules.add = add


def _adds_no_size(zero: NamedLinop, others: Sequence[NamedLinop]) -> bool:
    """Whether each length that ``zero`` knows is known by one of ``others``."""
    for side in SIDES:
        of_others = [other.sizes(side) for other in others]
        for position, size in enumerate(zero.sizes(side)):
            if size is not None and all(sizes[position] is None for sizes in of_others):
                return False
    return True


@totals_of.register(Add)
def _totals_of_terms(linop: Add, side: Side) -> Totals | None:
    """Return how sums are collected; terms must have the same parts.

    Raises
    ------
    NotImplementedError
        If terms have different parts.
    """
    of_terms = [totals_of(term, side) for term in linop.linops]
    says = [totals for totals in of_terms if totals is not None]
    for term, totals in zip(linop.linops, of_terms, strict=True):
        if totals is None and says:
            check_shares_pass(term, says[0])
        elif totals is not None and totals.add != says[0].add:
            raise NotImplementedError(
                f"{linop.signature}: all terms must have the same parts of an {side}, got "
                f"{term.signature} with other parts; distribute the sum of the terms"
            )
    return says[0] if says else None


without_fftshift.register(Add)(operands_without_fftshift)


def _tiles_of_term(term: NamedLinop, windows: Sequence[Window]) -> Iterable[NamedLinop | None]:
    """Return the tiles of a term; without an inner dimension it is only in the first tile."""
    has_part = [
        all(dim in term.dims or piece.start == 0 for dim, piece in window.items())
        for window in windows
    ]
    tiles = iter(tiles_at(term, [*compress(windows, has_part)]))
    return [next(tiles) if has else None for has in has_part]
