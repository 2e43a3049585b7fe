"""Transfers on GPUs; what is the same on simulated devices is in test_transfer_sim."""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_multigpu import RepeatedEvent, ToDevice
from linops_multigpu._devices import _staging, _transfer
from linops_multigpu._devices._stream_pool import streams_on
from linops_multigpu._devices._transfer import Route, issue, send

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
    y.sum().backward()
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


def arrives_before(n_cycles: int, x: Tensor, source: str, destination: str) -> bool:
    """Whether a vector arrives while the GPUs at its ends have something else to do."""
    ends = torch.device(source), torch.device(destination)
    streams = streams_on(ends[0], None, ends[1]), streams_on(ends[1], None, ends[0])
    send(x, *streams)  # after which the way is known and the memory is there
    gpus = [device for device in ends if device.type == "cuda"]
    done: list[Any] = []
    ready = RepeatedEvent(ends[0]).record()
    for gpu in gpus:
        with torch.cuda.device(gpu):
            sleep: Any = torch.cuda._sleep
            sleep(n_cycles)
            done.append(RepeatedEvent(gpu).record())
    transfer = issue(x, *streams, ready=ready)
    assert transfer.arrived is not None
    transfer.arrived.synchronize()
    is_first = not any(event.query() for event in done)
    for event in done:
        event.synchronize()
    transfer.receive()
    transfer.release()
    return is_first


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(("cpu", "cuda:0"), marks=pytest.mark.gpu),
        pytest.param(("cuda:0", "cpu"), marks=pytest.mark.gpu),
        pytest.param(("cuda:0", "cuda:1"), marks=pytest.mark.multigpu),
    ],
)
def test_a_gpu_computes_while_it_copies(way: tuple[str, str]) -> None:
    """However slow a copy is here, there is work that takes longer: unless it waits for that."""
    x = torch.rand(1 << 24, device=way[0])
    assert any(arrives_before(1 << n, x, *way) for n in (28, 30, 32, 34))
