"""Shared variables: values that functions keep between their calls, in their own memory."""

from __future__ import annotations

from functools import partial
from itertools import count

import torch

from .._flags import check_flags
from .._modules._at_once import Call, keeps_grad_mode
from .._views._address import view_of
from .._views._arrays import Array
from .._views._overlap import overlaps
from ..dataflow._operation import is_same_memory
from ._expressions import Expression
from ._memory import Owner, Value, as_tensor, copied, is_writable

_numbers = count(1)


def shared(
    value: Value,
    borrow: bool = False,
    *,
    name: str | None = None,
    device: torch.device | str | None = None,
) -> SharedVariable:
    """Make a shared variable in a copy of a value, or in the memory of the value itself.

    Parameters
    ----------
    value : numpy.ndarray or torch.Tensor
        The first value, an array or a strided tensor. Raises `TypeError` for other objects.
        `SharedVariable.get_value` returns the same type.
    borrow : bool, optional
        Use the memory of `value` if possible, instead of a copy. `SharedVariable.borrowed` tells
        whether it was possible. If it was, a change of the value changes the variable, and a change
        of the variable changes the value. Raises `OwnershipError` if the memory belongs to another
        shared variable or to a function.
    name : str, optional
        The name to show in errors.
    device : torch.device, optional
        Where to keep the value. Default: the device of a tensor, or the CPU for an array. If the
        value is on another device, `borrow` has no effect.

    Examples
    --------
    >>> import numpy
    >>> array = numpy.ones(2, dtype="float32")
    >>> of_a_copy, of_the_array = shared(array), shared(array, borrow=True)
    >>> array += 1
    >>> of_a_copy.get_value(), of_the_array.get_value()
    (array([1., 1.], dtype=float32), array([2., 2.], dtype=float32))
    """
    return SharedVariable(value, borrow, name=name, device=device)


class SharedVariable(Expression, Owner):
    """A value that functions read and update, in memory that has no other owner.

    Make one with `shared`, which has the same parameters. In an expression it stands for its
    value at the time of the call.

    Attributes
    ----------
    tensor : torch.Tensor
        The variable's own memory.
    borrowed : bool
        Whether that memory was borrowed, instead of a copy.
    """

    @keeps_grad_mode
    def __init__(
        self,
        value: Value,
        borrow: bool = False,
        *,
        name: str | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        name = f"shared variable {next(_numbers)}" if name is None else name
        check_flags(name, borrow=borrow)
        tensor, is_alias = as_tensor(name, value)
        self._is_numpy = not isinstance(value, torch.Tensor)
        # Make a tensor to get the index, because "cuda" and "cuda:0" are not equal.
        self._device = tensor.device if device is None else torch.empty(0, device=device).device
        is_borrowed = borrow and is_alias and self._can_borrow(tensor)
        tensor = tensor if is_borrowed else copied(tensor, self._device)
        Owner.__init__(self, name, tensor, is_borrowed)

    def get_value(
        self, borrow: bool = False, return_internal_type: bool = False
    ) -> Array | torch.Tensor:
        """Return the current value.

        Parameters
        ----------
        borrow : bool, optional
            Return the memory of the variable itself if possible, else a copy. An array is always a
            copy if the value is not on a CPU.
        return_internal_type : bool, optional
            Return the tensor that the variable holds, also if the variable was made from an
            array. With ``borrow=True`` this takes constant time and never copies.

        Examples
        --------
        >>> import numpy
        >>> variable = shared(numpy.zeros(2))
        >>> variable.get_value(borrow=True)[0] = 3
        >>> variable.get_value(), variable.get_value(return_internal_type=True)
        (array([3., 0.]), tensor([3., 0.], dtype=torch.float64))
        """
        check_flags(str(self), borrow=borrow, return_internal_type=return_internal_type)
        tensor = self.tensor if borrow else copied(self.tensor)
        if return_internal_type or not self._is_numpy:
            return tensor
        array: Array = tensor.resolve_conj().resolve_neg().cpu().numpy()
        return array

    @keeps_grad_mode
    def set_value(self, value: Value, borrow: bool = False) -> None:
        """Replace the value.

        The value is copied into the existing memory, also borrowed memory, if shape and dtype are
        the same. Otherwise the variable gets new memory.

        Parameters
        ----------
        value : numpy.ndarray or torch.Tensor
            Of any shape and dtype. If the variable was made from an array, NumPy must have the
            dtype.
        borrow : bool, optional
            Use the memory of `value` instead of copying it. If that is the variable's own memory,
            as after ``get_value(borrow=True)``, nothing is done. Raises `OwnershipError` if the
            memory has another owner; the value then stays unchanged.

        Examples
        --------
        >>> import numpy
        >>> variable = shared(numpy.zeros(2))
        >>> variable.set_value(numpy.add(variable.get_value(borrow=True), 1), borrow=True)
        >>> variable.get_value(), variable.borrowed
        (array([1., 1.]), True)
        """
        check_flags(str(self), borrow=borrow)
        tensor, is_alias = as_tensor(self.name, value)
        mine = self.tensor
        if self._is_numpy:
            try:
                torch.empty(0, dtype=tensor.dtype).numpy()
            except TypeError as error:
                raise TypeError(
                    f"{self}: NumPy must have the dtype, because the variable was made from an "
                    f"array, got {tensor.dtype}"
                ) from error
        if is_alias and tensor.dtype == mine.dtype:
            given, held = view_of(tensor), view_of(mine)
            bits = (given.is_conj, given.is_neg) == (held.is_conj, held.is_neg)
            if bits and is_same_memory(given, held):
                return
        if borrow and is_alias and self._can_borrow(tensor):
            self._take(tensor, is_borrowed=True)
        else:
            self.update(tensor)()

    def _can_borrow(self, tensor: torch.Tensor) -> bool:
        return tensor.device == self._device and is_writable(tensor)

    def update(self, tensor: torch.Tensor, is_new: bool = False) -> Call:
        """The call that replaces the value, in the existing memory if the new value fits.

        With `is_new`, the tensor has no other use and may be kept instead of copied.
        """
        mine = self.tensor
        if (tensor.shape, tensor.dtype) != (mine.shape, mine.dtype):
            return self._take_new(tensor if is_new else copied(tensor, self._device))
        if overlaps(tensor, mine):
            tensor = tensor.clone()  # otherwise torch would read while it writes
        return partial(mine.copy_, tensor)

    def __repr__(self) -> str:
        return (
            f"SharedVariable({self.name!r}, shape={tuple(self.tensor.shape)}, "
            f"dtype={self.tensor.dtype}, device={str(self.tensor.device)!r}, "
            f"borrowed={self.borrowed})"
        )
