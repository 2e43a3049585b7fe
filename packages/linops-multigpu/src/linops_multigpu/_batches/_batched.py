"""Operators whose tiles work on several devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import Function, FunctionCtx

from linops_core import NamedLinop, hooks_are_possible, writing_is_safe
from linops_split import Tiled, Tiling
from nameddim import NamedDimension, NamedShape

from .._devices._device_spec import DeviceSpec
from .._devices._events import RepeatedEvent
from .._devices._to_device import ToDevice
from .._execution._call import one_call
from .._execution._execute import CannotBeWritten, Forward, execute
from .._execution._plan import Kind, Plan
from .._execution._planner import check_window, planned
from .._execution._timeline import Timeline, timeline
from .._execution._training import (
    TrainedCall,
    TrainedTiles,
    attached,
    can_be_repeated,
    random_states,
    trained_tiles,
)
from .._weights._crew import Crew, crew_of
from .._weights._placed import Placed
from .._weights._remote import Remote
from .._weights._replica import given
from .._weights._snapshot import Snapshot


class BatchedLinop(Tiled):
    r"""An operator put together of tiles, each on its device, that work at the same time.

    What tiles read is sent from the base device, and what they return is collected there, by
    streams for copies, while others compute. All transfers start at an event that is recorded when
    the operator is applied. The result is the same, to the bit, on every run.

    Parameters
    ----------
    whole : NamedLinop
        Tiles put together by Add and Concat; of those on other devices :class:`Remote`.
    base : DeviceSpec
        Where input and output are.
    max_in_flight : int
        How many inputs, and how many results, are on each device at a time.
    sizes : mapping of dimension to int, optional
        Of dimensions that no tile knows; inputs are checked against them.
    tqdm_kwargs : mapping, optional
        Options of a progress bar over the actions of the plan, as they are issued; none is shown
        by default.

    Raises
    ------
    TypeError
        If ``whole`` is no operator, ``base`` no DeviceSpec, ``max_in_flight`` no integer or
        ``tqdm_kwargs`` no mapping.
    ValueError
        If ``max_in_flight`` is not positive.

    Attributes
    ----------
    start_event : RepeatedEvent
        The event at which the transfers of the last call could start.
    """

    def __init__(
        self,
        whole: NamedLinop,
        base: DeviceSpec,
        max_in_flight: int = 2,
        sizes: Mapping[NamedDimension, int] | None = None,
        tqdm_kwargs: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(whole, NamedLinop):
            raise TypeError(f"BatchedLinop: whole must be a NamedLinop, got {type(whole)}")
        if not isinstance(base, DeviceSpec):
            raise TypeError(f"BatchedLinop: base must be a DeviceSpec, got {base!r}")
        check_window("BatchedLinop", max_in_flight)
        super().__init__(whole, tqdm_kwargs, sizes)
        self.base, self.max_in_flight = base, max_in_flight
        self.start_event = RepeatedEvent(base.device)
        self._plan: tuple[Tiling, Plan, Crew] | None = None
        self._tiles: tuple[Tiling, TrainedTiles | None] | None = None
        self._holders: list[nn.Module] | None = None

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """The device of its input: the base."""
        return (self.base.device,)

    def plan(self) -> Plan:
        """Return what is done when the operator is applied, in the order in which it is issued.

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
        return self._made_plan()[1]

    def timeline(
        self, *, send: float = 1.0, compute: float = 1.0, collect: float = 1.0, add: float = 0.0
    ) -> Timeline:
        """Return when each action of the plan would run, if all of one kind took the same time.

        Parameters
        ----------
        send, compute, collect, add : float
            How long each takes, in any unit.

        Raises
        ------
        ValueError
            If one is negative.

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
        durations = {
            Kind.SEND: send,
            Kind.COMPUTE: compute,
            Kind.COLLECT: collect,
            Kind.ADD: add,
        }
        for kind, duration in durations.items():
            if not duration >= 0:
                raise ValueError(
                    f"{self.signature}: {kind} must take no negative time, got {duration}"
                )
        return timeline(plan.actions, str(plan.base), durations)

    def _made_plan(self) -> tuple[Tiling, Plan, Crew]:
        tiling = self.tiling()
        made = self._plan
        if made is None or made[0] is not tiling:
            crew = crew_of([part.linop for part in tiling.parts], self.base)
            plan = planned(tiling, crew.devices, self.base.device, self.max_in_flight, crew.lanes)
            made = tiling, plan, crew
            vars(self)["_plan"] = made
        return made

    def run(self, x: Tensor) -> Tensor:
        """Return A x, computed on all devices."""
        if x.device != self.base.device:
            raise ValueError(
                f"{self.signature}: the input must be on {self.base.device}, got {x.device}"
            )
        with one_call():  # so what tiles share is looked at, and sent, once
            try:
                return self._computed(x)
            except RuntimeError as error:
                self._check_weights_stayed(error)
                raise

    def _check_weights_stayed(self, error: RuntimeError) -> None:
        """Refuse weights that a tile reads where they were, and that were moved since."""
        for part in self.tiling().parts:
            tile = part.linop
            device = tile.device.device if isinstance(tile, Remote) else self.base.device
            tile = tile.there if isinstance(tile, Remote) else tile
            if any(isinstance(m, (Placed, Remote, Tiled, ToDevice)) for m in tile.modules()):
                continue  # it follows its weights, or looks at them itself
            now = {str(t.device) for t in (*tile.parameters(), *tile.buffers())} - {str(device)}
            if now:
                raise ValueError(
                    f"{self.signature}: the weights of {tile.signature} must stay on {device}, "
                    "where they were when it was batched, got weights on "
                    f"{', '.join(sorted(now))}; call create_batched_linop again for the operator "
                    "that was moved"
                ) from error

    def _computed(self, x: Tensor) -> Tensor:
        if forward_ad._current_level >= 0 or not writing_is_safe():
            return self.whole(x)
        is_trained = self.has_recorded_weights()
        if not is_trained and not (x.requires_grad and torch.is_grad_enabled()):
            return super().run(x)
        if hooks_are_possible(x.detach()):
            return self.whole(x)  # somebody wants to see each call
        y = self._trained(x) if is_trained else self._followed(x)
        # If there is none, autograd follows something that is no weight of ours.
        return self.whole(x) if y is None else y

    def _followed(self, x: Tensor) -> Tensor | None:
        """Return A x as a function of the input: the gradient is by A^H."""
        if not self._made_plan()[2].places:
            return None  # all tiles are here
        y = self.written(x.detach())
        return None if y is None else cast(Tensor, _Attached.apply(x, y, self))  # type: ignore[no-untyped-call]

    def _trained(self, x: Tensor) -> Tensor | None:
        """Return A x as a function of the input and of the weights: gradients are by tiles."""
        tiling, plan, crew = self._made_plan()
        made = self._tiles
        if made is None or made[0] is not tiling:
            tiles = trained_tiles(tiling, self.base, self.max_in_flight)
            made = tiling, tiles
            vars(self)["_tiles"] = made
        tiles = made[1]
        devices = [self.base.device, *crew.devices]
        if tiles is None or tiles.are_hooked() or not can_be_repeated(x, devices):
            return None
        call, states = TrainedCall(self.signature, tiles), random_states(devices)
        try:
            with given(call.frozen()):
                work = Forward(plan, tiling, tiles.crew, x.detach())
                y = execute(plan, work, self.start_event.record, self.watched)
        except CannotBeWritten:
            return None
        is_repeatable = all(map(torch.equal, states, random_states(devices)))
        return attached(cast(Tensor, y), call, x) if is_repeatable else None

    def has_recorded_weights(self) -> bool:
        """Whether autograd follows a weight, and is to."""
        if not torch.is_grad_enabled():
            return False
        return any(
            tensor is not None and tensor.requires_grad
            for module in self.holders()
            for tensor in (*module._parameters.values(), *module._buffers.values())
        )

    def holders(self) -> list[nn.Module]:
        """Return the modules in which weights are, those of tiles that share theirs once."""
        if self._holders is None:
            holders = [m for m in self.modules() if m._parameters or m._buffers]
            vars(self)["_holders"] = holders
        return cast(list[nn.Module], self._holders)

    def written(self, x: Tensor) -> Tensor | None:
        """Return A x as the plan says, or None where that cannot be done; see :class:`Tiled`."""
        tiling, plan, crew = self._made_plan()
        if not crew.places:
            return super().written(x)
        if crew.passes_by_hooks():
            return None
        try:
            work = Forward(plan, tiling, crew, x)
            return execute(plan, work, self.start_event.record, self.watched)
        except CannotBeWritten:
            return None

    def with_operands(self, linops: Iterable[NamedLinop], shape: NamedShape | None = None) -> Self:
        """Return the same of other tiles."""
        return super().with_operands(linops, shape)._unplanned()

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        return cast(Self, super().with_weights(change))._unplanned()

    def _unplanned(self) -> Self:
        """Forget what was found out about the operator that this is a copy of."""
        vars(self).update(
            _plan=None, _tiles=None, _holders=None, start_event=RepeatedEvent(self.base.device)
        )
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without what is made again."""
        return {**super().__getstate__(), "_plan": None, "_tiles": None, "_holders": None}


class _Attached(Function):
    """The result of a batched operator as a function of its input: the gradient is by A^H."""

    @staticmethod
    def forward(x: Tensor, y: Tensor, linop: BatchedLinop) -> Tensor:
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y, linop = inputs
        ctx.mark_dirty(y)  # it becomes the output, and nobody else has it
        ctx.linop, ctx.weights = linop, Snapshot(linop.holders())  # type: ignore[attr-defined]
        ctx.is_real = not x.is_complex()  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with one_call():  # so the weights are looked at once
            return _Attached.followed(ctx, gradient)

    @staticmethod
    def followed(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient to the input."""
        if not ctx.weights.shows():
            raise RuntimeError(
                f"{ctx.linop.signature}: weights must stay as they are until the gradient to the "
                "input was computed, got some that were written to, replaced or moved"
            )
        of_x = ctx.linop.H(gradient)
        return of_x.real if ctx.is_real and of_x.is_complex() else of_x, None, None
