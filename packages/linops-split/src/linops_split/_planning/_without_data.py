"""Fake tensors of torch, at a fraction of the time of an operation, and how much they take."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
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
from ._count import Count, tensors_in
from ._peak_inside import inside_nbytes

_Look: TypeAlias = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool, bool]

_Made: TypeAlias = tuple[list[tuple[int | None, _Look]], type, int]
"""For each result, the number of the argument that it is, or None, and its look; whether there are
several, and the bytes that the operation allocates inside."""

_DEVICE = torch.ops.prim.device.default
_PROMOTE = torch.ops.aten.promote_types.default


class QuickFakeMode(FakeTensorMode):
    """A mode in which tensors have no data, quicker than that of torch, with a count of bytes.

    Torch takes about 0.1 ms of Python for each operation, and a plan runs thousands. Here a view is
    made by the operation itself, a new tensor looks like the result of an equal operation, and an
    operation in place returns its first argument.
    """

    def __init__(self) -> None:
        # Tensors inside plain functions do not need data either.
        super().__init__(allow_non_fake_inputs=True)
        self._results: dict[Hashable, _Made] = {}
        self._likes: dict[torch.device, dict[str, Any]] = {}
        self._count: Count | None = None

    @contextmanager
    def counted_by(self, count: Count | None) -> Iterator[None]:
        """Count what operations allocate."""
        before, self._count = self._count, count
        try:
            yield
        finally:
            self._count = before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # called for each slice of a fake tensor
        if func is _PROMOTE:  # has no tensors, but is called for most operations
            return func(*args)
        kwargs, count = kwargs or {}, self._count
        is_known, is_view = _kind(func)
        if is_view and (meta := self._meta(args[0])) is not None:
            device = args[0].fake_device
            if count is not None:
                count.note(device)
            return self._on_device(func(meta, *args[1:], **kwargs), device)
        own = self._key((*args, kwargs)) if is_known else None
        if own is None:
            return self._slowly(func, types, args, kwargs)
        look, given = (func, own, torch.get_default_dtype()), (args, [*kwargs.values()])
        if look not in self._results:
            before = [*tensors_in(given)]
            made = self._slowly(func, types, args, kwargs)
            looks = _looks_of_new(made, before) if self._key((*args, kwargs)) == own else None
            if looks is not None:
                inside = inside_nbytes(func, before, [*tensors_in([made])], args)
                self._results[look] = looks, type(made), inside
            return made
        looks, kind, inside = self._results[look]
        results = list[Any]()
        for place, (shape, strides, dtype, device, *_) in looks:
            if place is not None:
                results.append([*tensors_in(given)][place])
                continue
            empty = torch.empty_strided(shape, strides, dtype=dtype, device="meta")
            results.append(self._fake(empty, device))
            if count is not None:
                count.add(empty.untyped_storage(), device, shape)
        if count is not None:
            count.note(results[0].fake_device, inside)
        return results[0] if kind is FakeTensor else kind(results)

    def _slowly(self, func: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return what the mode of torch returns, which may call operations in turn."""
        count, run = self._count, super().__torch_dispatch__
        for tensor in tensors_in(args):  # which may look otherwise afterwards
            vars(tensor).pop("_meta", None)
        with self.counted_by(None):
            if count is None:
                return run(func, types, args, kwargs)
            return count.of(func, args, kwargs, lambda: run(func, types, args, kwargs))

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
        vars(fake).update(like, _meta=made)
        return fake

    def _meta(self, fake: Any) -> Tensor | None:
        """Return a fake tensor as one of the meta device; None if that is not known."""
        if type(fake) is not FakeTensor or fake.fake_mode is not self or fake.constant is not None:
            return None
        found: Tensor | None = vars(fake).get("_meta")
        if found is None:
            with in_kernel_invocation_manager(self):
                found = vars(fake)["_meta"] = torch.ops.aten.alias(fake)
        return found

    def _key(self, value: Any) -> Hashable:
        """Return what is equal for arguments that look equal; None if that is not known."""
        if isinstance(value, Tensor):
            if type(value) is not FakeTensor or value.fake_mode is not self:
                return None
            has_look = value.constant is None and value.layout is torch.strided
            return _look(value) if has_look else None
        if isinstance(value, (tuple, list)):
            found = tuple(map(self._key, value))
            return None if None in found else found
        if isinstance(value, dict):
            return self._key((*value.items(),))
        return type(value), value


@cache
def _kind(func: Any) -> tuple[bool, bool]:
    """Return whether the looks of arguments decide about those of results, and if these are views.

    The conditions are those under which torch keeps results itself, but for indices and for
    operations that write into an argument. Products of batches end in a view that does not say so.
    """
    is_known = (
        func.namespace == "aten"
        and not _UNKNOWN & {*func.tags}
        and not may_return_an_argument(func)
    )
    return is_known, is_known and (func.is_view or func is torch.ops.aten._unsafe_view.default)


_UNKNOWN = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
    torch.Tag.inplace_view,
}


def _look(tensor: FakeTensor) -> _Look:
    device: torch.device = tensor.fake_device
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.shape, tensor.stride(), tensor.dtype, device, *bits


def _looks_of_new(made: Any, given: Sequence[Tensor]) -> list[tuple[int | None, _Look]] | None:
    """Return how results look and, for arguments that are returned, which ones; None if other.

    A new result has memory of its own, and no more than it needs.
    """
    found = list[tuple[int | None, _Look]]()
    places = {id(tensor): place for place, tensor in enumerate(given)}
    storages = {tensor.untyped_storage()._cdata for tensor in given}
    for tensor in tensors_in([made]):
        if not isinstance(tensor, FakeTensor) or tensor.constant is not None:
            return None
        if (place := places.get(id(tensor))) is None and (
            tensor.layout is not torch.strided
            or tensor.is_conj()
            or tensor.is_neg()
            or tensor.untyped_storage()._cdata in storages
            or tensor.untyped_storage().nbytes() != _least_nbytes(tensor)
        ):
            return None
        storages.add(tensor.untyped_storage()._cdata)
        found.append((place, _look(tensor)))
    return found or None


def _least_nbytes(tensor: Tensor) -> int:
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + last) * tensor.itemsize if tensor.numel() else 0
