"""To and from linear operators of SCICO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from .._base._conversions import check_has_matrix
from .._base._linop import NamedLinop
from .._extras import optional_module
from ._arrays import ArrayFunctions
from ._external_matrix import ExternalMatrix, check_complex_linear, each_row
from ._external_operator import ExternalOperator, Names

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scico.linop import LinearOperator


def to_scico(
    linop: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> LinearOperator:
    """Return the operator as a SCICO ``LinearOperator``, which its solvers take.

    ``jax.jit``, ``jax.vmap`` and derivatives to the input, forward, reverse and of higher order,
    go through it. Compiled programs call back to torch. Parameters and errors are those of
    :meth:`NamedLinop.to_scipy`: an operator that is linear over the reals only is refused. It needs
    the extra ``scico``.

    Returns
    -------
    scico.linop.LinearOperator
        Its input and output dtypes are that of the outputs of ``linop``, complex for a Fourier
        transform, and other arrays are cast to it. Its ``H`` is ``linop.H``, and its ``gram`` the
        normal operator in closed form if there is one.

    Raises
    ------
    ValueError
        If the operator computes in double precision and JAX does not.
    """
    check_has_matrix(linop, "to_scico")
    base = optional_module("scico.linop", "to_scico").LinearOperator
    functions = ArrayFunctions(linop, sizes, dtype, device)
    kept = optional_module("jax.dtypes", "to_scico").canonicalize_dtype(functions.dtype)
    if kept != functions.dtype:
        raise ValueError(
            f"to_scico: {linop.signature} must be in a precision of JAX, got {functions.dtype}, "
            f"which JAX makes {kept}; call jax.config.update('jax_enable_x64', True), or cast the "
            "operator by .to(torch.float32), or pass dtype=torch.float32"
        )
    adjoint, normal = functions.adjoint(), functions.normal()
    operator = base(
        functions.ilengths,
        functions.olengths,
        eval_fn=partial(_apply, functions, adjoint),
        adj_fn=partial(_apply, adjoint, functions),
        input_dtype=functions.dtype,
        output_dtype=functions.dtype,
    )
    operator._gram = partial(_apply, normal, normal)
    return operator


def _apply(functions: ArrayFunctions, adjoint: ArrayFunctions, x: Any) -> Any:
    """Return A x for an array of JAX in the dtype of A, or its complex one for complex arrays."""
    numpy = optional_module("jax.numpy", "to_scico")
    dtype = numpy.result_type(functions.dtype, "complex64" if x.dtype.kind == "c" else "bool")
    return _primitive().bind(x.astype(dtype), functions=functions, adjoint=adjoint)


@cache
def _primitive() -> Any:
    """Return JAX's primitive of a linear function of arrays, (..., *input) -> (..., *output)."""
    jax, numpy = optional_module("jax", "to_scico"), optional_module("numpy", "to_scico")
    ad, batching, mlir = (
        optional_module(f"jax.interpreters.{name}", "to_scico")
        for name in ("ad", "batching", "mlir")
    )
    primitive = optional_module("jax.extend.core", "to_scico").Primitive("linops_core_apply")

    def result_shape(x: Any, functions: ArrayFunctions) -> tuple[int, ...]:
        batch = x.shape[: x.ndim - len(functions.ilengths)]
        return (*batch, *functions.olengths)

    def call(functions: ArrayFunctions, x: Any) -> Any:
        x = numpy.asarray(x)
        shape = result_shape(x, functions)
        n_rows = prod(shape[: len(shape) - len(functions.olengths)])
        columns = x.reshape(n_rows, functions.shape[1]).T
        return functions.matmat(columns).T.astype(x.dtype).reshape(shape)

    def compiled(x: Any, functions: ArrayFunctions, adjoint: ArrayFunctions) -> Any:
        result = jax.ShapeDtypeStruct(result_shape(x, functions), x.dtype)
        return jax.pure_callback(partial(call, functions), result, x)

    # Without the callback, which waits for threads of XLA.
    primitive.def_impl(lambda x, functions, adjoint: jax.numpy.asarray(call(functions, x)))
    primitive.def_abstract_eval(
        lambda x, functions, **_: x.update(shape=result_shape(x, functions))
    )
    mlir.register_lowering(primitive, mlir.lower_fun(compiled, multiple_results=False))
    # The transpose of a matrix is the conjugate of its adjoint.
    ad.deflinear2(
        primitive,
        lambda y, x, functions, adjoint: [
            primitive.bind(y.conj(), functions=adjoint, adjoint=functions).conj()
        ],
    )

    def many(args: Any, axes: Any, **functions: ArrayFunctions) -> tuple[Any, int]:
        return primitive.bind(jax.numpy.moveaxis(args[0], axes[0], 0), **functions), 0

    batching.primitive_batchers[primitive] = many
    return primitive


def from_scico(
    operator: LinearOperator, ishape: Names, oshape: Names, name: str | None = None
) -> NamedLinop:
    """Return an operator that calls a SCICO ``LinearOperator``.

    Like operators of :func:`from_scipy`, it computes on the CPU and has gradients to the input.

    Parameters
    ----------
    operator : scico.linop.LinearOperator
        Between arrays, and not between blocks of arrays. It computes in its own dtype, usually
        single precision, and the result has the precision of the input. A real one is applied to
        real and imaginary parts.
    ishape, oshape : sequences of dimensions
        Names of the dimensions of its ``input_shape`` and ``output_shape``. A ``...`` at the front
        of both is a batch of arrays, to which it is applied one by one.
    name : str, optional

    Raises
    ------
    ImportError
        If SCICO is not installed (the extra ``scico``).
    TypeError
        If ``operator`` is not a SCICO LinearOperator.
    ValueError
        If it has blocks, the names do not fit its shapes, or a complex one is linear over the reals
        only.
    """
    kind = optional_module("scico.linop", "from_scico").LinearOperator
    if not isinstance(operator, kind):
        raise TypeError(f"from_scico: the operator must be a LinearOperator, got {type(operator)}")
    lengths = operator.input_shape, operator.output_shape
    if any(isinstance(size, tuple) for shape in lengths for size in shape):
        raise ValueError(
            f"from_scico: the operator must have one input and one output array, got {lengths[0]} "
            f"and {lengths[1]}; use its parts one by one"
        )
    optional_module("numpy", "from_scico")
    dtypes = operator.input_dtype, operator.output_dtype
    is_complex = any(_kind(dtype) == "c" for dtype in dtypes)
    if is_complex:
        advice = "take real parts by linops_core.RealPart"
        check_complex_linear("from_scico", lambda x: _applied(operator, x), lengths[0], advice)
    shape = prod(lengths[1]), prod(lengths[0])
    matrix = ExternalMatrix("SCICO", operator, shape, is_complex, _forward, _adjoint)
    return ExternalOperator(matrix, ishape, oshape, lengths, name or type(operator).__name__)


def _kind(dtype: Any) -> str:
    kind: str = optional_module("numpy", "from_scico").dtype(dtype).kind
    return kind


def _applied(operator: Any, x: NDArray[Any]) -> NDArray[Any]:
    array: NDArray[Any] = optional_module("numpy", "from_scico").asarray(
        operator(x.astype(operator.input_dtype))
    )
    return array


def _forward(operator: Any, X: NDArray[Any]) -> Any:
    return each_row(lambda x: _applied(operator, x), X, operator.input_shape)


def _adjoint(operator: Any, Y: NDArray[Any]) -> Any:
    adjoint = operator.H
    return each_row(lambda y: _applied(adjoint, y), Y, operator.output_shape)
