"""The base class of all operators."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import getattr_static
from typing import ClassVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from nameddim import NamedDimension, NamedShape

from .. import config
from .._kept import Kept
from .._kernels._tracing import constant_when_compiled, make_in_plain_python
from ._arithmetic import Arithmetic, rules
from ._calls import Calls
from ._conversions import Conversions
from ._copying import linked_copy, with_changed_tensors
from ._cutting import Slicing, overridable
from ._description import html_tree, tensor_text, tree_lines
from ._dimensions import check_inner, is_renamed_by, with_dims_in_front
from ._question import lost_closed_forms
from ._swapped_functions import check_swap, of_adjoint, swapped


class NamedLinop(Calls, Arithmetic, Conversions, Slicing):
    r"""A linear operator :math:`A` between tensors whose dimensions have names.

    To write an operator, subclass it, pass the shape to ``super().__init__`` and override two
    static methods: ``fn(linop, x)`` for :math:`Ax` and ``adj_fn(linop, y)`` for :math:`A^H y`. They
    read the weights from ``linop``, because an adjoint is a shallow copy of the operator with the
    two functions swapped and the same tensors. Optional methods are ``normal_fn(linop, x)`` and
    ``adj_normal_fn(linop, y)`` for closed forms of :math:`A^H A` and :math:`A A^H`, ``size(dim)``,
    and ``split(linop, tile)``, without which an operator cannot be sliced. :class:`SliceableLinop`
    implements the last two for operators whose weights have named dimensions.

    A subclass of another operator inherits its dimensions, sizes and slices. What follows from
    ``fn``, ``adj_fn`` or ``forward``, such as a closed form of the normal, it inherits only while
    it overrides none of them. Override ``why_opaque`` if your ``fn`` couples elements along a
    dimension that could be sliced before.

    Parameters
    ----------
    shape : NamedShape
        Names of the input and output dimensions.
    name : str, optional
        Shown in messages and in ``repr``; the class name by default.

    Examples
    --------
    >>> class Flip(NamedLinop):
    ...     "Reverse a signal; its own adjoint."
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         return x.flip(-1)
    ...     adj_fn = fn
    >>> A = Flip(NamedShape(("N",)))
    >>> (A @ A)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    saved_with: ClassVar[tuple[type, ...]] = (Kept,)
    """Classes of attributes that are saved with an operator; see :func:`safe_globals`."""
    takes_any_batch: ClassVar[bool] = False
    """Whether ``fn`` treats all slices of further dimensions in front alike. A class sets it."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Drop inherited closed forms of functions that the class overrides."""
        super().__init_subclass__(**kwargs)
        if "__call__" in vars(cls):
            raise TypeError(
                f"{cls.__name__}: an operator must override fn(linop, x), got a class that "
                "overrides __call__"
            )
        for name in lost_closed_forms(cls):
            setattr(cls, name, getattr_static(NamedLinop, name))

    @overridable
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return A x."""
        raise NotImplementedError(f"{linop.name}: the class must override fn(linop, x)")

    @overridable
    def adj_fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        raise NotImplementedError(
            f"{linop.name}: there is no adjoint; the class must override adj_fn(linop, x)"
        )

    @overridable
    def normal_fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return A^H A x in closed form."""
        raise NotImplementedError(
            f"{linop.name}: there is no closed form of the normal; write A.N(x)"
        )

    # The normal_fn of the adjoint: A A^H in closed form.
    adj_normal_fn = normal_fn

    def as_endomorphism(self) -> NamedLinop:
        """Return the operator, marked as one that maps a space to itself."""
        return self if self.is_endomorphism else linked_copy(self, None, _is_endomorphism=True)

    @property
    def H(self) -> NamedLinop:
        """The adjoint, with the same tensors; it is made once (:mod:`linops_core.config`)."""
        if is_dynamo_compiling():
            _make_derived(self)
        adjoint = self._adjoint
        if isinstance(adjoint, weakref.ref):
            adjoint = adjoint()
        if not isinstance(adjoint, NamedLinop):
            adjoint = make_in_plain_python(self.adjoint)
            if adjoint is not self and config.cache_adjoint_normal:
                # The way back is weak: an operator of gigabytes must not wait for the
                # collector of cycles to be freed.
                vars(self)["_adjoint"] = adjoint
                vars(adjoint)["_adjoint"] = weakref.ref(self)
        return adjoint

    @property
    def N(self) -> NamedLinop:
        """The normal operator A^H A; it is made once (:mod:`linops_core.config`)."""
        if is_dynamo_compiling():
            _make_derived(self)
        normal: NamedLinop | None = self._normal
        if normal is None:
            normal = make_in_plain_python(self.normal)
            if config.cache_adjoint_normal:
                vars(self)["_normal"] = normal
        return normal

    @property
    def gram(self) -> NamedLinop:
        """The normal operator; the name in other libraries."""
        return self.N

    def adjoint(self) -> NamedLinop:
        """Return the adjoint A^H: a shallow copy with its functions swapped.

        Raises
        ------
        NotImplementedError
            If the class has no ``adj_fn``, or overrides functions of a class that makes the adjoint
            from the adjoints of its parts, such as Chain.
        """
        if self.adj_fn is NamedLinop.adj_fn:
            NamedLinop.adj_fn(self, torch.empty(0))  # which raises the error
        if type(self).adjoint is NamedLinop.adjoint:
            check_swap(self, NamedLinop)
        if self.adj_fn is of_adjoint:
            return linked_copy(self, self._shape.H)
        return linked_copy(self, self._shape.H, **swapped(self))

    @property
    def T(self) -> NamedLinop:
        """The transpose, without conjugation: the complex conjugate of the adjoint."""
        return self.H.conj()

    def conj(self) -> NamedLinop:
        r"""Return the complex conjugate :math:`\bar A`: A with conjugated weights."""
        return self if self.is_real else rules.conjugate(self)

    def flatten(self) -> list[NamedLinop]:
        """Return the operators that this one composes, in the order of application."""
        return [self]

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H A, or A^H inner A.

        A dimension that A sums over gets a new name in the output (N -> N1), so that input and
        output can be sliced separately.

        Parameters
        ----------
        inner : NamedLinop, optional
            An operator that maps the output space to itself.

        Raises
        ------
        TypeError
            If ``inner`` is not an operator.
        ValueError
            If it does not act on the output space.
        """
        vars(self)["_has_relatives"] = True
        if inner is None:
            return self.own_normal().as_endomorphism()
        check_inner(self, inner)
        return rules.normal(self, inner)

    def own_normal(self) -> NamedLinop:
        """Return A^H A. Override it if that is an operator of another class."""
        return rules.normal(self, None)

    def resolved(
        self,
        ishape: tuple[NamedDimension, ...] | None = None,
        oshape: tuple[NamedDimension, ...] | None = None,
    ) -> NamedLinop:
        """Return the operator with its wildcards replaced by the dimensions of another shape.

        Returns
        -------
        NamedLinop
            The operator itself if there is nothing to replace, else a linked copy.

        Raises
        ------
        ValueError
            If the shape does not match.
        """
        shape = self._shape.resolve(ishape=ishape, oshape=oshape)
        return self if shape == self._shape else self.resolved_to(shape)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, its own with other dimensions for a wildcard.

        Override it if other attributes depend on the shape.
        """
        return linked_copy(self, shape)

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the same operator for inputs with the dimensions ``dims``, or None.

        Compositions call it if neighbours do not fit. If its class allows this, an operator without
        ``...`` also works on inputs with further dimensions in front, which are then a batch. Grid
        operators find their dimensions by name. The copy shares all tensors.
        """
        if not self.takes_any_batch:
            return None
        shape = with_dims_in_front(self._shape, dims)
        return None if shape is None else self.resolved_to(shape)

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors.

        Raises
        ------
        TypeError
            If ``names`` is not a mapping.
        """
        return linked_copy(self, self._shape.rename(names)) if is_renamed_by(self, names) else self

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` in the place of every tensor w that it reads.

        For a tile, w is its slice of a weight. The results are buffers.
        ``A.with_weights(Tensor.detach)`` holds only the views that A reads. Use it to send A to
        another device or process.
        """
        return with_changed_tensors(self, change)

    def extra_repr(self) -> str:
        """Return the text of ``repr`` for the weights."""
        tensors = {**self._parameters, **self._buffers}
        return ", ".join(tensor_text(name, t) for name, t in tensors.items() if t is not None)

    def __repr__(self) -> str:
        """Return the tree of operators: names, shapes, dtypes, devices and bytes."""
        return "\n".join(tree_lines(self))

    def _repr_html_(self) -> str:
        """Return the tree as a table for notebooks, with the sizes and roles that are known."""
        return html_tree(self)


@constant_when_compiled
def _make_derived(linop: NamedLinop) -> None:
    """Make the adjoint and the normal operator before a compiler looks for them."""
    if config.cache_adjoint_normal:
        for name in ("H", "N"):
            with suppress(NotImplementedError, ValueError):
                getattr(linop, name)
