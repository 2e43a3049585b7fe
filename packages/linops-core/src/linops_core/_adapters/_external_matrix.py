"""Matrices of other libraries as operations of torch.

Shapes: B vectors at once, N = product of input sizes, M = product of output sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from .._extras import optional_module
from ._arrays import as_tensor

RowProduct: TypeAlias = Callable[[Any, Any], Any]

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


class ExternalMatrix:
    """An operator of another library, with functions that multiply the rows of NumPy arrays.

    ``forward`` and ``adjoint`` get the operator and an array (B, N) or (B, M), which is complex if
    the operator is. ``is_complex_linear`` is False for an operator that is linear over the reals
    only. Others between real vectors are real matrices.
    """

    def __init__(
        self,
        library: str,
        operator: Any,
        shape: Sequence[int],
        is_complex: bool,
        forward: RowProduct,
        adjoint: RowProduct,
        is_complex_linear: bool = True,
    ) -> None:
        self.is_complex_linear = is_complex_linear
        self.library, self.operator, self.is_complex = library, operator, is_complex
        self.shape = (int(shape[0]), int(shape[1]))
        self.forward, self.adjoint = forward, adjoint
        with _REGISTERING:
            _register_operation()
        self.key = str(next(_numbers))
        _by_key[self.key] = self

    def multiplied(self, x: Tensor, adjoint: bool) -> Tensor:
        """Return A x or A^H x for each row, in the precision of ``x``, as a new tensor."""
        apart = x.is_complex() and not self.is_complex
        rows = torch.view_as_real(x).movedim(-1, 0).flatten(0, 1) if apart else x
        if self.is_complex:
            rows = rows.to(_COMPLEX.get(x.dtype, x.dtype))
        array = rows.resolve_conj().resolve_neg().contiguous().numpy()
        result = as_tensor((self.adjoint if adjoint else self.forward)(self.operator, array))
        if result.is_complex() and not self.is_complex:
            raise TypeError(
                f"{self.library}: a real operator must return real vectors for real vectors, got "
                f"{result.dtype}"
            )
        # The result may be the input, or an array that the next call writes to.
        y = torch.empty(len(rows), self.shape[adjoint], dtype=rows.dtype).copy_(
            result.reshape(len(rows), self.shape[adjoint])
        )
        return torch.complex(*y.chunk(2)) if apart else y

    def like_result(self, x: Tensor, adjoint: bool) -> Tensor:
        """Return an empty tensor like the one that :meth:`multiplied` returns."""
        dtype = _COMPLEX.get(x.dtype, x.dtype) if self.is_complex else x.dtype
        return x.new_empty(len(x), self.shape[adjoint], dtype=dtype)

    def __reduce__(self) -> Any:
        """Make copies anew, so that each has its own key."""
        given = self.library, self.operator, self.shape, self.is_complex, self.forward, self.adjoint
        return ExternalMatrix, (*given, self.is_complex_linear)


def each_row(apply: Callable[[Any], Any], rows: Any, lengths: Sequence[int]) -> Any:
    """Return what ``apply`` returns for each row in the shape ``lengths``, as rows."""
    numpy = optional_module("numpy", "an operator of another library")
    return numpy.stack([numpy.reshape(apply(row.reshape(lengths)), -1) for row in rows])


def check_complex_linear(
    owner: str, apply: Callable[[Any], Any], lengths: Sequence[int], advice: str
) -> None:
    """Raise an error if f(i x) is not i f(x) for a function of arrays."""
    x = torch.randn(tuple(lengths), dtype=torch.complex128, generator=torch.Generator()).numpy()
    of_x, of_ix = (as_tensor(apply(array)) for array in (x, 1j * x))
    error = (of_ix - 1j * of_x).abs().max() if of_x.numel() else 0
    if error > 1e-3 * of_x.abs().max():  # the library may compute in single precision
        raise ValueError(
            f"{owner}: the operator must be linear over complex numbers, got one with "
            f"f(i x) not i f(x); {advice}"
        )


# By key, because a graph cannot keep Python objects. The operator of a graph lives as long as the
# graph, and holds the matrix.
_by_key: WeakValueDictionary[str, ExternalMatrix] = WeakValueDictionary()
_numbers = count()
_REGISTERING = Lock()


@cache
def _register_operation() -> None:
    """Register the product as an operation of torch, at first use and not on import."""

    @torch.library.custom_op("linops_core::multiplied", mutates_args=(), device_types="cpu")
    def operation(x: Tensor, key: str, adjoint: bool) -> Tensor:
        matrix = _by_key[key]
        return matrix.multiplied(x, adjoint) if len(x) else matrix.like_result(x, adjoint)

    operation.register_autograd(_Product.backward, setup_context=_Product.setup_context)

    @operation.register_fake
    def _(x: Tensor, key: str, adjoint: bool) -> Tensor:
        return _by_key[key].like_result(x, adjoint)


class _Product(torch.autograd.Function):
    """The same for autograd and torch.func, to any order."""

    @staticmethod
    def forward(x: Tensor, key: str, adjoint: bool) -> Tensor:
        y: Tensor = torch.ops.linops_core.multiplied(x, key, adjoint)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str, bool], output: Tensor) -> None:
        x, ctx.key, ctx.adjoint = inputs
        ctx.is_complex = x.is_complex()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        back = multiplied(gradient, ctx.key, not ctx.adjoint)
        return back if ctx.is_complex else back.real, None, None

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: None) -> Tensor:
        return multiplied(change, ctx.key, ctx.adjoint)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None, None], x: Tensor, key: str, adjoint: bool
    ) -> tuple[Tensor, int]:
        many = x.movedim(in_dims[0], 0)
        y = multiplied(many.flatten(0, 1), key, adjoint)
        return y.reshape(*many.shape[:2], y.shape[1]), 0


def multiplied(x: Tensor, key: str, adjoint: bool) -> Tensor:
    """Return A x or A^H x for each row of (B, N) or (B, M); differentiable to any order."""
    # The compiler refuses functions that define a forward-mode derivative.
    function = torch.ops.linops_core.multiplied if torch.compiler.is_compiling() else _Product.apply
    y: Tensor = function(x, key, adjoint)  # type: ignore[no-untyped-call]
    return y
