"""A lasting map of what modules share in memory, and of what was moved where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from .._modules._at_once import attribute_set, keeps_grad_mode
from .._modules._reconstruct import reconstruct
from .._modules._traverse import Found, path_text, traverse
from .._reports._report import MemoryReport
from .._views._footprint import union_nbytes
from .._views._view import View
from ._checks import check_arrival, check_holds_its_tensors, check_module_type, device_of
from ._deepcopy import copy_attachments, memory_aware_deepcopy, put_copies
from ._deepcopy_memo import CopiedStorages
from ._move import NOT_BOTH, move
from ._move_steps import Target
from ._placement import Copied, DeviceMemory, look_of
from ._plan import Group, plan_of
from ._spans import Pack

M = TypeVar("M", bound=torch.nn.Module)


@dataclass(frozen=True)
class StorageGroup:
    """Tensors on one device whose storages are one, or share memory through several.

    A name is the path of a tensor in the module, after the number of the module if the map has
    several; its view says where it lies.
    """

    names: tuple[str, ...]
    views: tuple[View, ...]
    device: torch.device

    @property
    def nbytes(self) -> int:
        """Bytes that the tensors touch together."""
        return union_nbytes(self.views)


class ModuleMemoryMap:
    """What some modules share in memory, on the device where they are and wherever they go.

    A device receives only the bytes that the modules registered for it touch, and each byte
    once: what one of them has brought there is found again by the others, and tensors that
    overlapped before overlap there. The map holds the modules and what it placed on devices,
    until it is dropped or told to `release` it. What is no module is a `TypeError` everywhere.

    Parameters
    ----------
    module : torch.nn.Module, optional
        Registered at once, for any device.

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

    def __init__(self, module: torch.nn.Module | None = None) -> None:
        self._known = _Known()
        if module is not None:
            self.register_module(module)

    def register_module(
        self, module: torch.nn.Module, device: torch.device | str | int | None = None
    ) -> None:
        """Make the tensors of a module known.

        Parameters
        ----------
        module : torch.nn.Module
            Its parameters, buffers, gradients and the tensors in its attributes.
        device : torch.device, str or int, optional
            The device it is meant for: only memory placed there has room for it. If not given,
            memory placed on any device has.
        """
        check_module_type("ModuleMemoryMap", module)
        target = None if device is None else device_of(device)
        modules = (*self._known.modules, (module, target))
        self._known = _Known(modules, self._known.devices)

    @property
    def groups(self) -> list[StorageGroup]:
        """Tensors of the registered modules, as they are now, by the memory they share."""
        groups = plan_of(self._known.found(None, named=True), detach=True).groups
        return [
            StorageGroup(
                tuple(path_text(piece.path) for piece in group.pieces),
                tuple(piece.view for piece in group.pieces),
                group.pieces[0].tensor.device,
            )
            for group in groups
        ]

    def report(self) -> MemoryReport:
        """Report of parameters, buffers and gradients of the registered modules, as they are."""
        modules = [module for module, _ in self._known.modules]
        return MemoryReport(modules[0] if len(modules) == 1 else torch.nn.ModuleList(modules))

    def memory_aware_deepcopy(self, module: M) -> M:
        """Independent copy of any module on the same devices, by the function of this name."""
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
        """Move a module in place; what was moved there with another one is found again.

        Parameters
        ----------
        module : torch.nn.Module
            Registered now, if it was not, and unless it cannot be moved.
        device, non_blocking
            As for the function `memory_aware_to`.
        pack : {False, True, "close"}, optional
            Whether to leave out bytes between views. By default there is one buffer for each
            storage, from the first byte to the last that a registered module touches. True makes a
            buffer for each set of views whose bounds overlap. "close" moves views closer together,
            so that only touched bytes remain.
        strict : bool, optional
            Whether to raise, instead of to warn, if memory is also held by tensors that no
            registered module has.
        low_memory : bool, optional
            As for the function `memory_aware_to`. Memory that another registered module still has,
            or whose copy on the device another module uses already, is not given up early.

        Returns
        -------
        torch.nn.Module
            The module itself. Of what was on the device before, nothing is sent again: after a
            change of the source, `release` the device first.

        Raises
        ------
        NonLeafError, AliasError, MoveError, TypeError, ValueError
            As for the function `memory_aware_to`, like warnings; also if `pack` is none of the
            three. Nothing has changed then, on the device neither.
        StorageError
            If a tensor shares some bytes, but not all, with what was placed on the device before
            this module was registered.
        """
        check_module_type("ModuleMemoryMap", module)
        target = device_of(device)
        _check_pack(pack)
        if low_memory and non_blocking:
            raise ValueError(NOT_BOTH)
        known = self._known.with_module(module, target)
        place = known.filler(target, pack, non_blocking)
        move(
            module,
            Target(target, None),
            lambda group, _: place(group),
            strict=strict,
            low_memory=low_memory,
            others=known.found(None),
            kept=known.devices[target].regions.by_storage,
            further=[attribute_set(self, "_known", known, self._known)],
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
        """Copy of a module on a device; the module stays as it is.

        Only destination bytes are allocated. Tensors that another registered module has as well
        (the same object) are the same object in the copies on one device; tensors that overlap,
        overlap there. Everything else is copied as by `memory_aware_deepcopy`.

        Parameters
        ----------
        module : torch.nn.Module
            Registered now, if it was not, and unless it cannot be copied.
        device : torch.device, str or int
            Where to; if tensors are there already, they are copied all the same.
        pack, non_blocking : optional
            As for `memory_aware_to`. By default only touched bytes arrive.
        detach : bool, optional
            Whether tensors with a history are copied without it, instead of being refused.

        Returns
        -------
        torch.nn.Module
            The copy. Of what was on the device before, nothing is sent again: after a change of
            values, `release` the device first. A tensor that has become another since (memory,
            type, shape, class, whether it requires a gradient, which gradient it has) is copied
            anew.

        Raises
        ------
        NonLeafError, MoveError, StorageError, TypeError, ValueError
            As for `memory_aware_to`, except that `detach` allows a history.
        """
        check_module_type("ModuleMemoryMap", module)
        target = device_of(device)
        _check_pack(pack)
        check_holds_its_tensors(module)
        known = self._known.with_module(module, target)
        there = known.devices[target]
        reached = traverse(module)
        memo: dict[int, Any] = {}
        CopiedStorages.of(memo).reached |= reached.seen
        for item in reached.found:
            copied = there.copies.get(id(item.tensor))
            if copied is not None and copied.look == look_of(item.tensor):
                memo[id(item.tensor)] = copied.copy
        missing = [item for item in reached.found if id(item.tensor) not in memo]
        # Nothing may stay behind, whatever holds it.
        plan = plan_of([item._replace(owned=True) for item in missing], detach)
        check_arrival(plan, plan.groups, target)
        place = known.filler(target, pack, non_blocking)
        plain: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for group in plan.groups:
                plain |= place(group)
        sources = put_copies(plan, plain, memo, there.counters, target)

        def complete() -> None:
            for source in sources:
                copy_attachments(source, memo[id(source)], memo)

        made = reconstruct(module, memo, complete)
        for source in sources:
            there.copies[id(source)] = Copied(source, memo[id(source)], look_of(source))
        self._known = known
        return made

    def release(self, device: torch.device | str | int | None = None) -> None:
        """Forget what was placed on a device, or on all, so that it can be freed, or sent anew."""
        target = None if device is None else device_of(device)
        devices = self._known.devices
        kept = {on: there for on, there in devices.items() if target not in (None, on)}
        self._known = _Known(self._known.modules, kept)


@dataclass(frozen=True)
class _Known:
    """What a map knows. A call changes a copy, which takes its place when all has gone well."""

    modules: tuple[tuple[torch.nn.Module, torch.device | None], ...] = ()
    devices: dict[torch.device, DeviceMemory] = field(default_factory=dict)

    def with_module(self, module: torch.nn.Module, device: torch.device) -> _Known:
        """A copy that also knows a module, as one for a device, and that may place more there."""
        is_known = any(known is module for known, _ in self.modules)
        modules = self.modules if is_known else (*self.modules, (module, device))
        there = self.devices[device].copy() if device in self.devices else DeviceMemory(device)
        return _Known(modules, self.devices | {device: there})

    def found(self, device: torch.device | None, named: bool = False) -> list[Found]:
        """Tensors of the modules that may come to a device, or of all, each once."""
        found: dict[int, Found] = {}
        for number, (module, meant_for) in enumerate(self.modules):
            prefix = (None, f".{number}") if named and len(self.modules) > 1 else None
            if device is None or meant_for in (None, device):
                for item in traverse(module, prefix).found:
                    found.setdefault(id(item.tensor), item._replace(owned=True))
        return list(found.values())

    def filler(
        self, device: torch.device, pack: Pack, non_blocking: bool
    ) -> Callable[[Group], dict[int, torch.Tensor]]:
        """A function that finds, or makes, the tensors on a device for all pieces of a group."""
        registered: dict[int, Group] | None = None

        def place(group: Group) -> dict[int, torch.Tensor]:
            nonlocal registered
            if registered is None:
                groups = plan_of(self.found(device), detach=True).groups
                registered = {storage: group for group in groups for storage in group.storages}
            plain = self.devices[device].place(group, registered, pack, non_blocking)
            for storage in group.storages:
                registered.pop(storage, None)  # it would keep the memory of the source alive
            return plain

        return place


def _check_pack(pack: object) -> None:
    if not (isinstance(pack, bool) or pack == "close"):
        raise ValueError(f"ModuleMemoryMap: pack must be False, True or 'close', got {pack!r}")
