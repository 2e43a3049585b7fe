"""The loop that all solvers share, and what it tells of each step."""

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from linops_core.alg import Record, Step, StopReason, conjugate_gradients
from linops_core.alg._shared._progress import Iterate, Progress, reason_of_both


def halved(x: Tensor, least: float = 0.0) -> Iterator[Iterate[Tensor]]:
    while True:
        size = float(x.abs().max())
        yield x, {"size": size}, StopReason.CONVERGED if size <= least else None
        x = x / 2


def follow(limit: int, least: float = 0.0) -> tuple[Tensor, list[Step]]:
    seen: list[Step] = []
    progress = Progress("halved", limit, None, seen.append)
    return progress.follow(halved(torch.ones(2), least), torch.clone), seen


def test_steps_are_told_from_the_first_on_and_end_where_there_is_a_reason() -> None:
    x, seen = follow(10, 0.25)
    assert x.tolist() == [0.25, 0.25]
    assert [step.iteration for step in seen] == [1, 2]
    assert [step.reason for step in seen] == [None, StopReason.CONVERGED]
    assert [step.values["size"] for step in seen] == [0.5, 0.25]


def test_the_last_step_in_any_case_says_so() -> None:
    x, seen = follow(3)
    assert x.tolist() == [0.125, 0.125]
    assert seen[-1].reason is StopReason.MAX_ITERATIONS and len(seen) == 3


@pytest.mark.parametrize(
    ("limit", "least", "reason"),
    [(0, 0.0, StopReason.MAX_ITERATIONS), (5, 1.0, StopReason.CONVERGED)],
)
def test_a_start_that_is_the_end_is_told(limit: int, least: float, reason: StopReason) -> None:
    x, seen = follow(limit, least)
    assert x.tolist() == [1, 1]
    assert [(step.iteration, step.reason) for step in seen] == [(0, reason)]


def test_several_problems_go_on_until_the_last_has_stopped() -> None:
    def steps() -> Iterator[Iterate[Tensor]]:
        yield torch.zeros(1), {}, [None, StopReason.CONVERGED]
        yield torch.ones(1), {}, [None, StopReason.CONVERGED]
        yield torch.ones(1), {}, [StopReason.STALLED, StopReason.CONVERGED]

    record = Record()
    Progress("solver", 9, None, record).follow(steps(), torch.clone)
    assert (record.iterations, record.reason) == (2, StopReason.STALLED)


def test_no_state_is_kept_in_the_next_step() -> None:
    def steps() -> Iterator[Iterate[Tensor]]:
        x = torch.ones(1)
        while True:
            seen = weakref.ref(x)
            yield x, {}, None
            del x
            assert seen() is None
            x = torch.ones(1)

    Progress("solver", 3).follow(steps(), torch.clone)


@pytest.mark.parametrize(
    ("found", "goals", "noises", "reason"),
    [
        ((1.0, 1.0), (2.0, 2.0), (0.1, 0.1), StopReason.CONVERGED),
        ((1.0, 3.0), (2.0, 2.0), (0.1, 0.1), None),
        ((1.0, 1.0), (2.0, 2.0), (0.1, 1.5), StopReason.ROUNDING),
        ((1.0, 1.0), (1.1, 2.0), (0.5, 0.1), None),
    ],
)
def test_two_lengths_are_proved_or_end_at_their_rounding(
    found: tuple[float, float],
    goals: tuple[float, float],
    noises: tuple[float, float],
    reason: StopReason | None,
) -> None:
    assert reason_of_both(found, goals, noises) is reason


def step(*reasons: StopReason | None) -> Step:
    return Step("solver", 3, torch.zeros(1), {"residual": 0.5}, reasons)


def test_the_reason_of_several_problems_is_the_worst() -> None:
    assert step(StopReason.CONVERGED, StopReason.STALLED).reason is StopReason.STALLED
    assert step(StopReason.MAX_ITERATIONS, StopReason.ROUNDING).reason is StopReason.MAX_ITERATIONS
    assert step(StopReason.CONVERGED, None).reason is None
    assert step().reason is None


def test_a_record_keeps_the_values_of_all_steps_and_the_last_reason() -> None:
    record = Record()
    assert record.reason is None and str(record) == "no step was done"
    record(step(None))
    assert str(record) == "solver: not yet stopped after 3 steps (residual 0.5)"
    record(step(StopReason.STALLED))
    assert record.values == {"residual": [0.5, 0.5]}
    assert (record.iterations, record.reasons) == (3, (StopReason.STALLED,))
    assert str(record).startswith("solver: a step changed no more than its tolerance after 3")


def test_the_x_of_a_step_is_a_copy_without_gradient() -> None:
    seen: list[Step] = []
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    x = conjugate_gradients(lambda x: weight * x, torch.ones(2), gtol=1e-6, callback=seen.append)
    kept = [one.x.clone() for one in seen]
    x.detach().zero_()
    assert x.requires_grad and not any(one.x.requires_grad for one in seen)
    assert all(torch.equal(one.x, before) for one, before in zip(seen, kept, strict=True))
    assert kept[-1].tolist() == pytest.approx([1.0, 0.5])
