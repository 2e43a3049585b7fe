"""Shared variables: values that functions keep between their calls, in memory of their own."""

from __future__ import annotations

from functools import partial
from itertools import count

import torch

from .._modules._at_once import Call
from .._views._address import view_of
from .._views._arrays import Array
from .._views._overlap import has_internal_overlap, overlaps
from ..dataflow._operation import is_same_place
from ._expressions import Expression
from ._memory import Owner, Value, as_tensor, check_flag, copied

_numbers = count(1)


def shared(
    value: Value,
    borrow: bool = False,
    *,
    name: str | None = None,
    device: torch.device | str | None = None,
) -> SharedVariable:
    """Make a shared variable, in a copy of a value or in its own memory.

    Parameters
    ----------
    value : numpy.ndarray or torch.Tensor
        The first value, an array or a strided tensor (else a TypeError);
        `SharedVariable.get_value` returns the same type.
    borrow : bool, optional
        Whether the variable may use the memory of `value` instead of a copy. It does where that
        is possible, and `SharedVariable.borrowed` tells; then changes of the one show in the
        other, in both directions. Memory that belongs to another shared variable, or to a
        function, is an OwnershipError.
    name : str, optional
        Name to show in errors.
    device : torch.device, optional
        Where to keep the value. Default: the device of a tensor, the CPU for an array. On
        another device `borrow` has no effect.

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

    Made by `shared`, with its parameters. In an expression it stands for its value at the time of
    the call.

    Attributes
    ----------
    tensor : torch.Tensor
        The variable's own memory.
    borrowed : bool
        Whether that is memory that it was given, instead of a copy.
    """

    def __init__(
        self,
        value: Value,
        borrow: bool = False,
        *,
        name: str | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        name = f"shared variable {next(_numbers)}" if name is None else name
        check_flag(f"{name}: borrow", borrow)
        tensor, is_alias = as_tensor(name, value)
        self._is_numpy = not isinstance(value, torch.Tensor)
        # Through a tensor, because "cuda" and "cuda:0" are not equal.
        self._device = tensor.device if device is None else torch.empty(0, device=device).device
        is_borrowed = borrow and is_alias and self._can_borrow(tensor)
        tensor = tensor if is_borrowed else copied(tensor, self._device)
        Owner.__init__(self, name, tensor, is_borrowed)

    def get_value(
        self, borrow: bool = False, return_internal_type: bool = False
    ) -> Array | torch.Tensor:
        """The present value.

        Parameters
        ----------
        borrow : bool, optional
            Whether the result may be the variable's own memory. Else, and for an array of a value
            that is not on a CPU, it is a copy.
        return_internal_type : bool, optional
            Whether to return the tensor that the variable holds, whatever it was made from. With
            ``borrow=True`` that takes constant time and never copies.

        Examples
        --------
        >>> import numpy
        >>> variable = shared(numpy.zeros(2))
        >>> variable.get_value(borrow=True)[0] = 3
        >>> variable.get_value(), variable.get_value(return_internal_type=True)
        (array([3., 0.]), tensor([3., 0.], dtype=torch.float64))
        """
        check_flag(f"{self}: borrow", borrow)
        check_flag(f"{self}: return_internal_type", return_internal_type)
        tensor = self.tensor if borrow else copied(self.tensor)
        if return_internal_type or not self._is_numpy:
            return tensor
        array: Array = tensor.resolve_conj().resolve_neg().cpu().numpy()
        return array

    def set_value(self, value: Value, borrow: bool = False) -> None:
        """Replace the value.

        A copied value goes into the memory that is there, if shape and dtype are the same: also
        into memory that was borrowed. Otherwise the variable gets new memory.

        Parameters
        ----------
        value : numpy.ndarray or torch.Tensor
            Of any shape and dtype; of one that NumPy has, if the variable was made from an array.
        borrow : bool, optional
            Whether the variable may use the memory of `value` instead of copying it. If that is
            its own memory, as after ``get_value(borrow=True)``, nothing is done. Memory that has
            another owner is an OwnershipError, as for `shared`; the value stays as it was.

        Examples
        --------
        >>> import numpy
        >>> variable = shared(numpy.zeros(2))
        >>> variable.set_value(numpy.add(variable.get_value(borrow=True), 1), borrow=True)
        >>> variable.get_value(), variable.borrowed
        (array([1., 1.]), True)
        """
        check_flag(f"{self}: borrow", borrow)
        tensor, is_alias = as_tensor(self.name, value)
        mine = self.tensor
        if self._is_numpy:
            try:
                torch.empty(0, dtype=tensor.dtype).numpy()
            except TypeError as error:
                raise TypeError(
                    f"{self}: NumPy must have the dtype of a value that was made from an array, "
                    f"got {tensor.dtype}"
                ) from error
        if is_alias and tensor.dtype == mine.dtype:
            place, its_own = view_of(tensor), view_of(mine)
            bits = (place.is_conj, place.is_neg) == (its_own.is_conj, its_own.is_neg)
            if bits and is_same_place(place, its_own):
                return
        if borrow and is_alias and self._can_borrow(tensor):
            self._take(tensor, is_borrowed=True)
        else:
            self.update(tensor)()

    def _can_borrow(self, tensor: torch.Tensor) -> bool:
        # What overlaps itself could not be written to.
        return tensor.device == self._device and not has_internal_overlap(tensor)

    def update(self, tensor: torch.Tensor, is_new: bool = False) -> Call:
        """The call that replaces the value, in the memory that is there if the new one fits.

        A new tensor that has no other use may be kept instead of copied.
        """
        mine = self.tensor
        if (tensor.shape, tensor.dtype) != (mine.shape, mine.dtype):
            return self._take_new(tensor if is_new else copied(tensor, self._device))
        if overlaps(tensor, mine):
            tensor = tensor.clone()  # torch reads while it writes
        return partial(mine.copy_, tensor)

    def __repr__(self) -> str:
        return (
            f"SharedVariable({self.name!r}, shape={tuple(self.tensor.shape)}, "
            f"dtype={self.tensor.dtype}, device={str(self.tensor.device)!r}, "
            f"borrowed={self.borrowed})"
        )
