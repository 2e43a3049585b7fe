"""Batched operators with weights that autograd follows: gradients tile by tile.

The forward pass runs the plan on weights that autograd does not follow. The backward pass runs
each tile again, under autograd, on the device and the stream of the tile, with a plan of its own.
So a training step needs the workspace of the tiles in flight, beside weights, gradients, input and
output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import Function, FunctionCtx

from linops_core import NamedLinop, has_hooks, n_hooks_registered, writing_is_safe
from linops_split import Tiled, Tiling

from .._devices._device_spec import DeviceSpec
from .._devices._stream_pool import DeviceStreams, streams_on
from .._devices._streams import recorded_on
from .._devices._to_device import ToDevice
from .._weights._crew import Crew, crew_of
from .._weights._followed import Followed
from .._weights._gradient_sums import GradientSums, returned
from .._weights._placed import Placed, placed_together
from .._weights._remote import Remote
from .._weights._replica import Copies, Given, Replica, given
from ._call import one_call
from ._execute import Work, execute, keep_view_of
from ._plan import Plan
from ._planner import planned_backward


@dataclass
class TrainedTiles:
    """The tiles of a batched operator, all of which read copies of weights.

    Where a weight is on the device of its tile, its copy is the weight itself.
    """

    tiling: Tiling
    tiles: Sequence[NamedLinop]
    placed: Sequence[Placed]
    """Of each tile the operator on its device."""
    crew: Crew
    max_in_flight: int
    _plans: dict[bool, Plan] = field(default_factory=dict)
    _n_hooks: int | None = None

    @property
    def replicas(self) -> list[Replica]:
        """What the copies belong to, each once."""
        return list(dict.fromkeys(placed.copy.replica for placed in self.placed))

    def plan(self, collects: bool) -> Plan:
        """Return the plan of the backward pass, with gradients to the input or without."""
        if collects not in self._plans:
            self._plans[collects] = planned_backward(
                self.tiling,
                self.crew.devices,
                self.crew.base.device,
                self.max_in_flight,
                self.crew.lanes,
                collects=collects,
            )
        return self._plans[collects]

    def are_hooked(self) -> bool:
        """Whether somebody wants to see calls of what tiles are made of."""
        n_hooks = n_hooks_registered()
        if self._n_hooks != n_hooks:
            if any(_has_hooks(module) for module in self.tiling.whole.modules()):
                return True
            self._n_hooks = n_hooks
        return False


def _has_hooks(module: torch.nn.Module) -> bool:
    return has_hooks(module)  # type: ignore[arg-type] # it looks at what any module has


def trained_tiles(tiling: Tiling, base: DeviceSpec, max_in_flight: int) -> TrainedTiles | None:
    """Return the tiles of a tiling for training, or None where one moves data by itself."""
    tiles = [part.linop for part in tiling.parts]
    own: dict[torch.device, list[int]] = {}
    for number, tile in enumerate(tiles):
        device = tile.device.device if isinstance(tile, Remote) else base.device
        there = _on_device(tile)
        if isinstance(there, Placed):
            if there.device != device:
                return None
        elif any(isinstance(part, (Placed, Tiled, Remote, ToDevice)) for part in there.modules()):
            return None
        elif any(t.device != device for t in (*there.parameters(), *there.buffers())):
            return None
        else:
            own.setdefault(device, []).append(number)
    for device, numbers in own.items():
        placed = placed_together([_on_device(tiles[number]) for number in numbers], device)
        for number, linop in zip(numbers, placed, strict=True):
            tile = tiles[number]
            tiles[number] = tile.with_operands([linop]) if isinstance(tile, Remote) else linop
    on_device = [_on_device(tile) for tile in tiles]
    all_placed = [linop for linop in on_device if isinstance(linop, Placed)]
    return TrainedTiles(tiling, tiles, all_placed, crew_of(tiles, base), max_in_flight)


def _on_device(tile: NamedLinop) -> NamedLinop:
    return tile.there if isinstance(tile, Remote) else tile


def can_be_repeated(x: Tensor, devices: Sequence[torch.device]) -> bool:
    """Whether tiles that are run again for ``x`` in a backward pass would do the same."""
    types = {device.type for device in devices}
    return not isinstance(x, FakeTensor) and not any(
        torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind) for kind in types
    )


def random_states(devices: Sequence[torch.device]) -> list[Tensor]:
    """Return the states of torch's generators of random numbers."""
    found = [torch.get_rng_state()]
    for device in dict.fromkeys(devices):
        state_of = getattr(getattr(torch, device.type, None), "get_rng_state", None)
        if device.type != "cpu" and state_of is not None:
            found.append(state_of(device))
    return found


class TrainedCall:
    """One forward pass with weights that autograd follows, and what its backward pass needs.

    Parameters
    ----------
    signature : str
        Names the operator in errors.
    tiles : TrainedTiles
    """

    def __init__(self, signature: str, tiles: TrainedTiles) -> None:
        self.signature, self.tiles = signature, tiles
        self.copies: dict[Replica, Copies] = {}
        self.followed: dict[Replica, Followed] = {}
        self.weights: list[Tensor] = []
        self._number_of: dict[int, int] = {}
        for replica in tiles.replicas:
            copies = self.copies[replica] = replica.now()
            followed = self.followed[replica] = replica.followed(copies)
            for weight in followed.weights:
                number = self._number_of.setdefault(id(weight), len(self.weights))
                if number == len(self.weights):
                    self.weights.append(weight)
        self._versions = self.versions()

    def versions(self) -> list[list[int]]:
        """Return how often all copies were written to."""
        return [copies.versions() for copies in self.copies.values()]

    def numbers(self, replica: Replica) -> list[int]:
        """Return of the weights of a replica the positions among all weights."""
        return [self._number_of[id(weight)] for weight in self.followed[replica].weights]

    def frozen(self) -> dict[Replica, Given]:
        """Return operators on weights that autograd does not follow."""
        return {replica: Given(copies, copies.linops) for replica, copies in self.copies.items()}

    def check(self) -> None:
        """Refuse weights that are not what they were in the forward pass."""
        is_same = all(copies.shows_all() for copies in self.copies.values())
        if not is_same or self.versions() != self._versions:
            raise RuntimeError(
                f"{self.signature}: weights must stay as they are until the gradient was "
                "computed, got some that were written to, replaced or moved"
            )

    def gradients(self, x: Tensor, gradient: Tensor, of_input: bool) -> list[Tensor | None]:
        """Return the gradients to the input and to the weights, computed tile by tile."""
        plan = self.tiles.plan(of_input)
        work = _Backward(self, x.detach(), gradient.detach(), of_input)
        with given(work.given):
            of_x = execute(plan, work, lambda stream: recorded_on(stream, work.backend))
        found = returned(work.sums_of_caller())
        return [of_x, *(found.get(number) for number in range(len(self.weights)))]

    def recorded_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor | None]:
        """Return the same by the graph of torch's, so that autograd follows it."""
        with torch.enable_grad():
            linops = {
                replica: Given(self.copies[replica], followed.linops())
                for replica, followed in self.followed.items()
            }
            with given(linops):
                views = self.tiles.tiling.inputs(x)
                results = [tile(v) for tile, v in zip(self.tiles.tiles, views, strict=True)]
        pairs = [
            (result, of_result)
            for result, of_result in zip(results, self.tiles.tiling.outputs(gradient), strict=True)
            if result.requires_grad
        ]
        wanted = [tensor for tensor in (x, *self.weights) if tensor.requires_grad]
        found = iter(
            torch.autograd.grad(
                [result for result, _ in pairs],
                wanted,
                [of_result for _, of_result in pairs],
                create_graph=torch.is_grad_enabled(),
                allow_unused=True,
            )
        )
        return [next(found) if tensor.requires_grad else None for tensor in (x, *self.weights)]


class _Backward(Work):
    """Gradients to the input, which are put together, and to weights, which are summed.

    Attributes
    ----------
    given : mapping of Replica to Given
        Operators on weights that have no history: gradients are taken with respect to them.
    """

    def __init__(self, call: TrainedCall, x: Tensor, gradient: Tensor, of_input: bool) -> None:
        tiles = call.tiles
        super().__init__(tiles.tiling, tiles.crew)
        self.call, self.x, self.gradient, self.of_input = call, x, gradient, of_input
        self.backend = streams_on(tiles.crew.base.device, tiles.crew.base).backend
        self.leaves = {
            replica: [part.copy.detach().requires_grad_() for part in followed.parts.parts]
            for replica, followed in call.followed.items()
        }
        self.given = {
            replica: Given(call.copies[replica], followed.reading(self.leaves[replica]))
            for replica, followed in call.followed.items()
        }
        # Of each stream that computes: what two of them add to one sum would not be in order.
        self.sums: dict[tuple[Replica, int | None], GradientSums] = {}

    def operands(self) -> Sequence[Sequence[Tensor]]:
        """Return the gradient of what each tile writes, and what it reads."""
        gradient, x = (t.resolve_conj().resolve_neg() for t in (self.gradient, self.x))
        return [self.tiling.outputs(gradient), self.tiling.inputs(x)]

    def compute(
        self, tile: int, operands: Sequence[Tensor], streams: DeviceStreams
    ) -> Tensor | None:
        """Return the gradient to what a tile reads; add up those to its weights."""
        gradient, x = operands
        copy = self.call.tiles.placed[tile].copy
        numbers = self.call.followed[copy.replica].parts_of(copy.position)
        leaves = [self.leaves[copy.replica][number] for number in numbers]
        if not numbers and not self.of_input:
            return None
        with torch.enable_grad():
            x = x.detach().requires_grad_(self.of_input)
            y = self.crew.workers[tile].apply(x)
        wanted = [x, *leaves] if self.of_input else leaves
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if y.requires_grad:
            found = torch.autograd.grad(y, wanted, gradient, allow_unused=True)
        del y
        of_x = None
        if self.of_input:
            of_x, *found = found
            of_x = torch.zeros_like(operands[1]) if of_x is None else of_x
        place = self.crew.workers[tile].place
        sums = self.sums.get((copy.replica, place))
        if sums is None:
            sums = GradientSums(self.call.followed[copy.replica].parts)
            self.sums[copy.replica, place] = sums
        for number, of_weight in zip(numbers, found, strict=True):
            if of_weight is not None:
                keep_view_of(operands, of_weight, streams)
                sums.add(number, of_weight)
        return of_x

    def output(self, first: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """Return zeros like the input: tiles may read parts of it."""
        y = torch.zeros(self.x.shape, dtype=self.x.dtype, device=self.x.device)
        return y, self.tiling.inputs(y)

    def sums_of_caller(self) -> list[tuple[GradientSums, Sequence[int]]]:
        """Return the sums, with the numbers of their weights, for the streams of the caller.

        The execution made these wait for the streams that computed.
        """
        for (_, place), sums in self.sums.items():
            spec = self.crew.base if place is None else self.crew.places[place].device
            if spec.compute_stream is not None:
                streams = streams_on(spec.device)
                for tensor in sums.tensors():
                    streams.backend.record_use(tensor, streams.compute)
        return [(sums, self.call.numbers(replica)) for (replica, _), sums in self.sums.items()]


class _ByTiles(Function):
    """The result of a batched operator as a function of its input and of its weights."""

    @staticmethod
    def forward(y: Tensor, call: TrainedCall, x: Tensor, *weights: Tensor) -> Tensor:
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        y, call, x, *_ = inputs
        ctx.mark_dirty(y)  # it becomes the output, and nobody else has it
        ctx.save_for_backward(x)
        ctx.call = call  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with one_call():  # so the weights are looked at once
            ctx.call.check()
            (x,) = ctx.saved_tensors
            # Autograd is to follow the gradients, or many of them are wanted at once.
            if torch.is_grad_enabled() or not writing_is_safe() or _is_batch(gradient):
                found = ctx.call.recorded_gradients(x, gradient)
            else:
                found = ctx.call.gradients(x, gradient, ctx.needs_input_grad[2])
        return None, None, *found


def _is_batch(gradient: Tensor) -> bool:
    """Whether it stands for many, as in ``torch.autograd.grad(..., is_grads_batched=True)``."""
    return "Batched" in str(torch._C._dispatch_keys(gradient))  # the key has no name in Python


def attached(y: Tensor, call: TrainedCall, x: Tensor) -> Tensor:
    """Return ``y``, which a call computed, as what autograd follows from input and weights."""
    result: Tensor = _ByTiles.apply(y, call, x, *call.weights)  # type: ignore[no-untyped-call]
    return result
