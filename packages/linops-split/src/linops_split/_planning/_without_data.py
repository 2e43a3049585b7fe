"""Fake tensors of torch, at a fraction of the time of an operation, and how much they take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._private_torch import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
    may_return_an_argument,
)
from ._peak import AllocationCount, tensors_in
from ._workspace import aten, workspace_nbytes

_Look: TypeAlias = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool, bool]

_Made: TypeAlias = tuple[list[tuple[int | None, _Look]], type, int]
"""For each result, the number of the argument that it is, or None, and its look; whether there are
several, and the bytes that the operation allocates inside."""

_RESULTS: dict[Hashable, _Made] = {}
"""What operations return, for later plans too; torch keeps its own results in the same way."""

_DEVICE = torch.ops.prim.device.default
_PROMOTE = aten.promote_types.default


class QuickFakeMode(FakeTensorMode):
    """A mode in which tensors have no data, quicker than that of torch, with a count of bytes.

    Torch takes about 0.1 ms of Python for each operation, and a plan runs thousands. Here a view is
    made by the operation itself, a new tensor looks like the result of an equal operation, and an
    operation in place returns its first argument.
    """

    def __init__(self) -> None:
        # Tensors inside plain functions do not need data either.
        super().__init__(allow_non_fake_inputs=True)
        self._likes: dict[torch.device, dict[str, Any]] = {}
        self.count: AllocationCount | None = None
        """Counts what operations allocate."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # called for each slice of a fake tensor
        if func is _PROMOTE:  # has no tensors, but is called for most operations
            return func(*args)
        kwargs, count = kwargs or {}, self.count
        is_known, is_view, is_pointwise = _kind(func)
        if is_view and self._key(args[0], is_pointwise) is not None:
            if count is not None:
                count.note(args[0].fake_device)
            with in_kernel_invocation_manager(self):
                made = func(*args, **kwargs)
            return self._on_device(made, args[0].fake_device)
        key = self._key((*args, kwargs), is_pointwise) if is_known else None
        look, given = (id(func), key, torch.get_default_dtype()), (args, kwargs)
        if look in _RESULTS:
            return self._like_before(*_RESULTS[look], given)
        before = [*tensors_in(given)]
        run = partial(super().__torch_dispatch__, func, types, args, kwargs)
        self.count = None  # torch may call operations in turn
        try:
            made = run() if count is None else count.of(func, args, kwargs, run)
        finally:
            self.count = count
        if key is not None and self._key((*args, kwargs), is_pointwise) == key:
            looks = _looks_of_new(made, before)
            if looks:
                inside = workspace_nbytes(func, before, [*tensors_in([made])], args)
                _RESULTS[look] = looks, type(made), inside
        return made

    def _like_before(
        self, looks: list[tuple[int | None, _Look]], kind: type, inside: int, given: Sequence[Any]
    ) -> Any:
        """Return results with these looks, new or given ones, and count them."""
        results = list[Any]()
        for number, (shape, strides, dtype, device, *_) in looks:
            if number is None:
                empty = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
                results.append(self._fake(empty, device))
                if self.count is not None:
                    self.count.add(results[-1], empty.untyped_storage().nbytes())
            else:
                results.append([*tensors_in(given)][number])
        if self.count is not None:
            self.count.note(device, inside)
        return results[0] if kind is FakeTensor else kind(results)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch then leaves out a wrapper for the compiler, a tenth of the time

    def _on_device(self, made: Any, device: torch.device) -> Any:
        if isinstance(made, Tensor):
            return self._fake(made, device)
        return type(made)([self._fake(each, device) for each in made])

    def _fake(self, made: Tensor, device: torch.device) -> FakeTensor:
        """Return a tensor of the meta device as a tensor without data on another device."""
        like = self._likes.get(device)
        if like is None:
            like = self._likes[device] = {**vars(FakeTensor(self, made, device))}
        fake = Tensor._make_subclass(
            FakeTensor, made, False, dispatch_device=True, device_for_backend_keys=device
        )
        vars(fake).update(like)
        return fake

    def _key(self, value: Any, is_pointwise: bool) -> Hashable:
        """Return what is equal for arguments that look equal; None if that is not known.

        The value of a number decides about results only if the operation is not pointwise.
        """
        if isinstance(value, Tensor):
            if type(value) is not FakeTensor or value.fake_mode is not self:
                return None
            has_look = value.constant is None and value.layout is torch.strided
            return _look(value) if has_look else None
        if isinstance(value, (tuple, list)):
            keys = tuple([self._key(each, is_pointwise) for each in value])
            return None if None in keys else keys
        if isinstance(value, dict):
            return self._key((*value.items(),), is_pointwise)
        return type(value), 0 if is_pointwise and isinstance(value, (float, complex)) else value


@cache
def _kind(func: Any) -> tuple[bool, bool, bool]:
    """Return if the looks of arguments decide how results look, if these are views, if pointwise.

    The conditions are those under which torch keeps results itself, but for indices and for
    operations that write into an argument. Products of batches end in a view that does not say so.
    """
    is_known = (
        func.namespace == "aten"
        and not _UNKNOWN & {*func.tags}
        and not may_return_an_argument(func)
    )
    is_view = is_known and (func.is_view or func is aten._unsafe_view.default)
    return is_known, is_view, torch.Tag.pointwise in func.tags


_UNKNOWN = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
    torch.Tag.inplace_view,
}


def _look(tensor: FakeTensor) -> _Look:
    device: torch.device = tensor.fake_device
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.stride(), tensor.dtype, device, *bits


def _looks_of_new(made: Any, given: Sequence[Tensor]) -> list[tuple[int | None, _Look]]:
    """Return how results look and, for arguments that are returned, which ones; [] if other.

    A new result has memory of its own, and no more than it needs.
    """
    looks = list[tuple[int | None, _Look]]()
    numbers = {id(tensor): number for number, tensor in enumerate(given)}
    storages = {tensor.untyped_storage()._cdata for tensor in given}
    for tensor in tensors_in([made]):
        if not isinstance(tensor, FakeTensor) or tensor.constant is not None:
            return []
        if tensor.layout is not torch.strided:
            return []
        shape, strides, dtype, _, *bits = look = _look(tensor)
        storage, number = tensor.untyped_storage(), numbers.get(id(tensor))
        least = torch.empty_strided(shape, strides, dtype=dtype, device="meta").untyped_storage()
        is_new = storage._cdata not in storages and storage.nbytes() == least.nbytes()
        if number is None and (any(bits) or not is_new):
            return []
        storages.add(storage._cdata)
        looks.append((number, look))
    return looks
