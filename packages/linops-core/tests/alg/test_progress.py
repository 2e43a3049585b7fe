"""The loop that all solvers share."""

import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from linops_core.alg import Record, Step, StopReason
from linops_core.alg._progress import Iterate, Progress, reason_of_both


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
