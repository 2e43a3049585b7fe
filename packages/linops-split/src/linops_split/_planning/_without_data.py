"""Fake tensors of torch, at a fraction of the time of an operation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._private_torch import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
    may_return_an_argument,
)

_Look: TypeAlias = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool, bool]


_PROMOTE = torch.ops.aten.promote_types.default


class QuickFakeMode(FakeTensorMode):
    """A mode in which tensors have no data, quicker than that of torch.

    Torch takes about 0.1 ms of Python for each operation, and a plan runs thousands. Here a view is
    made by the operation itself, and a new tensor looks like the result of an equal operation.
    """

    def __init__(self) -> None:
        # Tensors inside plain functions do not need data either.
        super().__init__(allow_non_fake_inputs=True)
        self._results: dict[Hashable, _Look] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is _PROMOTE:  # has no tensors, but is called for most operations
            return func(*args)
        own = None
        if args and _is_known_by_looks(func):
            if func.is_view and self._key(args[0]) is not None:
                with in_kernel_invocation_manager(self):
                    made = func(*args, **(kwargs or {}))
                return self._on_device(made, args[0].fake_device)
            own = self._key((*args, kwargs or {}))
        if own is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        look = func, own, torch.get_default_dtype()
        found = self._results.get(look)
        if found is None:
            made = super().__torch_dispatch__(func, types, args, kwargs)
            if isinstance(made, FakeTensor) and _is_new(made, args):
                self._results[look] = _look(made)
            return made
        shape, strides, dtype, device, *_ = found
        empty = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
        return FakeTensor(self, empty, device)

    def _on_device(self, made: Any, device: torch.device) -> Any:
        if isinstance(made, Tensor):
            return made if isinstance(made, FakeTensor) else FakeTensor(self, made, device)
        return type(made)([self._on_device(each, device) for each in made])

    def _key(self, value: Any) -> Hashable:
        """Return what is equal for arguments that look equal; None if that is not known."""
        if isinstance(value, Tensor):
            if not isinstance(value, FakeTensor) or value.fake_mode is not self:
                return None
            has_look = value.constant is None and value.layout is torch.strided
            return _look(value) if has_look else None
        if isinstance(value, dict):
            value = [*value.items()]
        if isinstance(value, (tuple, list)):
            found = tuple(map(self._key, value))
            return None if None in found else found
        return type(value), value


@cache
def _is_known_by_looks(func: Any) -> bool:
    """Whether the looks of the arguments decide how the result of an operation looks.

    The conditions are those under which torch keeps results itself, but for indices.
    """
    return (
        func.namespace == "aten"
        and not func._schema.is_mutable
        and not _DEPENDS_ON_VALUES & {*func.tags}
        and not may_return_an_argument(func)
    )


_DEPENDS_ON_VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def _look(tensor: FakeTensor) -> _Look:
    device: torch.device = tensor.fake_device
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.stride(), tensor.dtype, device, *bits


def _is_new(made: FakeTensor, args: Sequence[Any]) -> bool:
    """Whether a result has memory of its own, and no more than it needs.

    ``aten._unsafe_view``, in which products of batches end, is a view, but does not say so.
    """
    if made.constant is not None or made.layout is not torch.strided:
        return False
    size = 1 + sum((n - 1) * s for n, s in zip(made.shape, made.stride(), strict=True))
    storage = made.untyped_storage()
    return (
        not (made.is_conj() or made.is_neg())
        and storage.nbytes() == (size if made.numel() else 0) * made.itemsize
        and all(storage._cdata != each.untyped_storage()._cdata for each in tensors_in(args))
    )


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in the arguments or results of an operation."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
