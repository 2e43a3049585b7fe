"""A map of the memory that modules share, and of their copies on devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from .._flags import check_flags
from .._modules._at_once import attribute_set, keeps_grad_mode
from .._modules._named import Source
from .._modules._reconstruct import reconstruct
from .._modules._traverse import FoundTensor, path_text, traverse
from .._reports._report import MemoryReport
from .._views._footprint import union_nbytes
from .._views._view import View
from ._checks import (
    check_arrival,
    check_holds_its_tensors,
    check_initialized,
    check_module_type,
    device_of,
)
from ._deepcopy import copy_attachments, memory_aware_deepcopy, put_copies
from ._deepcopy_memo import CopiedStorages
from ._move import NOT_BOTH, move
from ._move_steps import Target
from ._placement import Copied, DeviceMemory, properties_of
from ._plan import Group, copy_plan
from ._spans import Pack

M = TypeVar("M", bound=Source)


@dataclass(frozen=True)
class StorageGroup:
    """Tensors on one device that share a storage, or whose storages share memory.

    A name is the path of a tensor in its module. If the map has several modules, the number of the
    module comes first. The views say where the tensors lie.
    """

    names: tuple[str, ...]
    views: tuple[View, ...]
    device: torch.device

    @property
    def nbytes(self) -> int:
        """Bytes that the tensors touch together."""
        return union_nbytes(self.views)


class ModuleMemoryMap:
    """Memory that some modules share, and its copies on devices.

    A device receives the bytes that the registered modules touch, each once. If a module brought a
    tensor there, the other modules reuse it, and tensors that overlapped before overlap there.
    The map keeps the modules and the placed memory alive until you drop the map or call
    `release`. All methods raise `TypeError` for arguments that are neither modules nor mappings.

    Parameters
    ----------
    module : torch.nn.Module or mapping, optional
        A module to register at once, for any device.

    Examples
    --------
    >>> from memmap import overlaps, union_nbytes
    >>> class Rows(torch.nn.Module):
    ...     def __init__(self, weight):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(weight)
    >>> matrix = torch.zeros(100, 4)
    >>> upper, middle = Rows(matrix[:20]), Rows(matrix[10:30])
    >>> memory_map = ModuleMemoryMap()
    >>> memory_map.register_module(upper, device="meta")
    >>> memory_map.register_module(middle, device="meta")
    >>> copies = [memory_map.copy_to(module, "meta") for module in (upper, middle)]
    >>> overlaps(copies[0].weight, copies[1].weight)
    True
    >>> copies[0].weight.untyped_storage().nbytes(), upper.weight.device
    (480, device(type='cpu'))
    """

    def __init__(self, module: Source | None = None) -> None:
        self._state = _State()
        if module is not None:
            self.register_module(module)

    def register_module(
        self, module: Source, device: torch.device | str | int | None = None
    ) -> None:
        """Register the tensors of a module before any module is placed.

        Parameters
        ----------
        module : torch.nn.Module
            Its parameters, buffers, gradients and the tensors in its attributes are registered.
        device : torch.device, str or int, optional
            The device on which the module will be placed. Then only the memory on this device has
            room for its tensors. By default the memory on every device has room for them.
        """
        check_module_type("ModuleMemoryMap", module)
        target = None if device is None else device_of(device)
        modules = (*self._state.modules, (module, target))
        self._state = _State(modules, self._state.devices)

    @property
    def groups(self) -> list[StorageGroup]:
        """Tensors of the registered modules as they are now, grouped by the memory they share."""
        groups = copy_plan(self._state.tensors(None, named=True), detach=True).groups
        return [
            StorageGroup(
                tuple(path_text(piece.path) for piece in group.pieces),
                tuple(piece.view for piece in group.pieces),
                group.pieces[0].tensor.device,
            )
            for group in groups
        ]

    def report(self) -> MemoryReport:
        """Report on the parameters, buffers and gradients of the registered modules as they are."""
        modules = [module for module, _ in self._state.modules]
        if len(modules) == 1:
            return MemoryReport(modules[0])
        return MemoryReport({str(number): module for number, module in enumerate(modules)})

    def memory_aware_deepcopy(self, module: M) -> M:
        """Copy any module on its devices with the function `memory_aware_deepcopy`."""
        return memory_aware_deepcopy(module)

    @keeps_grad_mode
    def memory_aware_to(
        self,
        module: M,
        device: torch.device | str | int,
        *,
        pack: Pack = False,
        non_blocking: bool = False,
        strict: bool = False,
        low_memory: bool = False,
    ) -> M:
        """Move a module in place; reuse memory that another module brought to the device.

        Parameters
        ----------
        module : torch.nn.Module
            The module to move. It is registered now if it was not before.
        device, non_blocking
            As for the function `memory_aware_to`.
        pack : {False, True, "close"}, optional
            Which bytes between views to leave out. False: one buffer for each storage, from the
            first byte to the last that a registered module touches. True: one buffer for each set
            of views whose bounds overlap. "close": also move views closer together, so that only
            touched bytes remain.
        strict : bool, optional
            Raise an error instead of a warning if tensors outside of all registered modules hold
            the memory.
        low_memory : bool, optional
            As for the function `memory_aware_to`. Memory is not freed early if another registered
            module still has it, or uses its copy on the device already.

        Returns
        -------
        torch.nn.Module
            The module itself. Memory that was already on the device is not sent again: after you
            change values of the source, `release` the device first.

        Raises
        ------
        NonLeafError, AliasError, MoveError, TypeError, ValueError
            As for the function `memory_aware_to`, also the warnings; `ValueError` also for any
            other `pack`. After an error nothing has changed, also not on the device.
        StorageError
            If a tensor overlaps, only in part, memory that was placed on the device before this
            module was registered.
        """
        check_flags(
            "ModuleMemoryMap", non_blocking=non_blocking, strict=strict, low_memory=low_memory
        )
        check_module_type("ModuleMemoryMap", module)
        target = device_of(device)
        _check_pack(pack)
        if low_memory and non_blocking:
            raise ValueError(NOT_BOTH)
        state = self._state.with_module(module, target)
        fill = state.filler(target, pack, non_blocking)
        move(
            module,
            Target(target, None),
            lambda group, _: fill(group),
            strict=strict,
            low_memory=low_memory,
            others=state.tensors(None),
            kept=state.devices[target].regions.by_storage,
            further=[attribute_set(self, "_state", state, self._state)],
        )
        return module

    @keeps_grad_mode
    def copy_to(
        self,
        module: M,
        device: torch.device | str | int,
        *,
        pack: Pack = "close",
        non_blocking: bool = False,
        detach: bool = False,
    ) -> M:
        """Copy a module to a device; the module itself does not change.

        Memory is allocated only on the device. If two registered modules have the same tensor
        object, their copies on one device have the same object, too. Tensors that overlap also
        overlap there. Everything else is copied as by `memory_aware_deepcopy`.

        Parameters
        ----------
        module : torch.nn.Module
            The module to copy. It is registered now if it was not before.
        device : torch.device, str or int
            The target device. Tensors that are on this device already are copied, too.
        pack, non_blocking : optional
            As for `memory_aware_to`. By default only touched bytes are copied.
        detach : bool, optional
            Copy tensors with a history without it, instead of raising an error.

        Returns
        -------
        torch.nn.Module
            The copy. Memory that was already on the device is not sent again: after you change
            values of the source, `release` the device first. A tensor is copied again if its
            memory, type, shape, class, gradient or ``requires_grad`` has changed since.

        Raises
        ------
        NonLeafError, MoveError, StorageError, TypeError, ValueError
            As for `memory_aware_to`, except that `detach` allows a history.
        """
        check_flags("ModuleMemoryMap", non_blocking=non_blocking, detach=detach)
        check_module_type("ModuleMemoryMap", module)
        target = device_of(device)
        _check_pack(pack)
        reached = traverse(module)
        check_holds_its_tensors(reached.modules)
        state = self._state.with_module(module, target)
        placed = state.devices[target]
        memo: dict[int, Any] = {}
        CopiedStorages.of(memo).reached |= reached.seen
        for item in reached.tensors:
            copied = placed.copies.get(id(item.tensor))
            if copied is not None and copied.properties == properties_of(item.tensor, item.path):
                memo[id(item.tensor)] = copied.copy
        missing = [item for item in reached.tensors if id(item.tensor) not in memo]
        # Copy every tensor, also those in objects that copy themselves.
        plan = copy_plan([item._replace(owned=True) for item in missing], detach)
        check_initialized(plan)
        check_arrival(plan, plan.groups, target)
        fill = state.filler(target, pack, non_blocking)
        plain: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for group in plan.groups:
                plain |= fill(group)
        sources = put_copies(plan, plain, memo, placed.counters, target)

        def complete() -> None:
            for source in sources:
                copy_attachments(source, memo[id(source)], memo)

        made = reconstruct(module, memo, complete)
        for source in sources:
            placed.copies[id(source)] = Copied(source, memo[id(source)], properties_of(source))
        self._state = state
        return made

    def release(self, device: torch.device | str | int | None = None) -> None:
        """Forget the memory placed on a device, or on all devices; it is sent again when needed."""
        target = None if device is None else device_of(device)
        devices = self._state.devices
        kept = {on: memory for on, memory in devices.items() if target not in (None, on)}
        self._state = _State(self._state.modules, kept)


@dataclass(frozen=True)
class _State:
    """State of a map. A call changes a copy, which replaces the state if the call succeeds."""

    modules: tuple[tuple[Source, torch.device | None], ...] = ()
    devices: dict[torch.device, DeviceMemory] = field(default_factory=dict)

    def with_module(self, module: Source, device: torch.device) -> _State:
        """A copy that also knows a module, meant for a device, and that may place more there."""
        is_known = any(member is module for member, _ in self.modules)
        modules = self.modules if is_known else (*self.modules, (module, device))
        memory = self.devices[device].copy() if device in self.devices else DeviceMemory(device)
        return _State(modules, self.devices | {device: memory})

    def tensors(self, device: torch.device | None, named: bool = False) -> list[FoundTensor]:
        """Tensors of all modules, or of those that may go to a device, each once."""
        tensors: dict[int, FoundTensor] = {}
        for number, (module, meant_for) in enumerate(self.modules):
            prefix = (None, f".{number}") if named and len(self.modules) > 1 else None
            if device is None or meant_for in (None, device):
                for item in traverse(module, prefix).tensors:
                    tensors.setdefault(id(item.tensor), item._replace(owned=True))
        return list(tensors.values())

    def filler(
        self, device: torch.device, pack: Pack, non_blocking: bool
    ) -> Callable[[Group], dict[int, torch.Tensor]]:
        """A function that finds or makes the tensors on a device for all pieces of a group."""
        registered: dict[int, Group] | None = None

        def room(group: Group) -> Group:
            """The group of all registered tensors that share its memory."""
            nonlocal registered
            if registered is None:
                groups = copy_plan(self.tensors(device), detach=True).groups
                registered = {storage: group for group in groups for storage in group.storages}
            # Memory made only now (for tensors without memory of their own) is not registered.
            return registered.get(group.storages[0], group)

        def fill(group: Group) -> dict[int, torch.Tensor]:
            plain = self.devices[device].fill(group, room, pack, non_blocking)
            for storage in group.storages:
                (registered or {}).pop(storage, None)  # otherwise it keeps the source memory alive
            return plain

        return fill


def _check_pack(pack: object) -> None:
    if not (isinstance(pack, bool) or pack == "close"):
        raise ValueError(f"ModuleMemoryMap: pack must be False, True or 'close', got {pack!r}")
