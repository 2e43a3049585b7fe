"""The loop of every solver: it counts the steps, tells of them, and ends them.

A solver is a function that checks its options (`_checks`, `_precision`), and a generator with its
mathematics, which yields an :data:`Iterate` at the start and after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias, TypeVar

from torch import Tensor
from tqdm.auto import tqdm

from ._step import Callback, Step, StopReason

State = TypeVar("State")
Reasons: TypeAlias = Sequence[StopReason | None] | StopReason | None
Iterate: TypeAlias = tuple[State, Mapping[str, float], Reasons]
"""Where a solver stands after a step: its state, what it measured, and why to stop, if at all."""


@dataclass(frozen=True)
class Progress:
    """The largest number of steps of a solver, and who is told of them."""

    solver: str
    limit: int
    tqdm_kwargs: Mapping[str, object] | None = None
    """For the bar; None for no bar."""
    callback: Callback | None = None

    @property
    def is_watched(self) -> bool:
        """Whether anybody is told of the steps."""
        return self.tqdm_kwargs is not None or self.callback is not None

    def follow(self, steps: Iterator[Iterate[State]], shown: Callable[[State], Tensor]) -> State:
        """Do the steps until there is a reason to stop, and return the last state.

        The first of ``steps`` is the start, told of only where nothing else is done. ``shown``
        makes a copy of the result so far for the callback.
        """
        options: dict[str, Any] = {"desc": self.solver, "total": self.limit}
        bar = None if self.tqdm_kwargs is None else tqdm(**(options | dict(self.tqdm_kwargs)))
        with bar or nullcontext():
            for iteration in count():
                state, values, reasons = next(steps)
                each = [reasons] if isinstance(reasons, StopReason | None) else [*reasons]
                if iteration == self.limit:
                    each = [reason or StopReason.MAX_ITERATIONS for reason in each]
                is_done = None not in each
                if bar is not None and (iteration or is_done):
                    bar.set_postfix({k: f"{v:.2e}" for k, v in values.items()}, refresh=False)
                    bar.update(iteration - bar.n)
                if self.callback is not None and (iteration or is_done):
                    x = shown(state).detach()
                    self.callback(Step(self.solver, iteration, x, values, tuple(each)))
                    del x
                if is_done:
                    return state
                del state  # or its memory would be there in the next step as well
        raise AssertionError("a count has no end")


def reason_of_both(
    found: tuple[float, float], goals: tuple[float, float], noises: tuple[float, float]
) -> StopReason | None:
    """Return why to stop where two lengths, each known to its noise, are at their goals."""
    triples = list(zip(found, goals, noises, strict=True))
    if not all(length <= goal for length, goal, _ in triples):
        return None
    if all(length + noise <= goal for length, goal, noise in triples):
        return StopReason.CONVERGED
    # Some can fall no further, and the others are proved.
    if all(length + noise <= goal or length <= noise for length, goal, noise in triples):
        return StopReason.ROUNDING
    return None
