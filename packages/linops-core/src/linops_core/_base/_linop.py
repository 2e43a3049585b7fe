"""The base of all operators: what it means to call, derive from and combine them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from nameddim import ELLIPSES, NamedDimension, NamedShape

from .. import config
from .._kernels._tracing import built, may_be_remembered
from ._arithmetic import Arithmetic
from ._conversions import Conversions
from ._copying import linked, with_changed_tensors
from ._description import described, tensor_text
from ._hooks import called
from ._inheritance import forget_what_no_longer_holds
from ._module import OperatorModule
from ._sides import Side, Source, check_rank, check_sizes, dims_of, occurrences
from ._slicing import Slicing


class NamedLinop(Arithmetic, Slicing, Conversions, OperatorModule):
    r"""A linear operator :math:`A` between tensors whose dimensions have names.

    To write one, subclass it, hand the shape to ``super().__init__`` and override the static
    methods ``fn(linop, x)`` for :math:`Ax` and ``adj_fn(linop, y)`` for :math:`A^H y`. They
    are static, and find weights on ``linop``, because an adjoint is a shallow copy of its
    operator with the two functions swapped: it holds the very same tensors. Optional are
    ``normal_fn(linop, x)`` and ``adj_normal_fn(linop, y)`` where :math:`A^H A` and
    :math:`A A^H` have a closed form, ``size(dim)``, and ``split(linop, tile)``; an operator
    without ``split`` works everywhere and is refused where it would have to be sliced.
    :class:`SliceableLinop` gives the last two to operators whose weights carry named dimensions.

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

    _is_stateless: ClassVar[bool] = False
    """Whether ``fn`` and ``adj_fn`` keep nothing from one call to the next, and what they return is
    of a shape and dtype that those of input and weights say."""

    _is_real: ClassVar[bool] = False
    """Whether the operator is its own complex conjugate."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep no closed form of an operator whose ``fn`` or ``adj_fn`` the class overrides."""
        super().__init_subclass__(**kwargs)
        forget_what_no_longer_holds(cls, NamedLinop)

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        super().__init__(name)
        if not isinstance(shape, NamedShape):
            raise TypeError(f"{type(self).__name__}: shape must be a NamedShape, got {shape!r}")
        self._shape = shape
        self._adjoint: NamedLinop | weakref.ref[NamedLinop] | None = None
        self._normal: NamedLinop | None = None
        self._is_endomorphism = False
        self._passed: torch.Size | None = None  # of the last input whose output was checked
        self._returned: torch.Size | None = None  # of that output

    # What a subclass says. `linop` is typed Any: a subclass narrows it to itself, which no
    # other annotation of an overridden parameter allows.

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x."""
        raise NotImplementedError(f"{linop.name}: the class must override fn(linop, x)")

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        raise NotImplementedError(
            f"{linop.name}: there is no adjoint; the class must override adj_fn(linop, x)"
        )

    @staticmethod
    def normal_fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A^H A x in closed form."""
        raise NotImplementedError(f"{linop.name}: there is no closed form of the normal")

    # What normal_fn is to an A.H: A A^H in closed form.
    adj_normal_fn = normal_fn

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None where the operator takes any.

        Where input and output have different dimensions of that name it is that of the input;
        :meth:`sizes` tells them apart.

        An operator may be given other names for its dimensions (A.N does), so ask what ``dim`` is
        by its place in ``self.ishape``, ``self.oshape`` or ``self.shape.other_shapes``.
        """
        return None

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the length of each dimension of one side, None where the operator takes any.

        To be overridden where input and output may have different dimensions of one name;
        elsewhere :meth:`size` says it.

        Parameters
        ----------
        side : {"input", "output"}

        Examples
        --------
        >>> from linops_core import PadLast
        >>> A = PadLast([5], [2], ("Nx",), ("Nx",), ())
        >>> A.sizes("input"), A.sizes("output")
        ((2,), (5,))
        """
        names = dims_of(self._shape, side)
        return tuple([None if dim == ELLIPSES else self.size(dim) for dim in names])

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return the positions in the input and in the output that are one dimension.

        Slices go through there, so both are equally long.
        """
        is_batch: dict[NamedDimension, bool] = {}
        at_input: dict[tuple[NamedDimension, int], int] = {}
        for position, place in enumerate(occurrences(self.ishape)):
            at_input[place] = position
        links = []
        for position, place in enumerate(occurrences(self.oshape)):
            if place in at_input:
                dim = place[0]
                if dim not in is_batch:
                    is_batch[dim] = self.why_opaque(dim) is None
                if is_batch[dim]:
                    links.append((at_input[place], position))
        return links

    def _source(self, side: Side, position: int) -> Source:
        """Return the operator that knows the length at a place and where, or the length itself."""
        return self, side, position

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """Devices on which an input may have to be: those of the weights, none where any will do.

        An operator that takes its input elsewhere overrides this. Where a vector is made for the
        operator, as by `to_dense` and `svd`, it is on the first of them.
        """
        tensors = (*self.parameters(), *self.buffers())
        return tuple(dict.fromkeys(tensor.device for tensor in tensors))

    # Shape

    @property
    def shape(self) -> NamedShape:
        """Names of the dimensions; replaced, never edited."""
        return self._shape

    @property
    def ishape(self) -> tuple[NamedDimension, ...]:
        """Names of the input's dimensions."""
        return self._shape.ishape

    @property
    def oshape(self) -> tuple[NamedDimension, ...]:
        """Names of the output's dimensions."""
        return self._shape.oshape

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All dimensions that have a name here: of input, output, weights and parts."""
        return self._shape.dims

    @property
    def signature(self) -> str:
        """The name and the names of both sides, for messages."""
        ishape, oshape = (", ".join(map(str, names)) for names in (self.ishape, self.oshape))
        return f"{self.name} ({ishape}) -> ({oshape})"

    @property
    def is_endomorphism(self) -> bool:
        """Whether the operator maps a space to itself, whatever it calls what it returns.

        So is one whose output has the names of its input, and the normal operator (N) -> (N1) of
        a sum over N: there N1 is N again, by a name under which it can be sliced by itself.
        """
        if self._is_endomorphism or self.ishape != self.oshape:
            return self._is_endomorphism
        # Names do not say it: a crop may keep those of its input.
        sizes = zip(self.sizes("input"), self.sizes("output"), strict=True)
        return all(None in pair or pair[0] == pair[1] for pair in sizes)

    def as_endomorphism(self) -> NamedLinop:
        """Return the operator, known to map a space to itself: for one who made it so."""
        if self.is_endomorphism:
            return self
        other = linked(self)
        vars(other)["_is_endomorphism"] = True
        return other

    # Calls

    def __call__(self, x: Tensor) -> Tensor:
        """Return A x, after and before the hooks of the module; see :meth:`forward`."""
        return called(self, x)

    def forward(self, x: Tensor) -> Tensor:
        """Return A x.

        Parameters
        ----------
        x : Tensor
            Of shape ``ishape``.

        Returns
        -------
        Tensor
            Of shape ``oshape``. Shares memory with ``x`` where the operator moves nothing
            (Identity, a slice).

        Raises
        ------
        TypeError
            If x is no tensor, or ``fn`` returns none.
        ValueError
            If the number of dimensions or a size is not that of ``ishape``; or that of what
            ``fn`` returns not that of ``oshape``, which is checked for each new shape of x.
        """
        self._admit(x)
        y = self.fn(self, x)
        # A weight that was replaced unseen, as by the adjoint, may change the shape of y alone.
        if not self._passes(x) or getattr(y, "shape", None) != self._returned:
            self._check_output(y)
            if may_be_remembered(x.shape):
                vars(self).update(_passed=x.shape, _returned=y.shape)
        return y

    def _passes(self, x: Tensor) -> bool:
        """Whether the output for an input of that shape was right."""
        return not is_dynamo_compiling() and type(x) is Tensor and x.shape == self._passed

    def _admits(self, x: Tensor) -> bool:
        """Whether the input is known to be right; to be overridden by who remembers the last."""
        return False

    def _admit(self, x: Tensor) -> None:
        """Check the input, and remember it as one that is right."""
        self._check_input(x)

    def _check_input(self, x: Tensor) -> None:
        self._check_rank(x)
        self._check_sizes(x.shape)

    def _check_rank(self, x: Tensor) -> None:
        check_rank(self, x, "input")

    def _check_sizes(self, shape: torch.Size) -> None:
        check_sizes(self, shape, "input")

    def _check_output(self, y: Tensor) -> None:
        check_rank(self, y, "output")
        check_sizes(self, y.shape, "output")

    # Derived operators

    @property
    def H(self) -> NamedLinop:
        """The adjoint; made once (:mod:`linops_core.config`), and never out of date.

        It holds the same tensors.
        """
        adjoint = self._adjoint
        if isinstance(adjoint, weakref.ref):
            adjoint = adjoint()
        if adjoint is None:
            adjoint = built(self.adjoint)
            if adjoint is not self and config.cache_adjoint_normal:
                # The way back is weak: an operator of gigabytes must not wait for the
                # collector of cycles to be freed.
                vars(self)["_adjoint"] = adjoint
                vars(adjoint)["_adjoint"] = weakref.ref(self)
        return adjoint

    @property
    def N(self) -> NamedLinop:
        """The normal operator A^H A; made once (:mod:`linops_core.config`)."""
        if self._normal is not None:
            return self._normal
        normal = built(self.normal)
        if config.cache_adjoint_normal:
            vars(self)["_normal"] = normal
        return normal

    @property
    def gram(self) -> NamedLinop:
        """The normal operator, under the name other libraries use."""
        return self.N

    def adjoint(self) -> NamedLinop:
        """Return the adjoint A^H: a shallow copy with its functions swapped.

        Raises
        ------
        NotImplementedError
            If the class does not say what the adjoint does.
        """
        if self.adj_fn is NamedLinop.adj_fn:
            self.adj_fn(self, torch.empty(0))  # which says what is missing
        adjoint = linked(self, self._shape.H)
        # Through vars: a static method set on an instance, which mypy and Module.__setattr__
        # have no word for.
        vars(adjoint).update(
            fn=self.adj_fn,
            adj_fn=self.fn,
            normal_fn=self.adj_normal_fn,
            adj_normal_fn=self.normal_fn,
            split=self.adj_split,
            adj_split=self.split,
        )
        return adjoint

    @property
    def T(self) -> NamedLinop:
        """The transpose, without conjugation: the complex conjugate of the adjoint."""
        return self.H.conj()

    def conj(self) -> NamedLinop:
        r"""Return the complex conjugate :math:`\bar A`: what A does with conjugated weights."""
        from .._algebra._conjugate import Conjugate

        return self if self._is_real else Conjugate(self)

    def flatten(self) -> list[NamedLinop]:
        """Return the operators of which this one is the composition, first applied first."""
        return [self]

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        r"""Return the same operator for data whose first element along ``dims`` is the centre.

        That is :math:`R^H A R`, where R moves the first element of each of ``dims`` to index
        n // 2 of n, on the side or sides of A that have it. None where A does not know how to
        without moving data. A centred Fourier transform uses it to leave out its shifts.
        """
        return None

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H A, or A^H inner A.

        Dimensions that a slice cannot follow from the input to the output get a new name in
        the output (N -> N1), so that each can be sliced by itself.

        Parameters
        ----------
        inner : NamedLinop, optional
            An operator from the output space to itself.

        Raises
        ------
        TypeError
            If ``inner`` is no operator.
        ValueError
            If it does not act on the output space.
        """
        from .._algebra._identity import is_identity
        from .._algebra._normal import fit_inner
        from .._algebra._normal_of import normal_of

        vars(self)["_has_relatives"] = True
        if inner is None:
            return self.own_normal().as_endomorphism()
        if not isinstance(inner, NamedLinop):
            raise TypeError(
                f"{self.signature}: the inner operator of a normal must be a NamedLinop, "
                f"got {type(inner)}"
            )
        if is_identity(inner) and config.reduce_identity_in_normal:
            return fit_inner(self, inner)[0].own_normal().as_endomorphism()
        return normal_of(self, inner)

    def _only_surrounds(self) -> bool:
        """Whether A^H inner A is for any ``inner`` but an identity these three, one by one."""
        return type(self).normal is NamedLinop.normal

    def own_normal(self) -> NamedLinop:
        """Return A^H A: through ``normal_fn`` where the class has one.

        The one to override for an operator whose normal is an operator of another kind.
        """
        from .._algebra._normal import Normal
        from .._algebra._normal_of import normal_of

        if self.normal_fn is NamedLinop.normal_fn:
            return normal_of(self)
        return Normal(linked(self))

    def resolved(
        self,
        ishape: tuple[NamedDimension, ...] | None = None,
        oshape: tuple[NamedDimension, ...] | None = None,
    ) -> NamedLinop:
        """Return the operator with its wildcards replaced by what they stand for.

        Returns
        -------
        NamedLinop
            The operator itself when there is nothing to replace; else a linked copy.

        Raises
        ------
        ValueError
            If the shape does not match.
        """
        shape = self._shape.resolve(ishape=ishape, oshape=oshape)
        return self if shape == self._shape else self.resolved_to(shape)

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, which is its own with wildcards replaced.

        The one to override for an operator whose parts have to be resolved with it.
        """
        return linked(self, shape)

    def _is_renamed_by(self, names: Mapping[NamedDimension, NamedDimension]) -> bool:
        if not isinstance(names, Mapping):
            raise TypeError(
                f"{self.signature}: names must be a mapping of old names to new ones, as in "
                f'A.renamed({{"N": "K"}}), got {names!r}'
            )
        return bool(self.dims & names.keys())

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors.

        Raises
        ------
        TypeError
            If ``names`` is no mapping.
        """
        if not self._is_renamed_by(names):
            return self
        return linked(self, self._shape.rename(names))

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` in the place of every tensor w that it reads.

        A tile refers to whole weights and to the slice of them that is its own, so that
        gradients and changes of the weights reach it. Here ``change`` gets that slice, and what
        it returns is what the new operator holds, as buffers: ``A.with_weights(Tensor.detach)``
        holds just the views that A reads, and is what has to travel when A is sent elsewhere.
        """
        return with_changed_tensors(self, change)

    def extra_repr(self) -> str:
        """Return what ``repr`` says beside the names of the dimensions: the weights."""
        tensors = {**self._parameters, **self._buffers}
        return ", ".join(tensor_text(name, t) for name, t in tensors.items() if t is not None)

    def __repr__(self) -> str:
        """Return the tree of operators: names, shapes, dtypes, devices and bytes."""
        # Not children(), which names an operand that is used twice only once.
        parts = [part for part in self._modules.values() if isinstance(part, NamedLinop)]
        return described(self, parts)
