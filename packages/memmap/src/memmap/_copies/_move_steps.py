"""Carrying out a move in steps, and undoing the steps after a failure.

A move in one step needs the memory of source and destination together. To undo it, the tensors are
pointed to their old memory again. A move in several steps frees the memory of each step as soon as
it has moved. To undo it, the memory has to be moved back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import torch

from .._components import components
from .._errors import MoveError
from .._modules._at_once import Call, at_once, attribute_set
from .._modules._commit import Changes, commit
from .._modules._traverse import FoundTensor, path_text
from ._buffers import has_data, new_views
from ._by_class import sent_by_class
from ._cast import cast_by, is_exact, new_type
from ._plan import CopyPlan, Group, copy_plan

Filler: TypeAlias = Callable[[Group, torch.device], dict[int, torch.Tensor]]
"""Makes the plain tensors of a group on a device, by the id of their source."""

_Done: TypeAlias = list[tuple[list[FoundTensor], Callable[[], None]]]
"""The tensors of each step that has begun, and the function that undoes the step."""


class Target(NamedTuple):
    """The target device and the type to cast to; with None, each tensor keeps its own."""

    device: torch.device | None
    dtype: torch.dtype | None

    def converted(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor with this device and precision; the same object if it has both."""
        return tensor.to(self.device, self.dtype and new_type(tensor, self.dtype))


def move_steps(plan: CopyPlan, groups: Sequence[Group], all_at_once: bool) -> list[CopyPlan]:
    """Plans of steps. Groups of one tensor, or of a tensor and its gradient, share a step."""
    n = len(groups) + len(plan.unknown)
    home = {id(piece.tensor): at for at, group in enumerate(groups) for piece in group.pieces}
    home |= {id(item.tensor): at for at, item in enumerate(plan.unknown, len(groups))}
    together: list[list[int]] = [[*range(n)]] if all_at_once else []
    for item, composite in plan.composites:
        members = (item.tensor, *composite.parts)
        parts = [home[id(part)] for part in members if id(part) in home]
        if parts:
            together.append(parts)
            home[id(item.tensor)] = parts[0]
    for item in plan.tensors:
        gradient = item.tensor.grad if item.tensor.is_leaf else None
        if id(item.tensor) in home and id(gradient) in home:
            together.append([home[id(item.tensor)], home[id(gradient)]])
    number = components(n, (pair for homes in together for pair in pairwise(homes)))
    steps: dict[int, CopyPlan] = defaultdict(CopyPlan)
    for at, group in enumerate(groups):
        steps[number[at]].groups.append(group)
    for at, item in enumerate(plan.unknown, len(groups)):
        steps[number[at]].unknown.append(item)
    for item, composite in plan.composites:
        if id(item.tensor) in home:
            steps[number[home[id(item.tensor)]]].composites.append((item, composite))
    for item in plan.tensors:
        if id(item.tensor) in home:
            steps[number[home[id(item.tensor)]]].tensors.append(item)
    # A class may compute with tensors of the module, which must not have changed before.
    return sorted(steps.values(), key=lambda step: not step.unknown)


def carry_out(
    steps: list[CopyPlan],
    target: Target,
    fill: Filler,
    kept: Container[object],
    further: Iterable[tuple[Call, Call]] = (),
) -> None:
    """Change the tensors of all steps, one step after the other; if one fails, none has changed.

    The list of steps is emptied on the way, so that moved memory can be freed, except for storages
    with the `kept` identities. The calls in `further` are made together with the last step.
    """
    done: _Done = []
    stranded: list[FoundTensor] = []
    if not steps:
        at_once([call for call, _ in further])
    try:
        try:
            while steps:
                step = steps.pop(0)
                # Freeing the source of the last step does not lower the peak.
                origin = _origin_of(step, target, kept) if steps else None
                changes = Changes(() if steps else further)
                tensors = step.tensors
                # Note the step before anything changes: an interrupt may come at any time.
                done.append((tensors, changes.undo))
                _change(step, target, fill, changes)
                del step, changes
                if origin is not None:
                    done[-1] = tensors, _MoveBack(tensors, origin)
        except BaseException:
            _undo_steps(done, stranded)
            raise
    except BaseException as error:
        _undo_steps(done, stranded)  # again, because an interrupt may have stopped the first time
        if stranded:
            names = ", ".join(path_text(item.path) for item in stranded)
            raise MoveError(
                f"{names}: tensors that moved before a failure must be moved back, but that "
                "failed, too; these tensors are undamaged and stay at the destination"
            ) from error
        raise


def _change(step: CopyPlan, target: Target, fill: Filler, changes: Changes) -> None:
    """Fill new memory for all tensors of a step and give it to the tensors."""
    plain: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        for group in step.groups:
            plain |= fill(group, target.device or group.device)
        wholes = {id(item.tensor) for item, _ in step.composites}
        for item in step.unknown:
            if id(item.tensor) not in wholes:
                _send(item, item.tensor.detach(), plain, target)
        tensors = {id(item.tensor) for item in step.tensors}
        parts: dict[int, torch.Tensor] = {}

        def part_of(part: torch.Tensor) -> torch.Tensor:
            new = plain.get(id(part))
            if new is None or id(part) not in tensors:
                return part if new is None else new
            # A tensor of the module exchanges its memory with the new one: parts need another.
            return parts.setdefault(id(part), new.detach())

        step.assemble(plain, part_of)
        for item in step.unknown:
            if id(item.tensor) in wholes:
                _send(item, plain[id(item.tensor)], plain, target)
    commit(step.tensors, plain, changes)


def _send(
    item: FoundTensor, tensor: torch.Tensor, plain: dict[int, torch.Tensor], target: Target
) -> None:
    """Let the class of a tensor move and cast it; a tensor that needs neither stays as it is."""
    dtype = target.dtype and new_type(tensor, target.dtype)
    made = sent_by_class(item, tensor, target.device, None if dtype == tensor.dtype else dtype)
    if made is not tensor:
        plain[id(item.tensor)] = made


class _Origin(NamedTuple):
    """Where the tensors of a step were, and the old type of every new type."""

    device: torch.device
    types: dict[torch.dtype, torch.dtype]


def _origin_of(step: CopyPlan, target: Target, kept: Container[object]) -> _Origin | None:
    """The origin of a step that can be moved back without loss; None if it must be kept."""
    devices = {group.device for group in step.groups}
    if step.unknown or len(devices) != 1 or (target.device and target.device.type == "meta"):
        return None
    moved = {id(piece.tensor) for piece in step.pieces}
    moved |= {id(item.tensor) for item, _ in step.composites}
    if any(id(part) not in moved for _, composite in step.composites for part in composite.parts):
        return None
    types: dict[torch.dtype, torch.dtype] = {}
    for group in step.groups:
        if not has_data(group.pieces[0].tensor):
            return None
        for piece in group.pieces:
            old = piece.tensor.dtype
            dtype = None if piece.keeps_type else target.dtype
            new = new_type(piece.tensor, dtype) if dtype else old
            if types.setdefault(new, old) != old or not is_exact(old, new):
                return None
            if piece.tensor.untyped_storage()._cdata in kept:
                return None
    return _Origin(devices.pop(), types)


class _MoveBack:
    """Moves tensors back after their old memory was freed."""

    def __init__(self, tensors: list[FoundTensor], origin: _Origin) -> None:
        self._tensors = tensors
        self._origin = origin
        self.is_done = False

    def __call__(self) -> None:
        if self.is_done:
            return
        plan = copy_plan(self._tensors)
        changes = Changes([attribute_set(self, "is_done", True, False)])
        _change(plan, Target(self._origin.device, None), self._fill, changes)

    def _fill(self, group: Group, device: torch.device) -> dict[int, torch.Tensor]:
        types = {
            piece.tensor.dtype: self._origin.types[piece.tensor.dtype] for piece in group.pieces
        }
        return new_views(group, device, False, cast_by(group, types))


def _undo_steps(done: _Done, stranded: list[FoundTensor]) -> None:
    """Undo steps, the last one first; tensors of steps that cannot be undone become `stranded`.

    The list is emptied on the way. A step may be undone again if it was interrupted.
    """
    while done:
        tensors, step = done[-1]
        try:
            step()
        except KeyboardInterrupt:
            continue  # the caller raises in any case: no interrupt is lost
        except BaseException:  # the rest can still be brought back
            at_once([partial(stranded.extend, tensors), done.pop])
        else:
            done.pop()
