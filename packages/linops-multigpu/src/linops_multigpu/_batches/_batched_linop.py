"""BatchedLinop: an operator whose tiles work on several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from linops_core import NamedLinop
from linops_core.siblings import check_integer, one_call, submodules_of
from linops_split import Part, Tiled, Tiles
from linops_split.siblings import Forward, PartCopies, Work, applied_out_of_place
from nameddim import NamedDimension

from .._devices._device_spec import DeviceSpec
from .._devices._events import RepeatedEvent
from .._devices._stream_pool import follow_caller, let_caller_follow, streams_on
from .._devices._to_device import ToDevice
from .._execution._device_tiles import DevicePair, DeviceTiles
from .._execution._execute import execute
from .._execution._plan import Kind, Plan
from .._execution._planner import planned
from .._execution._timeline import Timeline, timeline
from .._weights._broadcast import with_weights_sent
from .._weights._training import MOVING, DeviceCopies


class BatchedLinop(Tiled):
    """An operator that is a table of parts, which work on their devices at the same time.

    The slices of the input are sent from the base device, and the results are collected there, on
    copy streams, while other parts compute. All transfers start after an event that is recorded
    when the operator is applied. The result is the same, to the bit, on every run.

    Parameters
    ----------
    tiles : Tiles
        Each part has a DevicePair, or None for the base device.
    base : DeviceSpec
        The device of input and output.
    max_in_flight, sizes, tqdm_kwargs
        As for :func:`create_batched_linop`.
    whole
        As for :class:`linops_split.Tiled`.

    Raises
    ------
    TypeError
        If an argument has a wrong type.
    ValueError
        If ``max_in_flight`` is not positive.
    """

    saved_with: ClassVar[tuple[type, ...]] = (DeviceSpec, RepeatedEvent)

    _where: DeviceTiles | None
    _plans: dict[object, Plan]

    def __init__(
        self,
        tiles: Tiles,
        base: DeviceSpec,
        max_in_flight: int = 2,
        sizes: Mapping[NamedDimension, int] | None = None,
        tqdm_kwargs: Mapping[str, object] | None = None,
        *,
        whole: NamedLinop | None = None,
    ) -> None:
        if not isinstance(base, DeviceSpec):
            raise TypeError(f"BatchedLinop: base must be a DeviceSpec, got {base!r}")
        check_integer("BatchedLinop", "max_in_flight", max_in_flight, 1)
        self.base, self.max_in_flight = base, max_in_flight
        super().__init__(tiles, tqdm_kwargs, sizes, whole=whole)

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        return (self.base.device,)

    @property
    def start_event(self) -> RepeatedEvent:
        """The event after which the transfers of the last call could start."""
        return self._start_event

    def plan(self) -> Plan:
        """Return the steps of a call, in the order in which they are issued.

        Examples
        --------
        >>> from linops_core import Diagonal
        >>> from linops_multigpu import BatchSpec, create_batched_linop
        >>> A = Diagonal(torch.ones(4), ("N",))
        >>> B = create_batched_linop(A, BatchSpec({"N": 2}, ["meta"], base_device="cpu"))
        >>> print(B.plan())
        2 tiles on meta; input and output on cpu
           0  send     tile 0    meta     x[N 0:2]
           1  compute  tile 0    meta     x[N 0:2]  after 0
           2  collect  tile 0    meta     y[N 0:2]  after 1
           3  send     tile 1    meta     x[N 2:4]
           4  compute  tile 1    meta     x[N 2:4]  after 3
           5  collect  tile 1    meta     y[N 2:4]  after 4
        """
        return self._plan_of(Forward(self.tiles, torch.empty(0)))

    def timeline(
        self, *, send: float = 1.0, compute: float = 1.0, collect: float = 1.0, add: float = 0.0
    ) -> Timeline:
        """Return when each step of the plan would run, if all steps of one kind took equally long.

        Parameters
        ----------
        send, compute, collect, add : float
            The duration of each kind of step, in any unit.

        Raises
        ------
        ValueError
            If a duration is negative.

        Examples
        --------
        >>> from linops_core import Diagonal
        >>> from linops_multigpu import BatchSpec, create_batched_linop
        >>> A = Diagonal(torch.ones(8), ("N",))
        >>> B = create_batched_linop(A, BatchSpec({"N": 1}, ["meta"], base_device="cpu"))
        >>> B.timeline(compute=2.0).makespan
        18.0
        """
        plan = self.plan()
        durations = {Kind.SEND: send, Kind.COMPUTE: compute, Kind.COLLECT: collect, Kind.ADD: add}
        for kind, duration in durations.items():
            if not duration >= 0:
                raise ValueError(
                    f"{self.signature}: {kind} must not take negative time, got {duration}"
                )
        return timeline(plan.actions, str(plan.base), durations)

    @property
    def where(self) -> DeviceTiles:
        """The parts and their devices."""
        if self._where is None:
            self._where = DeviceTiles(self.tiles, self.base)
        return self._where

    def _plan_of(self, work: Work) -> Plan:
        where, numbers = self.where, range(len(self.tiles.linops))
        needed = tuple([work.n_read(n) if work.is_needed(n) else 0 for n in numbers])
        key = type(work), work.collects, needed
        if key not in self._plans:
            placed = where.devices, self.base.device, self.max_in_flight, where.lanes
            self._plans[key] = planned(work, *placed)
        return self._plans[key]

    def run(self, x: Tensor) -> Tensor:
        if x.device != self.base.device:
            raise ValueError(
                f"{self.signature}: the input must be on {self.base.device}, got {x.device}"
            )
        is_traced = not is_dynamo_compiling() and get_proxy_mode() is not None
        if is_traced and self.where.pairs:
            raise NotImplementedError(
                f"{self.signature}: streams and transfers must not be traced, got a call within "
                "torch.func.linearize or make_fx; use torch.func.jvp, or linearize the operator "
                "before it is batched"
            )
        with one_call():  # so that shared weights are checked and sent only once
            try:
                return super().run(x)
            except (RuntimeError, ValueError) as error:
                for part, device in zip(self.tiles.parts, self.where.devices, strict=True):
                    if now := others_with_weights(part.linop, device):
                        raise ValueError(
                            f"{self.signature}: the weights of {part.linop.signature} must stay on "
                            f"{device}, where they were when it was batched, got weights on "
                            f"{', '.join(sorted(now))}; call create_batched_linop again after you "
                            "move the operator"
                        ) from error
                raise

    def execute(self, work: Work) -> Tensor | None:
        if not self.where.pairs:
            return super().execute(work)
        plan = self._plan_of(work)
        with one_call():
            return execute(plan, work, self.where, self.start_event.record, self.watched)

    def out_of_place(self, x: Tensor, tiles: Tiles) -> Tensor:
        with one_call():
            return applied_out_of_place(tiles, x, applied_on_device)

    def _part_copies(self) -> PartCopies:
        return DeviceCopies(self.where)

    def _devices(self) -> Sequence[torch.device]:
        return [self.base.device, *self.where.devices]

    def _normal_of_group(self, tiles: Tiles) -> Part:
        first, *others = {part.devices for part in tiles.parts}
        if others:
            return super()._normal_of_group(tiles)
        parts = [Part(part.linop, part.window) for part in tiles.parts]
        tiled = Tiled(Tiles(tiles.shape, parts, tiles.lengths))
        return Part(tiled.own_normal(), devices=first)

    def _lay_out(self, tiles: Tiles, whole: NamedLinop | None) -> None:
        super()._lay_out(tiles, whole)
        self._where, self._plans = None, {}
        self._start_event = RepeatedEvent(self.base.device)

    def __getstate__(self) -> dict[str, Any]:
        start = RepeatedEvent(self.base.device)
        return {**super().__getstate__(), "_where": None, "_plans": {}, "_start_event": start}


def applied_on_device(part: Part, x: Tensor) -> Tensor:
    """Return the result of a part for x; both are on the base device."""
    if part.devices is None:
        return on_device(part.linop, x.device)(x)
    pair = cast(DevicePair, part.devices)
    base, device = pair.base, pair.device
    sending, receiving = base.transfer_stream, device.transfer_stream
    to_device = ToDevice(base.device, device.device, istream=sending, ostream=receiving)
    streams = streams_on(device.device, device)
    follow_caller(streams)
    with streams.backend.using(streams.compute):
        y: Tensor = to_device.H(on_device(part.linop, device.device)(to_device(x)))
    let_caller_follow(streams)
    return y


def on_device(linop: NamedLinop, device: torch.device) -> NamedLinop:
    """Return an operator with its weights on the device; they are sent if they are elsewhere."""
    return with_weights_sent(linop, device) if others_with_weights(linop, device) else linop


def others_with_weights(linop: NamedLinop, device: torch.device) -> set[str]:
    """Return the other devices that hold weights of an operator, unless it moves data itself."""
    if any(isinstance(module, MOVING) for module in submodules_of(linop)):
        return set()
    return {str(t.device) for t in (*linop.parameters(), *linop.buffers())} - {str(device)}
