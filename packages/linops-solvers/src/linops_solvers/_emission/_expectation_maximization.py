"""The steps of expectation maximisation, for one set of counts or one subset after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_real, check_vector

from .._shared._checks import check_like
from .._shared._options import Checkpointed
from .._shared._precision import (
    at_least_single,
    in_given_precision,
    out_of_range,
    rounding_of,
)
from .._shared._progress import MovingSteps, Progress
from .._shared._reports import Measured
from .._shared._space import Space
from ._counted import Counted, check_counts

_MOST_BELOW = 16  # how much smaller than y an x below the normal numbers may be


class ExpectationMaximization(MovingSteps):
    """x, and what the operator of the first subset makes of it; ``shown_part`` cuts x."""

    def __init__(
        self,
        owner: str,
        x0: Tensor | None,
        max_num_iters: int,
        tol: float,
        watching: Checkpointed,
        space: Space,
        counted: Callable[[], Sequence[Counted]],
        shown_part: Callable[[Tensor], Tensor] = lambda x: x,
    ) -> None:
        self.tol, self.space, self._part = check_real(owner, "tol", tol, 0), space, shown_part
        goals = {"change": self.tol}
        self.progress = Progress(owner, max_num_iters, watching, goals=goals, space=space)
        self.first, *self._others = self._subsets = counted()
        x = _first(owner, x0, self._subsets)
        for subset in self._others:
            subset.check_explained(*subset.image(x))
        self.x, (self.image, self.floor) = x, self.first.image(x)
        self.first.check_explained(self.image, self.floor)

    def solve(self) -> Tensor:
        """Return x after steps that each use every set of counts in turn."""
        return self.progress.follow(self, ({"change": math.inf}, None))

    def fingerprint(self) -> dict[str, object]:
        """Return what tells this problem from others, for a checkpoint."""
        options = {"tol": self.tol, "subsets": len(self._subsets)}
        vectors = {"x0": (self.space, self.x)}
        for subset in self._subsets:
            pair = subset.pair
            sketched = {"y": subset.y, "background": subset.background + 0 * subset.y}
            vectors |= {name + subset.name: (pair.output, v) for name, v in sketched.items()}
            vectors |= pair.sketch(self.x)
        return {**options, **vectors}

    def step(self) -> Measured:
        """Use every set of counts in turn."""
        first, others, before = self.first, self._others, self.x
        x = first.updated(before, self.image, self.floor)
        for subset in others:
            x = subset.updated(x, *subset.image(x))
        self.x = x
        self.image, self.floor = first.image(x)
        norm_of_change, norm_of_x = first.pair.norms_of([x - before, x])
        goal, noise = self.tol * norm_of_x, rounding_of(first.pair.dtype) * norm_of_x
        reason = self.reason_of_move(norm_of_change, goal, noise)
        return {"change": norm_of_change / (norm_of_x or 1.0)}, reason

    def shown(self) -> dict[str, float]:
        """Return the objective."""
        images = [(self.image, self.floor), *(each.image(self.x) for each in self._others)]
        pairs = zip(self._subsets, images, strict=True)
        return {"objective": sum(subset.objective(*image) for subset, image in pairs)}

    def result(self) -> Tensor:
        """Return a copy of x."""
        first = self.first
        return in_given_precision(first.owner, self._part(self.x), first.pair.dtype)


def _first(owner: str, x0: Tensor | None, subsets: Sequence[Counted]) -> Tensor:
    """Return a copy of x0; by default a constant, with as many expected counts as there are."""
    like = subsets[0].sensitivity
    if x0 is not None:
        check_vector(owner, "x0", x0)
        check_counts(owner, "x0", subsets[0].pair.input, x0)
        check_like(owner, "x0", at_least_single(x0), "the output of the adjoint", like)
        return at_least_single(x0).clone()
    totals = [each.pair.output.sum_of(torch.sum, each.y.detach()) for each in subsets]
    seen = sum(each.total_seen for each in subsets)
    constant, range_of = float(sum(totals)) / seen if seen else 0.0, torch.finfo(like.dtype)
    count = sum(each.pair.output.count(each.y) for each in subsets)
    # x may be as small as y is, and as coarse.
    lowest = min(range_of.tiny, float(sum(totals)) / (_MOST_BELOW * max(count, 1)))
    if constant and not lowest <= constant <= range_of.max:
        raise out_of_range(owner, like.dtype, f"a mean of {constant:.6g}")
    return torch.full_like(like.detach(), constant)
