"""A call that autograd follows, and its backward pass, in which each part is run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, FunctionCtx

from linops_core import NamedLinop, writing_is_safe

from .._execution import Work
from .._tiles import Tiles
from ._gradient_sums import GradientSums
from ._hooks import has_hooks, with_hooks_of
from ._weight_parts import WeightParts, weight_of
from ._weights import read_by, reading

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
    run : function
        The executor.

    Attributes
    ----------
    weights : list of Tensor
        Those that autograd follows.
    linops : list of NamedLinop
        The operator of each part, on weights without history.
    """

    def __init__(self, signature: str, tiles: Tiles, run: Run) -> None:
        self.signature, self.tiles, self.run = signature, tiles, run
        self.weights: list[Tensor] = []
        self.parts = WeightParts()
        self.linops: list[NamedLinop] = []
        self._leaves: list[Tensor] = []  # of each part of a weight
        self._numbers: list[list[int]] = []  # of each part of the table, the parts of weights
        self._read = [self._source_of(number) for number in range(len(tiles.parts))]
        for number, (source, tensors, copies) in enumerate(self._read):
            pairs = zip(tensors, copies, strict=True)
            found = [self._number_of(tensor, copy) for tensor, copy in pairs]
            self._numbers.append(sorted({n for n in found if n is not None}))
            self.linops.append(
                reading(
                    source,
                    [
                        copy if n is None else self._leaves[n]
                        for n, copy in zip(found, copies, strict=True)
                    ],
                )
            )
            with_hooks_of(self.linops[-1], tiles.parts[number].linop)
        self._versions = self._versions_now()

    def _source_of(self, number: int) -> tuple[NamedLinop, list[Tensor], list[Tensor]]:
        """Return the operator of a part, what it reads, and where the part reads it."""
        linop = self.tiles.parts[number].linop
        tensors = read_by(linop)
        return linop, tensors, tensors

    def _number_of(self, tensor: Tensor, copy: Tensor) -> int | None:
        """Return the number of the part of a weight that is read, None where it is not followed."""
        if not tensor.requires_grad:
            return None
        weight, n_weights = weight_of(tensor), len(self.parts.roots)
        if weight is None:
            number = self.parts.add_alone(tensor, copy)
        else:
            number = self.parts.add(weight, tensor, copy)
        if len(self.parts.roots) > n_weights:
            self.weights.append(tensor if weight is None else weight)
        if number == len(self._leaves):
            self._leaves.append(copy.detach())
        return number

    def _versions_now(self) -> list[int]:
        """Return how often each tensor that is read was written to."""
        return [
            -1 if copy.is_inference() else copy._version
            for _, _, copies in self._read
            for copy in copies
        ]

    def leaves(self, number: int) -> dict[int, Tensor]:
        """Return, by their numbers, the parts of weights that a part reads."""
        return {n: self._leaves[n].requires_grad_() for n in self._numbers[number]}

    def check(self) -> None:
        """Refuse weights that were written to since the forward pass."""
        if self._versions_now() != self._versions:
            raise RuntimeError(
                f"{self.signature}: weights must stay as they are until the gradient was "
                "computed, got some that were written to, replaced or moved"
            )

    def gradients(self, x: Tensor, gradient: Tensor, of_input: bool) -> list[Tensor | None]:
        """Return the gradients to the input and to the weights, computed part by part."""
        work = Backward(self, x.detach(), gradient.detach(), of_input)
        of_x = self.run(work)
        found = self.returned(work)
        return [of_x, *(found.get(number) for number in range(len(self.weights)))]

    def returned(self, work: Backward) -> dict[int, Tensor]:
        """Return the gradients of the weights, by their numbers."""
        return work.sums.shaped()

    def recorded_linops(self) -> list[NamedLinop]:
        """Return the operators of the parts, from whose weights autograd reaches ours."""
        return [reading(source, tensors) for source, tensors, _ in self._read]

    def recorded_gradients(self, x: Tensor, gradient: Tensor) -> list[Tensor | None]:
        """Return the gradients by torch's own graph, so that autograd follows them."""
        with torch.enable_grad():
            views = self.tiles.input.views(x)
            linops = self.recorded_linops()
            results = [linop(view) for linop, view in zip(linops, views, strict=True)]
        slices = self.tiles.output.views(gradient)
        pairs = [
            (result, like(of_result, result))
            for result, of_result in zip(results, slices, strict=True)
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
        self.of_input, self.layout = of_input, recording.tiles.input
        self.sums = GradientSums(recording.parts)

    def operands(self) -> Sequence[Sequence[Tensor]]:
        """Return the gradient to what each part wrote, and what it read."""
        tiles = self.recording.tiles
        return [tiles.output.views(self.gradient), tiles.input.views(self.x)]

    def compute(self, number: int, operands: Sequence[Tensor]) -> Tensor | None:
        """Return the gradient to what a part read; add up those to its weights."""
        gradient, x = operands
        leaves = self.recording.leaves(number)
        if not leaves and not self.of_input:
            return None
        part = self.recording.tiles.parts[number].linop
        if not leaves and not has_hooks(part):
            try:
                return like(part.H(gradient), x)
            except NotImplementedError:
                pass  # autograd finds the adjoint that the operator does not have
        with torch.enable_grad():
            x = x.detach().requires_grad_(self.of_input)
            y = self.recording.linops[number](x)
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
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        y, recording, x, *weights = inputs
        ctx.mark_dirty(y)  # it becomes the output, and nobody else has it
        ctx.save_for_backward(x, *weights)
        ctx.recording = recording  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, *_ = ctx.saved_tensors
        ctx.recording.check()
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
