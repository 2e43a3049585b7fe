"""The steps of expectation maximisation, for one set of counts or one subset after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from linops_core.siblings import check_vector

from .._shared._checkpoint import probed
from .._shared._checks import check_like, checked_number
from .._shared._precision import in_given_precision, rounding_of, widened
from .._shared._products import scaled_sum
from .._shared._progress import Checkpointed, Measured, Progress, reason_of
from .._shared._space import Space, added
from ._counted import Counted, check_counts


def expectation_maximization(
    owner: str,
    x0: Tensor | None,
    max_num_iters: int,
    tol: float,
    watching: Checkpointed,
    space: Space,
    counted: Callable[[], Sequence[Counted]],
    shown: Callable[[Tensor], Tensor] = torch.clone,
) -> Tensor:
    """Return x after steps that each use every set of counts in turn; ``shown`` copies it."""
    tol = checked_number(owner, "tol", tol)
    progress = Progress(owner, max_num_iters, watching, goals={"change": tol}, space=space)
    subsets = counted()
    first, *others = subsets
    dtype = first.pair.dtype
    precision, rounding = torch.finfo(dtype).eps, rounding_of(dtype)

    def start() -> _State:
        x = _first(owner, x0, subsets)
        for subset in others:
            subset.check_explained(*subset.image(x))
        image, floor = first.image(x)
        first.check_explained(image, floor)
        state = _State(x, image, floor)
        progress.resume({"tol": tol, "subsets": len(subsets)}, lambda: known(x), state=state)
        return state

    def known(x: Tensor) -> dict[str, tuple[Space, Tensor]]:
        found = {"x0": (space, x)}
        for subset in subsets:
            own = subset.pair
            sketched = {"y": subset.y, "background": subset.background + 0 * subset.y}
            found |= {name + subset.name: (own.output, v) for name, v in sketched.items()}
            found |= probed(own, x)
        return found

    state = start()
    spare: Tensor | None = None

    def do_step() -> Measured:
        nonlocal spare
        before = state.x
        x = first.updated(before, state.image, state.floor, into=spare)
        for subset in others:
            x = subset.updated(x, *subset.image(x), into=x)
        objective = 0.0
        if progress.is_watched:
            objective = sum(subset.objective(*subset.image(x)) for subset in others)
        state.x = x
        state.image, state.floor = first.image(x)
        spare = scaled_sum(x, -1, before, before)
        length, size = first.pair.magnitudes([spare, x])
        reason = None
        if length <= max(tol, precision) * size:
            reason = reason_of(length, tol * size, rounding * size)
        values = {"change": length / (size or 1.0)}
        if progress.is_watched:
            values["objective"] = objective + first.objective(state.image, state.floor)
        return values, reason

    def result() -> Tensor:
        return in_given_precision(owner, shown(state.x), dtype)

    return progress.follow(do_step, result, ({"change": math.inf}, None))


@dataclass
class _State:
    """The values that a step needs from the step before."""

    x: Tensor
    image: Tensor
    floor: float


def _first(owner: str, x0: Tensor | None, subsets: Sequence[Counted]) -> Tensor:
    """Return a copy of x0; by default a constant, with as many expected counts as there are."""
    like = subsets[0].sensitivity
    if x0 is not None:
        check_vector(owner, "x0", x0)
        check_counts(owner, "x0", subsets[0].pair.input, x0)
        check_like(owner, "x0", widened(x0), "the output of the adjoint", like)
        return widened(x0).clone()
    totals = [added(each.pair.output.terms(torch.sum, each.y.detach()))[0] for each in subsets]
    seen = sum(each.total_seen for each in subsets)
    return torch.full_like(like.detach(), float(sum(totals)) / seen if seen else 0.0)
