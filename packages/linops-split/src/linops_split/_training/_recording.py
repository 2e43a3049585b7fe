"""A call that autograd follows, and its backward pass, which runs each part again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from linops_core.siblings import writing_is_safe

from .._execution import Work
from .._private_torch import is_batch
from .._tiles import Tiles
from ._gradient_sums import GradientSums
from ._hooks import has_hooks
from ._part_copies import PartCopies


@dataclass(frozen=True)
class Recording:
    """One call of a table that autograd follows, with everything for its backward pass.

    The parts were called on weights without history. The backward pass calls each part again under
    autograd, so that it needs the memory of only one part at a time.
    """

    signature: str
    """The name of the operator in errors."""
    copies: PartCopies
    """The operators that were called."""
    run: Callable[[Work], Tensor | None]
    """The executor."""
    again: Callable[[Tensor, Tiles], Tensor]
    """Computes the result of a table for x under torch's own graph."""

    def gradients(self, x: Tensor, gradient: Tensor, of_input: bool) -> list[Tensor | None]:
        """Return the gradients to the input and to the weights, computed part by part."""
        work = Backward(self.copies, x.detach(), gradient.detach(), of_input)
        of_x = self.run(work)
        by_weight = self.copies.gradients_at_weights(work.sums.values())
        n_weights = len(self.copies.weight_views.weights)
        return [of_x, *(by_weight.get(number) for number in range(n_weights))]

    def recorded_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor | None]:
        """Return the gradients under torch's own graph, so that autograd follows them.

        They are partial derivatives: x and the weights may depend on each other, and autograd sums
        over these paths itself. So the graph starts at views of x and of the weights.
        """
        with torch.enable_grad():
            tensors = [tensor.view_as(tensor) for tensor in (x, *self.copies.weight_views.weights)]
            y = self.again(tensors[0], self.copies.recorded(tensors[1:]))
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        gradients = iter(
            torch.autograd.grad(
                y, wanted, gradient, create_graph=torch.is_grad_enabled(), allow_unused=True
            )
        )
        return [next(gradients) if tensor.requires_grad else None for tensor in tensors]


class Backward(Work):
    """Gradients to the input, if wanted, and to weights; `sums` has the sums by device.

    With common sums, parts of two devices would add to them in no fixed order.
    """

    def __init__(self, copies: PartCopies, x: Tensor, gradient: Tensor, of_input: bool) -> None:
        tiles = copies.tiles
        super().__init__(
            tiles, [gradient, x], [tiles.output, tiles.input], tiles.input, collects=of_input
        )
        self.copies = copies
        self.sums: dict[Hashable, GradientSums] = {}
        # Operators no longer read weights that were replaced, as by torch.func.functional_call.
        self._are_same = not copies.were_replaced()

    def is_needed(self, number: int) -> bool:
        """Whether a gradient is wanted to the input or to a weight of the part."""
        return self.collects or self.copies.is_followed(number)

    def n_read(self, number: int) -> int:
        """Return 1 if the adjoint of the part gives the gradient, for which x is not needed."""
        return 1 if self._is_adjoint(number) else 2

    def _is_adjoint(self, number: int) -> bool:
        if self.copies.is_followed(number) or not self._are_same:
            return False
        return not has_hooks(self.tiles.parts[number].linop)

    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor | None:
        """Return the gradient to the slice that a part read; sum the gradients to its weights."""
        gradient, *read = operands
        whole = self.tensors[1]
        if not self.is_needed(number):
            return None
        part = self.tiles.parts[number]
        if self._is_adjoint(number):
            try:
                return _like(part.linop.H(gradient), whole)
            except NotImplementedError:
                pass  # the operator has no adjoint, so autograd computes the gradient
        linop, leaves = self.copies.trained(number)
        if read:
            (x,) = read
        else:  # the derivative does not depend on it
            x = torch.zeros_like(self.reads[1].views(whole)[number], device=gradient.device)
        with torch.enable_grad():
            x = x.detach().requires_grad_(self.collects)
            y = linop(x)
        wanted = [x, *leaves.values()] if self.collects else [*leaves.values()]
        gradients: Sequence[Tensor | None] = [None] * len(wanted)
        if y.requires_grad:
            gradients = torch.autograd.grad(y, wanted, _like(gradient, y), allow_unused=True)
        del y
        of_x = None
        if self.collects:
            of_x, *gradients = gradients
            of_x = torch.zeros_like(x) if of_x is None else of_x
        for n, of_weight in zip(leaves, gradients, strict=True):
            if of_weight is not None:
                if part.devices not in self.sums:
                    self.sums[part.devices] = self.copies.new_sums()
                self.sums[part.devices].add(n, of_weight)
        return of_x


def _like(gradient: Tensor, tensor: Tensor) -> Tensor:
    """Return a gradient in the dtype of its tensor."""
    if gradient.is_complex() and not tensor.is_complex():
        gradient = gradient.real
    return gradient.to(tensor.dtype)


class _Recorded(Function):
    """The result of a table as a function of its input and of its weights."""

    @staticmethod
    def forward(y: Tensor, recording: Recording, x: Tensor, *weights: Tensor) -> Tensor:
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        y, recording, x, *weights = inputs
        ctx.mark_dirty(y)  # it becomes the output, and has no other user
        ctx.save_for_backward(x, *weights)
        ctx.recording = recording

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        recording: Recording = ctx.recording
        if recording.copies.have_changed():
            raise RuntimeError(
                f"{recording.signature}: weights must not change before the gradient is computed, "
                "got some that were written to or moved"
            )
        x, *_ = ctx.saved_tensors
        # Autograd follows the gradients, or a batch of gradients is wanted.
        if torch.is_grad_enabled() or not writing_is_safe() or is_batch(gradient):
            gradients = recording.recorded_gradients(x, gradient)
        else:
            gradients = recording.gradients(x, gradient, ctx.needs_input_grad[2])
        return None, None, *gradients


def recorded(y: Tensor, recording: Recording, x: Tensor) -> Tensor:
    """Return ``y``, which was computed for ``x``, as a tensor that autograd follows."""
    weights = recording.copies.weight_views.weights
    result: Tensor = _Recorded.apply(y, recording, x, *weights)  # type: ignore[no-untyped-call]
    return result


def is_autocast(devices: Sequence[torch.device]) -> bool:
    """Whether autocast is on for one of the devices; in a backward pass it is off."""
    types = {device.type for device in devices}
    return any(
        torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind) for kind in types
    )


def random_states(devices: Sequence[torch.device]) -> list[Tensor]:
    """Return the states of torch's generators, to find parts that draw random numbers."""
    states = [torch.get_rng_state()]
    for device in dict.fromkeys(devices):
        state_of = getattr(getattr(torch, device.type, None), "get_rng_state", None)
        if device.type != "cpu" and state_of is not None:
            states.append(state_of(device))
    return states
