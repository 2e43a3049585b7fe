"""Carrying out a move: what changes together, step by step, and the way back.

All at once needs the memory of the source and of the destination together, and is taken back by
pointing the tensors to their old memory again. In steps, the memory of each is given up as soon as
it has moved: what is to be taken back later has to be brought back from where it is by then.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import torch

from .._errors import MoveError
from .._modules._at_once import Call, at_once, attribute_set
from .._modules._commit import Changes, commit
from .._modules._composite import Composite
from .._modules._traverse import Found, path_text
from ._buffers import copy_span, has_data, spans_of
from ._cast import Cast, cast_by, cast_span, is_exact, new_type
from ._disjoint import DisjointSets
from ._plan import Group, Plan, plan_of

T = TypeVar("T")

Filler: TypeAlias = Callable[[Group, torch.device], dict[int, torch.Tensor]]
"""Makes the plain tensors of a group on a device, by the id of their source."""

Step: TypeAlias = Callable[[], None]


class Target(NamedTuple):
    """Where to, and what to cast to; None for what each tensor has."""

    device: torch.device | None
    dtype: torch.dtype | None


class MoveStep(NamedTuple):
    """Tensors that change together, and what they are made of.

    Attributes
    ----------
    found : list of Found
        The tensors.
    groups : list of Group
        Where their parts lie.
    composites, unknown
        As in `Plan`.
    """

    found: list[Found]
    groups: list[Group]
    composites: list[tuple[Found, Composite]]
    unknown: list[Found]


def move_steps(plan: Plan, groups: Sequence[Group], found: Iterable[Found]) -> list[MoveStep]:
    """What has to change together: a group, parts of one tensor, a tensor and its gradient.

    Parameters
    ----------
    plan : Plan
        What the tensors are made of.
    groups : sequence of Group
        Those of the plan that are to move.
    found : iterable of Found
        The tensors.

    Returns
    -------
    list of MoveStep
        Of all that is to move.
    """
    found = list(found)
    sets = DisjointSets(len(groups) + len(plan.unknown))
    home = {id(piece.tensor): at for at, group in enumerate(groups) for piece in group.pieces}
    home |= {id(item.tensor): at for at, item in enumerate(plan.unknown, len(groups))}

    def join(tensors: Iterable[torch.Tensor]) -> int | None:
        met = [home[id(tensor)] for tensor in tensors if id(tensor) in home]
        for at in met[1:]:
            sets.join(at, met[0])
        return met[0] if met else None

    for item, composite in plan.composites:
        at = join(composite.parts)
        if at is not None:
            home[id(item.tensor)] = at
    for item in found:
        if item.tensor.is_leaf and item.tensor.grad is not None:
            join([item.tensor, item.tensor.grad])
    steps: dict[int, MoveStep] = {}
    for at, group in enumerate(groups):
        steps.setdefault(sets.find(at), MoveStep([], [], [], [])).groups.append(group)
    for at, item in enumerate(plan.unknown, len(groups)):
        steps.setdefault(sets.find(at), MoveStep([], [], [], [])).unknown.append(item)
    for item, composite in plan.composites:
        if id(item.tensor) in home:
            steps[sets.find(home[id(item.tensor)])].composites.append((item, composite))
    for item in found:
        if id(item.tensor) in home:
            steps[sets.find(home[id(item.tensor)])].found.append(item)
    return list(steps.values())


def joined(steps: Sequence[MoveStep]) -> list[MoveStep]:
    """One step of all: every group is filled before the first tensor changes.

    Parameters
    ----------
    steps : sequence of MoveStep
        What is to move.

    Returns
    -------
    list of MoveStep
        None, if there is nothing to move.
    """
    if not steps:
        return []
    found, groups, composites, unknown = zip(*steps, strict=True)
    return [MoveStep(_chained(found), _chained(groups), _chained(composites), _chained(unknown))]


def _chained(lists: Iterable[list[T]]) -> list[T]:
    return [item for items in lists for item in items]


def carry_out(
    steps: list[MoveStep],
    target: Target,
    fill: Filler,
    kept: Container[int],
    further: Iterable[tuple[Call, Call]] = (),
) -> None:
    """Change the tensors of all steps, one step after the other; if one fails, none has changed.

    Parameters
    ----------
    steps : list of MoveStep
        Emptied on the way, so that what has moved can be freed.
    target : Target
        Where to.
    fill : callable
        Makes the new tensors of a group.
    kept : container of int
        Identities of storages that are not to be given up before the end.
    further : iterable of pairs of Call, optional
        What else is to be done when the last tensors change; see `Changes`.

    Raises
    ------
    MoveError
        As for `commit`; also if what had moved before a failure could not be brought back.
    Exception
        Whatever `fill` and torch raise.
    """
    done: list[tuple[list[Found], Step]] = []
    stranded: list[Found] = []
    if not steps:
        at_once([call for call, _ in further])
    try:
        try:
            while steps:
                step = steps.pop(0)
                # With the last step nothing is won by giving up its source.
                origin = _origin_of(step, target, kept) if steps else None
                changes = Changes(() if steps else further)
                found = step.found
                # Noted before anything changes: an interrupt may come at any time.
                done.append((found, changes.undo))
                _change(step, target, fill, changes)
                del step, changes
                if origin is not None:
                    done[-1] = found, _WayBack(found, origin)
        except BaseException:
            _take_back(done, stranded)
            raise
    except BaseException as error:
        _take_back(done, stranded)  # again, because an interrupt may have stopped the first time
        if stranded:
            names = ", ".join(path_text(item.path) for item in stranded)
            raise MoveError(
                f"{names}: what was moved before a failure must be brought back, which failed, "
                "too; these tensors are whole, but where they were to be moved to"
            ) from error
        raise


def new_tensors(
    group: Group,
    device: torch.device,
    cast: Cast | None,
    *,
    pack: bool = False,
    non_blocking: bool = False,
) -> dict[int, torch.Tensor]:
    """Copies of all pieces of a group, over new memory that they share as their sources do.

    Parameters
    ----------
    group : Group
        What to copy.
    device : torch.device
        Where to.
    cast : Cast or None
        New types, if any.
    pack : bool, optional
        Whether to leave out gaps.
    non_blocking : bool, optional
        Whether the host may go on before the bytes have arrived.

    Returns
    -------
    dict of int to torch.Tensor
        Plain tensors without history, by the id of their source.
    """
    made: dict[int, torch.Tensor] = {}
    for span in spans_of(group, pack):
        if cast is not None:
            made.update(cast_span(span, group, cast, device, non_blocking))
            continue
        buffer = copy_span(span, group, device, non_blocking)
        made.update({id(piece.tensor): buffer.view(piece) for piece in span.pieces})
    return made


def _change(step: MoveStep, target: Target, fill: Filler, changes: Changes) -> None:
    """Fill new memory for all tensors of a step, and give it to them."""
    plain: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        for group in step.groups:
            plain.update(fill(group, target.device or group.pieces[0].tensor.device))
        for item, composite in step.composites:
            parts = [plain.get(id(part), part) for part in composite.parts]
            plain[id(item.tensor)] = composite.assemble(parts)
        for item in step.unknown:
            tensor = item.tensor.detach()
            new = tensor.to(target.device, target.dtype and new_type(tensor, target.dtype))
            if new is not tensor:
                plain[id(item.tensor)] = new
    commit(step.found, plain, changes)


class _Origin(NamedTuple):
    """Where the tensors of a step were, and the old type for every new one."""

    device: torch.device
    types: dict[torch.dtype, torch.dtype]


def _origin_of(step: MoveStep, target: Target, kept: Container[int]) -> _Origin | None:
    """From where a step can be brought back without loss; None if it has to be kept."""
    devices = {group.pieces[0].tensor.device for group in step.groups}
    if step.unknown or len(devices) != 1 or (target.device and target.device.type == "meta"):
        return None
    moved = {id(piece.tensor) for group in step.groups for piece in group.pieces}
    moved |= {id(item.tensor) for item, _ in step.composites}
    if any(id(part) not in moved for _, composite in step.composites for part in composite.parts):
        return None
    types: dict[torch.dtype, torch.dtype] = {}
    for group in step.groups:
        if not has_data(group):
            return None
        for piece in group.pieces:
            old = piece.tensor.dtype
            new = new_type(piece.tensor, target.dtype) if target.dtype else old
            if types.setdefault(new, old) != old or not is_exact(old, new):
                return None
            if piece.tensor.untyped_storage()._cdata in kept:
                return None
    return _Origin(devices.pop(), types)


class _WayBack:
    """Brings tensors back that have moved, and whose old memory was given up."""

    def __init__(self, found: list[Found], origin: _Origin) -> None:
        self._found = found
        self._origin = origin
        self.is_done = False

    def __call__(self) -> None:
        if self.is_done:
            return
        plan = plan_of(self._found)
        step = MoveStep(self._found, plan.groups, plan.composites, [])
        changes = Changes([attribute_set(self, "is_done", True, False)])
        _change(step, Target(self._origin.device, None), self._fill, changes)

    def _fill(self, group: Group, device: torch.device) -> dict[int, torch.Tensor]:
        types = {
            piece.tensor.dtype: self._origin.types[piece.tensor.dtype] for piece in group.pieces
        }
        return new_tensors(group, device, cast_by(group, types))


def _take_back(done: list[tuple[list[Found], Step]], stranded: list[Found]) -> None:
    """Take back what was done, the last step first, and as much of it as is possible.

    Parameters
    ----------
    done : list of (list of Found, step)
        Emptied on the way. A step may be taken again if it was interrupted.
    stranded : list of Found
        Gets the tensors whose step failed.
    """
    while done:
        found, step = done[-1]
        try:
            step()
        except KeyboardInterrupt:
            continue  # the caller raises in any case: no interrupt is lost
        except BaseException:  # the rest can still be brought back
            at_once([partial(stranded.extend, found), done.pop])
        else:
            done.pop()
