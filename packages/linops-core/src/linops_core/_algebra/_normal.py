"""The normal operator A^H A in closed form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from torch import Tensor

from nameddim import NamedDimension, NamedShape, is_wildcard

from .. import config
from .._base._arithmetic import rules
from .._base._copying import linked_copy
from .._base._dimensions import (
    SIDES,
    Side,
    check_inner,
    dims_of,
    may_be_cut,
    unused_names,
    with_dims_in_front,
)
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._places import COMPOSITION, EqualPlaces, matching_positions
from .._base._question import Question
from .._base._roles import Role
from .._base._tile import Supports, Window
from .._base._totals import Totals, totals_of
from ._composite import operands_without_fftshift, supports_of
from ._fitting import fitted_input, fitted_neighbours
from ._identity import is_identity, knows_more
from ._same_space import check_operands
from ._wrapper import Wrapper


class Normal(Wrapper):
    r"""The normal operator :math:`A^H A`, computed by the ``normal_fn`` of A.

    It refers to the weights of A and reads them when it is called.

    Parameters
    ----------
    linop : NamedLinop
        A.
    shape : NamedShape, optional
        ``linop.shape.N`` by default: input dimensions that A sums over get a new name in the
        output. ``NamedShape(linop.ishape)`` if the closed form can be sliced as the input of A.
    multiplies_by : {"numbers", "number"}, optional
        If A^H A multiplies each element with a number of its own, or all with the same number.

    Raises
    ------
    TypeError
        If ``linop`` is not an operator.
    ValueError
        If ``multiplies_by`` is another value.
    """

    def __init__(
        self,
        linop: NamedLinop,
        shape: NamedShape | None = None,
        *,
        multiplies_by: Literal["numbers", "number"] | None = None,
    ) -> None:
        check_operands("Normal", [linop])
        if multiplies_by not in ("numbers", "number", None):
            raise ValueError(
                f'Normal: multiplies_by must be "numbers", "number" or None, got {multiplies_by!r}'
            )
        super().__init__(linked_copy(linop), linop.shape.N if shape is None else shape)
        self.multiplies_by = multiplies_by

    @property
    def name(self) -> str:
        """The given name, else the name of the operator with ``.N``."""
        return self._name or f"{self.linop.name}.N"

    @property
    def is_endomorphism(self) -> bool:
        """True: a normal operator maps the input space of A to itself."""
        return True

    def _equal_places(self) -> Iterable[EqualPlaces]:
        # Both sides are the input of A, under any names.
        for side in SIDES:
            for outer, inner in matching_positions(dims_of(self._shape, side), self.linop.ishape):
                if self.own_length(side, outer) is None:
                    yield (COMPOSITION, side, outer), (0, "input", inner)

    # normal_fn is called without the checks of A. The input is checked as an input of A, the output
    # like that of any function.

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        return self.linop._facts(x)

    def _check_vector(self, x: object, side: Side) -> None:
        if side == "input":
            self.linop._check_vector(x, side)
        else:
            NamedLinop._check_vector(self, x, side)

    @staticmethod
    def fn(linop: Normal, x: Tensor, /) -> Tensor:
        """Return A^H A x."""
        return linop.linop.normal_fn(linop.linop, x)

    adj_fn = fn

    # The adjoint is the operator itself; its conjugate has no normal_fn.
    adjoint = NamedLinop.adjoint
    own_normal = NamedLinop.own_normal

    def conj(self) -> NamedLinop:
        """Return the operator itself if A is real, else its conjugate."""
        return self if self.linop.is_real else NamedLinop.conj(self)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: A sums over it, so all elements are coupled."""
        if dim in self.ishape and dim in self.oshape:
            return None if self.multiplies_by == "numbers" else self.linop.why_opaque(dim)
        role = self.linop.role(dim)
        if role is Role.OUTPUT:
            return None
        if role is Role.OPAQUE:
            return self.linop.why_opaque(dim)
        return "the closed form of a normal operator needs all elements that it sums over"

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the normal of the tile of A at each window; A alone may refuse such a tile."""
        if self.multiplies_by != "numbers" or self.linop.split is not NamedLinop.split:
            return super()._tiles_at(windows)
        return self.with_operands_of_each([tile] for tile in self.linop._tiles_at(windows))

    def _supports(self, *dims: NamedDimension) -> Supports:
        """Return the supports of A: what A does not read, its adjoint does not write."""
        asked = [dim for dim in dims if may_be_cut(self, dim)]
        return dict.fromkeys(dims) | supports_of(self.linop, asked)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the normal operator for an input with these dimensions; see `NamedLinop`."""
        if self.ishape != self.linop.ishape:
            return None  # it has other names than A
        fitted = fitted_input(self.linop, dims)
        shape = NamedShape(dims)
        if self.oshape != self.ishape:
            in_front = with_dims_in_front(self._shape, dims)
            if in_front is None:
                return None
            shape = in_front
        return None if fitted is None else self.with_operands([fitted], shape)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the normal operator with ``shape``."""
        of_linop = shape.ishape if self.linop.ishape == self.ishape else shape.oshape
        return self.with_operands([self.linop.resolved(ishape=of_linop)], shape)


@totals_of.register(Normal)
def _totals_of_input(linop: Normal, side: Side) -> Totals | None:
    return totals_of(linop.linop, "input")


without_fftshift.register(Normal)(operands_without_fftshift)


@Question
def normal_around(inner: NamedLinop, linop: NamedLinop) -> NamedLinop | None:
    """Return A^H inner A in a closed form that the class of ``inner`` knows, or None."""
    return None


def normal(linop: NamedLinop, inner: NamedLinop | None) -> NamedLinop:
    """Return A^H inner A, in closed form if there is no inner operator and A has one."""
    if inner is None:
        has_form = linop.normal_fn is not NamedLinop.normal_fn
        return Normal(linop) if has_form else composed_normal(linop)
    may_leave_out = is_identity(inner) and not knows_more(inner, [linop], [])
    if may_leave_out and config.reduce_identity_in_normal:
        return fit_inner(linop, inner)[0].own_normal().as_endomorphism()
    return normal_around(inner, linop) or composed_normal(linop, inner)


rules.normal = normal


def composed_normal(linop: NamedLinop, inner: NamedLinop | None = None) -> NamedLinop:
    """Return A^H inner A as a composition, in which different dimensions have different names."""
    linop = linked_copy(linop)  # so that the normal of A.H, which A.H keeps, does not hold A
    middle, return_names = list[NamedLinop](), linop.oshape
    if inner is not None:
        linop, inner = fit_inner(linop, inner)
        # The names of what M returns may be those of other dimensions of A.
        others = linop.dims - {*linop.oshape}
        renamed = [dim for dim in inner.oshape if dim in others and dim not in inner.ishape]
        names = unused_names(renamed, linop.dims | inner.dims)
        inner = inner.renamed(dict(zip(renamed, names, strict=True)))
        middle, return_names = [inner], inner.oshape
    used = linop.dims.union(*(factor.dims for factor in middle))
    back = linop.H.renamed(_names_of_adjoint(linop, return_names, used))
    return rules.compose(linop, *middle, back).as_endomorphism()


def _names_of_adjoint(
    linop: NamedLinop, return_names: Sequence[NamedDimension], used: Iterable[NamedDimension]
) -> dict[NamedDimension, NamedDimension]:
    """Return the new names for the adjoint in A^H A.

    Its input takes the output names of A (``return_names``). If a dimension is only in the input of
    A or inside of it, it gets an unused name, because in A^H it is another dimension than in A.
    """
    names = {
        old: new
        for old, new in zip(linop.oshape, return_names, strict=True)
        if old != new and not is_wildcard(old)
    }
    each = [*linop.ishape, *sorted(linop.dims - set(linop.ishape), key=str)]
    others = [dim for dim in each if dim not in linop.oshape and not is_wildcard(dim)]
    return names | dict(zip(others, unused_names(others, used), strict=True))


def fit_inner(linop: NamedLinop, inner: NamedLinop) -> tuple[NamedLinop, NamedLinop]:
    """Return both with their wildcards resolved by each other, or fitted by name."""
    check_inner(linop, inner)
    reason = f"it returns {len(inner.oshape)} dimensions"
    try:
        linop = linop.resolved(oshape=inner.ishape)
        inner = inner.resolved(ishape=linop.oshape)
    except ValueError as error:
        reason, pair = str(error), fitted_neighbours(linop, inner)
        if pair is not None and len(pair[1].oshape) == len(pair[0].oshape):
            return pair
    else:
        if len(inner.oshape) == len(linop.oshape):
            return linop, inner
    raise ValueError(
        f"{linop.signature}: the inner operator of a normal must act on the output space, "
        f"got {inner.signature}: {reason}"
    )
