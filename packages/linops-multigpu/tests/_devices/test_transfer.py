"""What a transfer does with tensors; test_transfer_sim has the order on streams."""

import logging
from typing import Any

import pytest
import torch

from linops_multigpu._devices._stream_pool import streams_on
from linops_multigpu._devices._transfer import issue, send
from linops_multigpu.testing import simulated

CPU, META = torch.device("cpu"), torch.device("meta")


def test_one_device_is_sent_nothing() -> None:
    x = torch.rand(3)
    y = send(x, streams_on(CPU), streams_on(CPU))
    assert y.data_ptr() == x.data_ptr() and torch.equal(x, y)


def test_shapes_go_where_there_are_no_values() -> None:
    y = send(torch.rand(3, 4).T, streams_on(CPU), streams_on(META))
    assert y.device == META and y.shape == (4, 3)


def test_autograd_does_not_follow() -> None:
    x = torch.rand(3, requires_grad=True)
    assert not send(x, streams_on(CPU), streams_on(CPU)).requires_grad


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.ones(2, device="meta")}, "a vector to send must be on cpu, got meta"),
        ({"into": torch.ones(2)}, "must be on another device with streams, got cpu for one on cpu"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    here = streams_on(CPU)
    with pytest.raises(ValueError, match=message):
        issue(**{"x": torch.ones(2), "source": here, "destination": here, **arguments})


@pytest.mark.parametrize(
    ("into", "message"),
    [
        (torch.ones(3), r"must be torch.float32 \(2,\) on sim:0, got torch.float32 \(3,\) on cpu"),
        (torch.ones(2).double(), r"must be torch.float32 .*, got torch.float64"),
        (torch.ones(2), r"must be .* \(2,\) on sim:0, got .* \(2,\) on cpu"),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(into: torch.Tensor, message: str) -> None:
    with simulated(1) as world, pytest.raises(ValueError, match=message):
        issue(torch.ones(2), streams_on(CPU), streams_on(world.devices[0]), into=into)


def test_transfers_are_logged_if_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.rand(3, dtype=torch.float64)
    with caplog.at_level(logging.INFO):
        send(x, streams_on(CPU), streams_on(META))
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "linops_multigpu.transfers"):
        send(x, streams_on(CPU), streams_on(META))
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("linops_multigpu.transfers", "cpu -> meta: 24 bytes, by torch")
    ]
