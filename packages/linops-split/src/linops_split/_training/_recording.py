"""A call that autograd follows, and its backward pass, in which each part is run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from linops_core import writing_is_safe

from .._execution import Work
from .._tiles import Tiles
from ._gradient_sums import GradientSums
from ._hooks import has_hooks
from ._part_copies import PartCopies

Run = Callable[[Work], "Tensor | None"]
"""An executor."""


class Recording:
    """One call of a table that autograd follows, and what its backward pass needs.

    The parts are called on weights without history. In the backward pass each is called again
    under autograd, so that it takes the memory of one part at a time.

    Parameters
    ----------
    signature : str
        Names the operator in errors.
    tiles : Tiles
    copies : PartCopies
        What is called.
    run : function
        The executor.
    again : function
        Returns A x by torch's own graph.
    """

    def __init__(
        self,
        signature: str,
        tiles: Tiles,
        copies: PartCopies,
        run: Run,
        again: Callable[[Tensor], Tensor],
    ) -> None:
        self.signature, self.tiles, self.copies = signature, tiles, copies
        self.run, self.again = run, again

    @property
    def weights(self) -> list[Tensor]:
        """The weights that autograd follows."""
        return self.copies.weights

    def check(self) -> None:
        """Refuse weights that were written to since the forward pass."""
        if self.copies.were_written():
            raise RuntimeError(
                f"{self.signature}: weights must stay as they are until the gradient was "
                "computed, got some that were written to"
            )

    def gradients(self, x: Tensor, gradient: Tensor, of_input: bool) -> list[Tensor | None]:
        """Return the gradients to the input and to the weights, computed part by part."""
        work = self.backward(x.detach(), gradient.detach(), of_input)
        of_x = self.run(work)
        found = self.returned(work)
        return [of_x, *(found.get(number) for number in range(len(self.weights)))]

    def backward(self, x: Tensor, gradient: Tensor, of_input: bool) -> Backward:
        """Return what is computed for the gradients."""
        return Backward(self, x, gradient, of_input)

    def returned(self, work: Backward) -> dict[int, Tensor]:
        """Return the gradients of the weights, by their numbers."""
        return work.sums.shaped()

    def recorded_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor | None]:
        """Return the gradients by torch's own graph, so that autograd follows them."""
        with torch.enable_grad():
            y = self.again(x)
        wanted = [tensor for tensor in (x, *self.weights) if tensor.requires_grad]
        found = iter(
            torch.autograd.grad(
                y, wanted, gradient, create_graph=torch.is_grad_enabled(), allow_unused=True
            )
        )
        return [next(found) if tensor.requires_grad else None for tensor in (x, *self.weights)]


class Backward(Work):
    """Gradients to the input, which are put together, and to weights, which are summed.

    Parameters
    ----------
    recording : Recording
    x, gradient : Tensor
        The input, and the gradient to the output.
    of_input : bool
        Whether the gradient to the input is wanted.
    """

    def __init__(self, recording: Recording, x: Tensor, gradient: Tensor, of_input: bool) -> None:
        self.recording, self.x, self.gradient = recording, x, gradient
        tiles = recording.tiles
        self.reads, self.layout = [tiles.output, tiles.input], tiles.input
        self.of_input = self.collects = of_input
        # What was replaced, as by torch.func.functional_call, the operators do not read any more.
        self._is_current = recording.copies.are_current()
        self.sums = GradientSums(recording.copies.parts)

    def operands(self) -> Sequence[Sequence[Tensor]]:
        """Return the gradient to what each part wrote, and what it read."""
        tiles = self.recording.tiles
        return [tiles.output.views(self.gradient), tiles.input.views(self.x)]

    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor | None:
        """Return the gradient to what a part read; add up those to its weights."""
        gradient, x = operands
        copies = self.recording.copies
        is_followed = copies.is_followed(number)
        if not is_followed and not self.of_input:
            return None
        part = self.recording.tiles.parts[number].linop
        if not is_followed and self._is_current and not has_hooks(part):
            try:
                return like(part.H(gradient), x)
            except NotImplementedError:
                pass  # autograd finds the adjoint that the operator does not have
        linop, leaves = copies.trained(number)
        with torch.enable_grad():
            x = x.detach().requires_grad_(self.of_input)
            y = linop(x)
        wanted = [x, *leaves.values()] if self.of_input else [*leaves.values()]
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if y.requires_grad:
            found = torch.autograd.grad(y, wanted, like(gradient, y), allow_unused=True)
        del y
        of_x = None
        if self.of_input:
            of_x, *found = found
            of_x = torch.zeros_like(operands[1]) if of_x is None else of_x
        for of, of_weight in zip(leaves, found, strict=True):
            if of_weight is not None:
                self.add(number, of, of_weight, operands)
        return of_x

    def add(self, number: int, of: int, gradient: Tensor, operands: Sequence[Tensor]) -> None:
        """Add the gradient of a part of a weight, as a part of the table has found it."""
        self.sums.add(of, gradient)

    def signature(self, number: int) -> str:
        """Return that of the part's operator."""
        return self.recording.tiles.parts[number].linop.signature


def like(gradient: Tensor, tensor: Tensor) -> Tensor:
    """Return a gradient in the dtype of the tensor that it is of."""
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
        ctx.mark_dirty(y)  # it becomes the output, and nobody else has it
        ctx.save_for_backward(x, *weights)
        ctx.recording = recording

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ctx.recording.check()
        x, *_ = ctx.saved_tensors
        # Autograd is to follow the gradients, or many of them are wanted at once.
        if torch.is_grad_enabled() or not writing_is_safe() or _is_batch(gradient):
            found = ctx.recording.recorded_gradients(x, gradient)
        else:
            found = ctx.recording.gradients(x, gradient, ctx.needs_input_grad[2])
        return None, None, *found


def _is_batch(gradient: Tensor) -> bool:
    """Whether it stands for many, as in ``torch.autograd.grad(..., is_grads_batched=True)``."""
    return "Batched" in str(torch._C._dispatch_keys(gradient))  # the key has no name in Python


def recorded(y: Tensor, recording: Recording, x: Tensor) -> Tensor:
    """Return ``y``, which was computed for ``x``, as what autograd follows."""
    result: Tensor = _Recorded.apply(y, recording, x, *recording.weights)  # type: ignore[no-untyped-call]
    return result
