"""Transfers on GPUs; what is the same on simulated devices is in test_transfer_sim."""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch

from linops_multigpu import RepeatedEvent, ToDevice, _staging, _transfer
from linops_multigpu._stream_pool import streams_on
from linops_multigpu._transfer import issue, send
from linops_multigpu._transfer_route import Route

N = 1 << 20


def there_and_back(*devices: str) -> None:
    """Send vectors around, changing and dropping them as soon as that is allowed."""
    ring = [torch.device(name) for name in (*devices, devices[0])]
    for k in range(30):
        x = torch.full((N,), float(k), device=ring[0])
        for source, destination in pairwise(ring):
            here = streams_on(source, None, destination)
            y = send(x, here, streams_on(destination, None, source))
            x.fill_(-1)
            del x
            torch.full((N,), -2.0, device=source)
            x = y + 1
            y.fill_(-3)
        assert (x == k + len(devices)).all()


@pytest.mark.gpu
def test_vectors_go_between_a_host_and_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    there_and_back("cpu", "cuda:0")
    monkeypatch.setattr(_staging, "PIECE_NBYTES", 1 << 16)
    there_and_back("cuda:0", "cpu")


@pytest.mark.gpu
def test_a_pinned_source_may_change_at_once() -> None:
    there = ToDevice("cpu", "cuda:0")
    x = torch.ones(N, pin_memory=True)
    for k in range(30):
        x.fill_(k)
        y = there(x)
        x.fill_(-1)
        assert (y == k).all()


@pytest.mark.gpu
def test_a_gradient_is_there_on_the_stream_that_is_current() -> None:
    there = ToDevice("cpu", "cuda:0")
    x = torch.rand(N, requires_grad=True)
    with torch.Stream("cuda:0"):
        y = there.H(there(x).mul(2)).sin()
    y.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(x.grad, 2 * (2 * x.detach()).cos())


@pytest.mark.gpu
def test_threads_share_the_streams_and_the_buffers() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            there_and_back("cpu", "cuda:0")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def by_way_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transfer, "route_between", lambda *_: Route.STAGED)
    monkeypatch.setattr(_staging, "PIECE_NBYTES", 1 << 20)


@pytest.mark.multigpu
@pytest.mark.parametrize("prepare", [lambda _: None, by_way_of_the_host])
def test_vectors_go_between_gpus(
    prepare: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(monkeypatch)
    there_and_back("cuda:0", "cuda:1")


@pytest.mark.multigpu
def test_a_gpu_computes_while_it_copies() -> None:
    here, there = torch.device("cuda:0"), torch.device("cuda:1")
    x = torch.rand(1 << 26, device=here)
    streams = streams_on(here, None, there), streams_on(there, None, here)
    send(x, *streams)  # after which the way is known
    torch.accelerator.synchronize()
    ready, done = RepeatedEvent(here).record(), RepeatedEvent(here)
    sleep: Any = torch.cuda._sleep
    sleep(1 << 30)  # about a second of work for the stream that computes
    worked: Any = done.record()
    transfer = issue(x, *streams, ready=ready)
    assert transfer.arrived is not None
    transfer.arrived.synchronize()
    assert not worked.query()
    transfer.receive()
    transfer.release()
