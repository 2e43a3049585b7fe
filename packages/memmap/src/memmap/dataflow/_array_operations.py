"""Operations that really execute on the memory of a `Tensor`: fill, transform, reduce, binary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from .._views._arrays import Array
from .._views._overlap import has_internal_overlap
from ._operation import Operation, SelfHazard
from ._tensors import MemoryView, TensorView

Function: TypeAlias = Callable[..., Array]


class FillOperation(Operation):
    """``output[...] = fill_value`` (any number) for every output; outputs may overlap themselves.

    Examples
    --------
    >>> from memmap.dataflow import Tensor
    >>> tensor = Tensor("A", (2, 3), "int64")
    >>> FillOperation("fill", 4).set_outputs(TensorView("row", tensor, 3, (3,))).execute()
    >>> tensor.data.tolist()
    [[0, 0, 0], [4, 4, 4]]
    """

    def __init__(self, name: str, fill_value: complex = 1.0) -> None:
        super().__init__(name)
        self.fill_value = fill_value

    def execute(self) -> None:
        """Fill every output.

        Raises `TypeError` if a dtype cannot hold the value, and `ValueError` if there is an input.
        """
        _arrays(self, self.input_views, expected=0)
        for output in _arrays(self, self.output_views):
            output[...] = _converted(self.name, self.fill_value, output.dtype)

    def self_hazards(self) -> tuple[SelfHazard, ...]:
        """No hazards: all elements get the same value, so their order does not matter."""
        return ()


class TransformOperation(Operation):
    """``output[...] = function(input)`` for every output.

    Parameters
    ----------
    function : callable, optional
        Gets the input as a read-only NumPy array and returns an array with the outputs' shape.
        Default: return the input, so that the operation copies.

    Attributes
    ----------
    result : numpy.ndarray or None
        If there is no output, a copy of the result of the last execution.

    Examples
    --------
    >>> from memmap.dataflow import Tensor
    >>> x = TensorView("x", Tensor("A", (3,)))
    >>> x.numpy()[...] = [1, 2, 3]
    >>> TransformOperation("running sum", np.cumsum).set_inputs(x).set_outputs(x).execute()
    >>> x.tensor.data.tolist()
    [1.0, 3.0, 6.0]
    """

    n_inputs: ClassVar[int] = 1

    def __init__(self, name: str, function: Function = np.asarray) -> None:
        super().__init__(name)
        self.function = function
        self.result: Array | None = None

    def compute(self, *inputs: Array) -> Array:
        """Compute the result from the inputs, which are read-only."""
        return self.function(*inputs)

    def execute(self) -> None:
        """Compute the result and write it to every output.

        Raises `ValueError` for a wrong number of inputs, and if an output overlaps itself or does
        not have the shape of the result. Raises `TypeError` if the dtype of an output cannot hold
        the result.
        """
        result = np.asarray(self.compute(*_arrays(self, self.input_views, self.n_inputs)))
        outputs = _arrays(self, self.output_views)
        for view, output in zip(self.output_views, outputs, strict=True):
            if output.shape != result.shape:
                raise ValueError(
                    f"{self.name}: output {view.name} must have the shape of the result, "
                    f"{result.shape}, got {output.shape}"
                )
            if not np.can_cast(result.dtype, output.dtype, "same_kind"):
                raise TypeError(
                    f"{self.name}: output {view.name} must hold {result.dtype}, got {output.dtype}"
                )
            if has_internal_overlap(view.memory):
                raise ValueError(
                    f"{self.name}: output {view.name} must not overlap itself, got stride "
                    f"{output.strides} in bytes for the shape {output.shape}"
                )
        result = result.copy()  # it may be a view of an input that overlaps an output
        for output in outputs:
            output[...] = result
        self.result = None if outputs else result


class ReduceOperation(TransformOperation):
    """``output[...] = function(input, axis=axis)``; see `TransformOperation`.

    Parameters
    ----------
    axis : int, optional
        The dimension to reduce.
    function : callable, optional
        A NumPy reduction. Default: `numpy.sum`.

    Examples
    --------
    >>> from memmap.dataflow import Tensor
    >>> tensor, total = Tensor("A", (2, 3)), TensorView("total", Tensor("B", (2,)))
    >>> tensor.data[...] = [[1, 2, 3], [4, 5, 6]]
    >>> sums = ReduceOperation("row sums").set_inputs(TensorView("all", tensor))
    >>> sums.set_outputs(total).execute()
    >>> total.numpy().tolist()
    [6.0, 15.0]
    """

    def __init__(self, name: str, axis: int = -1, function: Function = np.sum) -> None:
        super().__init__(name, function)
        self.axis = axis

    def compute(self, *inputs: Array) -> Array:
        """Reduce the input."""
        return self.function(*inputs, axis=self.axis)


class BinaryOperation(TransformOperation):
    """``output[...] = function(input_1, input_2)``, by default their sum; see `TransformOperation`.

    Examples
    --------
    >>> from memmap.dataflow import Tensor
    >>> x, y = TensorView("x", Tensor("A", (2,))), TensorView("y", Tensor("B", (2,)))
    >>> x.numpy()[...], y.numpy()[...] = [1, 2], [10, 20]
    >>> BinaryOperation("add").set_inputs(x, y).set_outputs(x).execute()
    >>> x.numpy().tolist()
    [11.0, 22.0]
    """

    n_inputs = 2

    def __init__(self, name: str, function: Function = np.add) -> None:
        super().__init__(name, function)


def _arrays(
    operation: Operation, views: Sequence[MemoryView], expected: int | None = None
) -> list[Array]:
    """The elements of some views. Pass `expected` for inputs: their arrays are read-only."""
    if expected is not None and len(views) != expected:
        raise ValueError(
            f"{operation.name}: a {type(operation).__name__} must have {expected} input(s), "
            f"got {len(views)}"
        )
    arrays = []
    for view in views:
        if not isinstance(view, TensorView):
            raise TypeError(
                f"{operation.name}: a {type(operation).__name__} must work on TensorViews, "
                f"got {type(view).__name__}"
            )
        arrays.append(view.numpy())
        arrays[-1].flags.writeable = expected is None
    return arrays


def _converted(name: str, value: complex, dtype: np.dtype[np.generic]) -> Array:
    """The value in a dtype: rounded if needed (0.1 as float32), refused if changed (0.5 as int)."""
    number = np.asarray(value)
    if number.dtype.kind == "c" and number.imag == 0:
        number = number.real
    if number.dtype.kind in "biuf" or number.dtype.kind == dtype.kind:
        with np.errstate(invalid="ignore", over="ignore"):
            converted = number.astype(dtype)
        is_rounded = dtype.kind in "fc" and np.isfinite(converted) == np.isfinite(number)
        if is_rounded or converted == number:
            return converted
    raise TypeError(f"{name}: the outputs' dtype must hold the value {value!r}, got {dtype}")
