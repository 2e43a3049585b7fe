import pytest
import torch

from linops_core.alg import Record, Step, StopReason, conjugate_gradients


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
