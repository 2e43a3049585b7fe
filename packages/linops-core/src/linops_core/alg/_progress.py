"""Telling the user of each step: the progress bar and the callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from torch import Tensor
from tqdm.auto import tqdm

from ._step import Callback, Step, StopReason


class Progress:
    """The bar and the callback of one run of a solver; a context, which closes the bar.

    Parameters
    ----------
    solver : str
        Name of the function.
    total : int, optional
        Largest number of steps.
    tqdm_kwargs : mapping, optional
        For the bar; None for no bar.
    callback : function, optional
        Called with each step.
    """

    def __init__(
        self,
        solver: str,
        total: int | None,
        tqdm_kwargs: Mapping[str, object] | None,
        callback: Callback | None,
    ) -> None:
        self.solver = solver
        self.callback = callback
        options: dict[str, Any] = {"desc": solver, "total": total, **(tqdm_kwargs or {})}
        self.bar = None if tqdm_kwargs is None else tqdm(**options)

    @property
    def is_watched(self) -> bool:
        """Whether there is anybody to be told."""
        return self.bar is not None or self.callback is not None

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()

    def tell(
        self,
        iteration: int,
        x: Callable[[], Tensor],
        values: Mapping[str, float],
        reasons: Sequence[StopReason | None] | StopReason | None = None,
    ) -> None:
        """Show the step on the bar and hand it to the callback.

        ``x`` makes a copy of the result so far, and is called only where somebody gets it.
        """
        if self.bar is not None:
            self.bar.set_postfix({k: f"{v:.2e}" for k, v in values.items()}, refresh=False)
            self.bar.update(iteration - self.bar.n)
        if self.callback is not None:
            if reasons is None or isinstance(reasons, StopReason):
                reasons = (reasons,)
            self.callback(Step(self.solver, iteration, x().detach(), values, tuple(reasons)))
