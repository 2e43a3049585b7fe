"""Loops that memory planning shortens."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_core.siblings import choosing_steps, steps_that_differ


def test_only_loops_without_data_are_shortened_while_steps_are_chosen() -> None:
    with FakeTensorMode():
        fake = torch.empty(1)
    with choosing_steps(lambda steps, key: [step for step in steps if key(step)]):
        assert [*steps_that_differ(fake, range(4), lambda step: step % 2)] == [1, 3]
        assert [*steps_that_differ(torch.empty(1), range(3), bool)] == [0, 1, 2]
    assert [*steps_that_differ(fake, range(3), bool)] == [0, 1, 2]
