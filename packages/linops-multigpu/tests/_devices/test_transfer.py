"""What a transfer does with tensors; test_transfer_sim has the order on streams."""

import logging

import pytest
import torch

from linops_multigpu._devices._stream_pool import streams_on
from linops_multigpu._devices._transfer import issue, send

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


def test_a_vector_on_another_device_is_refused() -> None:
    with pytest.raises(ValueError, match="a vector to send must be on cpu, got meta"):
        issue(torch.ones(2, device="meta"), streams_on(CPU), streams_on(CPU))


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
