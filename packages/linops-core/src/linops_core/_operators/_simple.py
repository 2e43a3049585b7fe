"""Operators from plain functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from memmap.siblings import check_flags
from nameddim import ELLIPSES, AnyDim, NamedDimension, NamedShape, as_dims

from .._algebra._normal import Normal, composed_normal
from .._algebra._threads import is_portable
from .._base._copying import linked_copy
from .._base._dimensions import Side, axis_of, dims_of, lengths_by_occurrence, occurrences
from .._base._linop import NamedLinop
from .._base._sizes import by_dimension
from .._base._tile import Window
from .._dottest import AdjointError, dottest
from .._kernels._dtype import as_complex
from .._kernels._inner_products import norm
from .._kernels._tracing import constant_when_compiled
from .._kernels._transposed import accepts_complex, transposed
from .._numbers import is_integer
from ._grid_names import Dims

Function = Callable[[Tensor], Tensor]


class SimpleLinop(NamedLinop):
    r"""An operator from plain functions: one for :math:`Ax`, one for :math:`A^H y`.

    Without the second one, autograd gives the adjoint: the vector-Jacobian product of ``forward``.
    Then ``forward`` must consist of differentiable operations of torch.

    To slice other dimensions than ``batch_dims``, write a class, see :class:`NamedLinop`. Functions
    that are modules become submodules: their weights are moved, saved and copied with the operator.
    To pickle the operator, its functions must be picklable.

    Parameters
    ----------
    forward : callable
        Returns A x. It must be linear, over the complex numbers unless ``is_complex_linear`` is
        False.
    adjoint : callable, optional
        Returns A^H y. Without it, the functions are checked even if ``check`` is False.
    normal : callable, optional
        Returns A^H A x, if there is a faster way than adjoint after forward.
    ishape, oshape : sequence of dimensions
        Any dimensions by default, the same in the output as in the input.
    name : str, optional
    check : bool
        Whether to check the functions on random vectors like the first input: the dot test,
        :math:`\langle A x, y \rangle = \langle x, A^H y \rangle`, and that ``normal`` equals
        adjoint after forward. The check runs once, at the first use of the operator, its adjoint or
        its normal, and calls the functions several times. It is postponed while torch compiles or
        transforms. With the adjoint of autograd, the dot test shows that ``forward`` is linear. The
        check also compares a slice along each of ``batch_dims`` with the slice of the whole.
    sizes : mapping of dimension to int, optional
        Known sizes. The adjoint of autograd needs the sizes of the dimensions that only the input
        has. Other dimensions have the size that they have in the output.
    batch_dims : sequence of dimensions
        Dimensions of input and output that can be sliced: the functions treat all slices alike.
    is_complex_linear : bool
        False if the functions are linear over the reals only, such as a real part. The adjoint is
        then with respect to :math:`\mathrm{Re} \langle x, y \rangle`.

    Raises
    ------
    TypeError
        If an argument that must be callable is not.
    ValueError
        If batch dimensions are not in both shapes, or a size is not an integer. At each use, if
        ``normal`` is wrong, ``forward`` is not linear or mixes slices of ``batch_dims``, or a size
        is missing.
    AdjointError
        At each use, if the adjoint is wrong; the message says by which factor.

    Examples
    --------
    >>> A = SimpleLinop(lambda x: x.cumsum(-1), lambda y: y.flip(-1).cumsum(-1).flip(-1))
    >>> A.H(torch.ones(3))
    tensor([3., 2., 1.])
    >>> SimpleLinop(lambda x: x.cumsum(-1)).H(torch.ones(3))
    tensor([3., 2., 1.])
    >>> wrong = SimpleLinop(lambda x: 2 * x, lambda y: y / 2, name="Twice", check=True)
    >>> try:
    ...     wrong(torch.ones(3))
    ... except ValueError as error:
    ...     print(str(error).rpartition(", ")[2])
    got 0.25 times the adjoint
    """

    def __init__(
        self,
        forward: Function,
        adjoint: Function | None = None,
        normal: Function | None = None,
        ishape: Dims = ("...",),
        oshape: Dims | None = None,
        name: str | None = None,
        *,
        check: bool = False,
        sizes: Mapping[str, int] | None = None,
        batch_dims: Dims = (),
        is_complex_linear: bool = True,
    ) -> None:
        check_flags("SimpleLinop", check=check, is_complex_linear=is_complex_linear)
        shape = NamedShape(ishape, oshape)
        batch = as_dims(batch_dims)
        super().__init__(NamedShape(shape.ishape, shape.oshape, batch_dims=batch), name)
        for which, function in (("forward", forward), ("adjoint", adjoint), ("normal", normal)):
            if not callable(function) and (which == "forward" or function is not None):
                raise TypeError(f"{self.name}: {which} must be callable, got {function!r}")
        for dim in batch:
            if dim not in self.ishape or dim not in self.oshape:
                raise ValueError(
                    f"{self.name}: batch_dims must be in the input and in the output, got {dim} "
                    f"for {shape}"
                )
        self.forward_function, self.adjoint_function = forward, adjoint
        self.normal_function = normal
        self._is_complex_linear = is_complex_linear
        self._lengths = by_dimension(self.name, sizes)
        for dim, size in self._lengths.items():
            if dim not in (*shape.ishape, *shape.oshape) or not is_integer(size, 0):
                raise ValueError(
                    f"{self.name}: sizes must be integers of at least 0, for dimensions of "
                    f"{shape}, got {size!r} for {dim}"
                )
        # Shared with all derived operators, so that the check runs once.
        self._to_check = {"functions": check or adjoint is None}

    @property
    def is_complex_linear(self) -> bool:
        """Whether the functions are declared linear over the complex numbers."""
        return self._is_complex_linear

    @staticmethod
    def fn(linop: SimpleLinop, x: Tensor, /) -> Tensor:
        """Return A x."""
        linop.check_once(x)
        return linop.forward_function(x)

    @staticmethod
    def adj_fn(linop: SimpleLinop, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        result = linop.applied_back(x)
        linop.check_once(result)
        return result

    @staticmethod
    def normal_fn(linop: SimpleLinop, x: Tensor, /) -> Tensor:
        """Return A^H A x, by the given function if there is one."""
        if linop.normal_function is None:
            return linop.adj_fn(linop, linop.fn(linop, x))
        linop.check_once(x)
        return linop.normal_function(x)

    def applied_back(self, y: Tensor) -> Tensor:
        """Return A^H y by the given function, or by autograd."""
        if self.adjoint_function is not None:
            return self.adjoint_function(y)
        try:
            return transposed(
                self.forward_function, self._input_lengths(y), y, self.is_complex_linear
            )
        except ValueError as error:
            raise ValueError(
                f"{self.signature}: the adjoint by autograd must know the size of each dimension "
                f"of the input, got {error}; rename dimensions that have another size in the "
                "output, and give SimpleLinop sizes= for dimensions that only the input has"
            ) from error
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError) as error:  # a TypeError in torch 2.15 for a complex rfft
            raise ValueError(
                f"{self.signature}: for an adjoint by autograd, forward must use only functions of "
                "torch and accept complex vectors unless is_complex_linear=False, got "
                f"{error}; or give adjoint="
            ) from error

    def _input_lengths(self, y: Tensor) -> list[int]:
        """Return the shape of the input, given the shape of an output."""
        idims, odims = (self.ishape, self.oshape)[:: 1 if self.is_adjoint else -1]
        lengths_of = lengths_by_occurrence(idims, y.shape)
        lengths: list[int] = []
        for occurrence in occurrences(odims):
            length = self._lengths.get(occurrence[0])
            if length is None and occurrence not in lengths_of:
                raise ValueError(f"no size of {occurrence[0]}")
            lengths += lengths_of[occurrence] if length is None else [length]
        return lengths

    # A compiler must use this value and not trace how it is found.
    @constant_when_compiled
    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths that were given, of the dimensions of one side."""
        return tuple([self._lengths.get(dim) for dim in dims_of(self.shape, side)])

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` that was given."""
        return self._lengths.get(cast(NamedDimension, dim))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it is not in ``batch_dims``."""
        if dim in self.shape.other_shapes["batch_dims"]:
            return None
        return "a function may mix all elements; batch_dims= names dimensions that can be sliced"

    def _tiles_at(self, windows: Sequence[Window]) -> Iterable[NamedLinop]:
        """Return the operator for slices of batch dimensions, which have other lengths."""
        given = self._lengths
        for window in windows:
            cut = {d: piece.stop - piece.start for d, piece in window.items() if d in given}
            yield linked_copy(self, None, _lengths=given | cut)

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions."""
        other = cast(SimpleLinop, super().renamed(names))
        if other is not self:
            other._lengths = {names.get(dim, dim): n for dim, n in self._lengths.items()}
        return other

    def check_once(self, x: Tensor) -> None:
        """Check the functions on vectors like the input ``x``, once."""
        if not self._to_check["functions"] or torch.compiler.is_compiling():
            return
        if x.is_meta or type(x) not in (Tensor, nn.Parameter) or not is_portable():
            return  # there may be no values to compare
        with torch.no_grad():
            self._check(x)
        self._to_check["functions"] = False

    def _check(self, x: Tensor) -> None:
        dims = tuple(AnyDim(axis + 1) for axis in range(x.ndim))
        sizes = {str(dim): length for dim, length in zip(dims, x.shape, strict=True)}
        functions = self.forward_function, self.adjoint_function
        by_autograd = self.adjoint_function is None
        plain = SimpleLinop(
            *functions,
            ishape=dims,
            oshape=("...",),
            name=self.name,
            sizes=sizes if by_autograd else None,
            is_complex_linear=self.is_complex_linear,
        )
        plain._to_check["functions"] = False
        is_number = x.is_floating_point() or x.is_complex()
        dtype = x.dtype if is_number else torch.get_default_dtype()
        z = torch.randn(x.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
        z = z.to(x.device)
        if by_autograd and (z.is_complex() or accepts_complex(self.forward_function, z)):
            z = as_complex(z) * (1 - 0.5j)
        elif by_autograd and self.is_complex_linear and plain.forward_function(z).is_complex():
            raise ValueError(
                f"{self.signature}: forward must take complex vectors to be linear over complex "
                "numbers, got one that refuses them; give is_complex_linear=False"
            )
        try:
            dottest(plain, sizes, dtypes=[z.dtype], trials=2, device=x.device)
        except AdjointError as error:
            if by_autograd:
                self._check_linear(z)
            message = str(error).replace(plain.signature, self.signature)
            raise AdjointError(f"{message}{by_autograd * _BY_AUTOGRAD}") from None
        if by_autograd:
            self._check_linear(z)
        self._check_batch(z)
        if self.normal_function is None:
            return
        actual, expected = self.normal_function(z), plain.applied_back(plain(z))
        if not _are_close(actual, expected):
            raise ValueError(
                f"{self.signature}: normal must be the adjoint after the forward, got another "
                f"result for a random vector of shape {tuple(x.shape)}"
            )

    def _check_linear(self, z: Tensor) -> None:
        """Raise an error if the function is not linear."""
        f = self.forward_function
        zero, y = f(torch.zeros_like(z)), f(z)
        if not _are_close(zero, torch.zeros_like(zero), y):
            raise ValueError(
                f"{self.signature}: forward must be linear, got f(0) of norm "
                f"{float(norm(zero)):.3g}; leave out the constant that it adds"
            )
        if not _are_close(f(2 * z), 2 * y):
            raise ValueError(f"{self.signature}: forward must be linear, got f(2 x) not 2 f(x)")
        if z.is_complex() and self.is_complex_linear and not _are_close(f(1j * z), 1j * y):
            raise ValueError(
                f"{self.signature}: forward must be linear over complex numbers, got f(i x) not "
                "i f(x); give is_complex_linear=False if it is linear over the reals"
            )

    def _check_batch(self, z: Tensor) -> None:
        """Raise an error if the function mixes slices of a batch dimension."""
        y = self.forward_function(z)
        idims, odims = (self.ishape, self.oshape)[:: -1 if self.is_adjoint else 1]
        for dim in self.shape.other_shapes["batch_dims"]:
            if dim == ELLIPSES:
                continue
            axis, oaxis = (axis_of(names.index(dim), names) for names in (idims, odims))
            for piece in range(min(z.shape[axis], 2)):
                part = self.forward_function(z.narrow(axis, piece, 1))
                if not _are_close(part, y.narrow(oaxis, piece, 1)):
                    raise ValueError(
                        f"{self.signature}: forward must do the same to all slices of {dim}, one "
                        f"of batch_dims, got another result for slice {piece} alone"
                    )

    def own_normal(self) -> NamedLinop:
        """Return A^H A, by the given function if there is one."""
        if self.normal_function is None or self.normal_fn is NamedLinop.normal_fn:
            return composed_normal(self)
        return Normal(self)


_BY_AUTOGRAD = "; of autograd, so that forward is not linear, or has a derivative of its own"


def _are_close(actual: Tensor, expected: Tensor, scale: Tensor | None = None) -> bool:
    """Whether two results are equal within rounding, relative to the larger one or to a scale."""
    if actual.shape != expected.shape:
        return False
    actual, expected = actual.detach(), expected.detach()
    size = max(float(norm(v)) for v in (actual, expected, expected if scale is None else scale))
    rounding: float = torch.finfo(expected.dtype).eps ** 0.5 * size
    return float(norm(actual - expected)) <= rounding
