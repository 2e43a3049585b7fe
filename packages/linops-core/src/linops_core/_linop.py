"""The base of all operators: what it means to call, derive from and combine them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from memmap import memory_aware_deepcopy, memory_aware_to
from nameddim import ELLIPSES, ND, NamedDimension, NamedShape, is_wildcard

from . import config
from ._arithmetic import Arithmetic
from ._copying import linked, shallow_copy, with_changed_tensors
from ._description import described, tensor_text
from ._dtype import in_precision_of
from ._roles import Role, membership
from ._tile import SplitError, Window, named_window, normalized_slice

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

_DERIVED = ("_adjoint", "_normal")


class NamedLinop(Arithmetic, nn.Module):
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

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        super().__init__()
        if not isinstance(shape, NamedShape):
            raise TypeError(f"{type(self).__name__}: shape must be a NamedShape, got {shape!r}")
        self._name = name
        self._shape = shape
        self._adjoint: NamedLinop | weakref.ref[NamedLinop] | None = None
        self._normal: NamedLinop | None = None
        self._has_relatives = False
        self._is_endomorphism = False

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

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the part of the operator that maps the tile's input to the tile's output.

        Parameters
        ----------
        tile : mapping of dimension to slice
            Dimensions that the operator does not have are ignored; those left out are whole.

        Returns
        -------
        NamedLinop
            Holds views of the weights: cutting allocates no tensor.

        Raises
        ------
        SplitError
            If a dimension is opaque in the operator, or a slice is not within its size.
        """
        if window := linop.own_window(tile):
            raise SplitError(f"{linop.name}: the class must override split to cut {set(window)}")
        return linop  # type: ignore[no-any-return]

    @staticmethod
    def adj_split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the adjoint of the part of the adjoint: what ``split`` is to an ``A.H``."""
        return linop.H.split(linop.H, tile).H  # type: ignore[no-any-return]

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None where the operator takes any.

        An operator may be given other names for its dimensions (A.N does), so ask what ``dim`` is
        by its place in ``self.ishape``, ``self.oshape`` or ``self.shape.other_shapes``.
        """
        return None

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return the reason why ``dim`` cannot be sliced here, or None when it can."""
        if type(self).split is not NamedLinop.split:
            return None
        return "the operator does not say how to split it (override split(linop, tile))"

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
    def name(self) -> str:
        """The name given, else the name of the class."""
        return self._name or type(self).__name__

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
        return self._is_endomorphism or self.ishape == self.oshape

    def as_endomorphism(self) -> NamedLinop:
        """Return the operator, known to map a space to itself: for one who made it so."""
        if self.is_endomorphism:
            return self
        other = linked(self)
        vars(other)["_is_endomorphism"] = True
        return other

    def role(self, dim: NamedDimension | str) -> Role | None:
        """Return how ``dim`` behaves here, or None if the operator does not have it."""
        dim = ND.infer(dim)
        if dim not in self.dims:
            return None
        if self.why_opaque(dim) is not None:
            return Role.OPAQUE
        return membership(self._shape, dim)

    # Calls

    if TYPE_CHECKING:  # nn.Module.__call__ returns Any

        def __call__(self, x: Tensor) -> Tensor: ...

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
            If x is no tensor.
        ValueError
            If the number of dimensions or a size is not that of ``ishape``.
        """
        self._admit(x)
        return self.fn(self, x)

    def _admits(self, x: Tensor) -> bool:
        """Whether the input is known to be right; to be overridden by who remembers the last."""
        return False

    def _admit(self, x: Tensor) -> None:
        """Check the input, and remember it as one that is right."""
        self._check_input(x)

    def _check_input(self, x: Tensor) -> None:
        self._check_rank(x)
        self._check_sizes(x.shape)

    def _check_sizes(self, shape: torch.Size) -> None:
        for axis, dim in named_axes(self._shape.ishape):
            size = self.size(dim)
            if size is not None and shape[axis] != size:
                raise ValueError(
                    f"{self.name}: {dim} must have size {size}, got {shape[axis]} "
                    f"in an input of shape {tuple(shape)} for {self.shape}"
                )

    def _check_rank(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"{self.name}: the input must be a torch.Tensor, got {type(x)}")
        ishape = self._shape.ishape
        any_run = ELLIPSES in ishape
        if (x.ndim < len(ishape) - 1) if any_run else (x.ndim != len(ishape)):
            raise ValueError(
                f"{self.name}: the input must have {'at least ' * any_run}"
                f"{len(ishape) - any_run} dimensions for {self.shape}, "
                f"got shape {tuple(x.shape)}"
            )

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
            adjoint = self.adjoint()
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
        normal = self.normal()
        if config.cache_adjoint_normal:
            vars(self)["_normal"] = normal
        return normal

    @property
    def gram(self) -> NamedLinop:
        """The normal operator, under the name other libraries use."""
        return self.N

    def adjoint(self) -> NamedLinop:
        """Return the adjoint A^H: a shallow copy with its functions swapped."""
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
        from ._conjugate import Conjugate

        return Conjugate(self)

    def flatten(self) -> list[NamedLinop]:
        """Return the operators of which this one is the composition, first applied first."""
        return [self]

    def uncentred(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
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
        ValueError
            If ``inner`` is not such an operator.
        """
        from ._identity import is_identity
        from ._normal import fit_inner
        from ._sandwich import sandwich

        vars(self)["_has_relatives"] = True
        if inner is None:
            return self.own_normal().as_endomorphism()
        if is_identity(inner) and config.reduce_identity_in_normal:
            return fit_inner(self, inner)[0].own_normal().as_endomorphism()
        return sandwich(self, inner)

    def own_normal(self) -> NamedLinop:
        """Return A^H A: through ``normal_fn`` where the class has one.

        The one to override for an operator whose normal is an operator of another kind.
        """
        from ._normal import Normal
        from ._sandwich import sandwich

        if self.normal_fn is NamedLinop.normal_fn:
            return sandwich(self)
        return Normal(linked(self))

    def own_window(self, tile: Mapping[NamedDimension, slice]) -> Window:
        """Return the slices of ``tile`` that concern this operator, explicit and checked.

        Raises
        ------
        SplitError
            As :meth:`split`.
        """
        window = {}
        for dim, piece in named_window(tile).items():
            if dim not in self.dims and not is_wildcard(dim):
                continue
            where = f"{self.signature}: {dim}"
            explicit = normalized_slice(piece, self.size(dim), where)
            if explicit is None:
                continue
            if is_wildcard(dim):
                raise SplitError(f"{where} must have a name to be split along, got {explicit}")
            if (reason := self.why_opaque(dim)) is not None:
                raise SplitError(f"{where} cannot be split: {reason}")
            window[dim] = explicit
        return window

    def split_forward(self, ibatch: Iterable[slice], obatch: Iterable[slice]) -> NamedLinop:
        """Return the part of the operator between slices of its input and of its output.

        Parameters
        ----------
        ibatch, obatch : sequences of slices
            One for each dimension of ``ishape`` and ``oshape``.

        Raises
        ------
        SplitError
            As :meth:`split`; also if a dimension of both sides is given two slices.
        """
        tile: dict[NamedDimension, slice] = {}
        for side, names, pieces in (
            ("input", self.ishape, tuple(ibatch)),
            ("output", self.oshape, tuple(obatch)),
        ):
            if len(pieces) != len(names):
                raise SplitError(
                    f"{self.signature}: one slice must be given for each "
                    f"{side} dimension, got {len(pieces)}"
                )
            for dim, piece in zip(names, pieces, strict=True):
                if tile.setdefault(dim, piece) != piece:
                    raise SplitError(
                        f"{self.signature}: {dim} must have one slice on both "
                        f"sides, got {tile[dim]} and {piece}"
                    )
        return self.split(self, tile)

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
        return self if shape == self._shape else linked(self, shape)

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        if not self.dims & names.keys():
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

    # Copies

    def __copy__(self) -> Self:
        """Return a copy that shares the tensors and has its own module dictionaries."""
        return shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent copy in which tensors share storage as they do here."""
        return memory_aware_deepcopy(self, memo)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the derived operators, which are made again."""
        return {**vars(self), **dict.fromkeys(_DERIVED)}

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; refused where operators made of this one would not follow.

        Parameters and buffers are followed by all: each may be replaced at any time.

        Raises
        ------
        RuntimeError
            If it is none of them, and this operator has an adjoint, a normal, tiles or a copy
            with other names.
        """
        own = vars(self)
        if own.get("_has_relatives") and not (
            name.startswith("_")
            or name == "training"
            or name in own["_parameters"]
            or name in own["_buffers"]
        ):
            raise RuntimeError(
                f"{self.name}: {name} must not change once other operators were made of this "
                f"one (an adjoint, a normal, a tile, a composition), got {value!r}; "
                "make a new operator"
            )
        super().__setattr__(name, value)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield the operator and its parts by name; of those with the same weights the first.

        ``torch.func.functional_call`` puts other tensors in the place of all that are listed
        and then back; a dictionary of weights that was listed twice would keep the others.
        """
        listed: set[Any] = set() if memo is None else memo
        is_first = id(self._parameters) not in listed
        listed.add(id(self._parameters))
        for found in super().named_modules(listed, prefix, remove_duplicate):
            if is_first or found[1] is not self:
                yield found

    def to(  # type: ignore[override]
        self,
        device: torch.device | str | int | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        memory_aware: bool = False,
    ) -> Self:
        """Move the operator, in place, to a device, or change its precision.

        Parameters
        ----------
        device : torch.device or str, optional
        dtype : torch.dtype, optional
            The precision to have: complex weights stay complex and real ones real, so
            ``torch.float64`` and ``torch.complex128`` ask for the same. Integers stay.
        memory_aware : bool
            Keep tensors that share storage sharing it (:func:`memmap.memory_aware_to`).

        Raises
        ------
        TypeError
            If dtype has no precision (an integer type).
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        if memory_aware:
            return memory_aware_to(self, device, dtype)
        self._apply(  # type: ignore[no-untyped-call] # torch's own
            lambda tensor: tensor.to(device, in_precision_of(tensor, dtype))
        )
        return self

    def to_dense(
        self,
        sizes: Mapping[str, int] | None = None,
        dtype: torch.dtype = torch.complex128,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Return the matrix of the operator.

        Parameters
        ----------
        sizes : mapping of dimension to int, optional
            Sizes of the input's dimensions that the operator does not know.
        dtype, device : optional
            Of the unit vectors that it is applied to.

        Returns
        -------
        Tensor
            Shape (product of output sizes, product of input sizes).

        Raises
        ------
        ValueError
            If the size of an input dimension is not known.
        """
        known = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
        lengths = []
        for dim in self.ishape:
            length = known.get(dim, self.size(dim))
            if length is None:
                raise ValueError(f"{self.name}: the size of {dim} is not known; give it in sizes")
            lengths.append(length)
        basis = torch.eye(int(torch.Size(lengths).numel()), dtype=dtype, device=device)
        return torch.stack([self(row.reshape(lengths)).flatten() for row in basis], dim=1)

    def extra_repr(self) -> str:
        """Return what ``repr`` says beside the names of the dimensions: the weights."""
        tensors = {**self._parameters, **self._buffers}
        return ", ".join(tensor_text(name, t) for name, t in tensors.items() if t is not None)

    def to_scipy(
        self,
        sizes: Mapping[str, int] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> LinearOperator:
        """Return the operator as a ``scipy.sparse.linalg.LinearOperator`` on flat NumPy vectors.

        It has ``matvec``, ``rmatvec``, ``matmat`` and ``rmatmat``, so SciPy's solvers run on it.
        The columns of a matrix go through the operator at once where its ``...`` is a batch
        dimension. Weights are read in every call.

        Parameters
        ----------
        sizes : mapping of dimension to int, optional
            Sizes of the input's dimensions that the operator does not know. A ``...`` that is
            not given stands for no dimension.
        dtype : torch.dtype, optional
            What vectors are cast to, complex ones to the complex dtype of that precision; that
            of the weights by default, double if there are none.
        device : torch.device or str, optional
            Where the operator is applied: the device of the weights by default. Vectors stay on
            the CPU, and are copied there and back.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            Shape (product of output sizes, product of input sizes). Its dtype is what the
            operator makes of ``dtype``.

        Raises
        ------
        ImportError
            If SciPy is not installed (the extra ``scipy``).
        TypeError
            If dtype is not one of float32, float64, complex64 and complex128.
        ValueError
            If the size of a dimension is not known, or weights are on several devices.

        Examples
        --------
        >>> from linops_core import Diagonal
        >>> A = Diagonal(torch.tensor([2.0, 4.0]), ("N",)).to_scipy()
        >>> A.shape, A.dtype
        ((2, 2), dtype('float32'))
        """
        from ._adapters import to_scipy

        return to_scipy(self, sizes, dtype, device)

    def __repr__(self) -> str:
        """Return the tree of operators: names, shapes, dtypes, devices and bytes."""
        # Not children(), which names an operand that is used twice only once.
        parts = [part for part in self._modules.values() if isinstance(part, NamedLinop)]
        return described(self, parts)


def named_axes(
    names: tuple[NamedDimension, ...],
) -> list[tuple[int, NamedDimension]]:
    """Return (axis, dimension) of all but ``...``; axes behind it count from the end."""
    found, offset = [], 0
    for axis, dim in enumerate(names):
        if dim == ELLIPSES:
            offset = len(names)
        else:
            found.append((axis - offset, dim))
    return found
