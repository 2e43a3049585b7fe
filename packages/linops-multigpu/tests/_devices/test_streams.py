"""The streams of torch's accelerator, as far as they can be seen without one, and of a host."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_multigpu._devices import _streams
from linops_multigpu._devices._streams import (
    HostBackend,
    _AcceleratorBackend,
    as_stream,
    backend_of,
    register_backend,
)

CPU, ONE, OTHER = map(torch.device, ("cpu", "cuda:0", "cuda:1"))


class PaperAccelerator:
    """What is used of torch.accelerator: a current device, and a current stream of each."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[torch.device, object] = {ONE: "default 0", OTHER: "default 1"}

    def current_accelerator(self, check_available: bool = False) -> torch.device:
        return torch.device("cuda")

    def current_device_index(self) -> int:
        return self.device

    def set_device_index(self, index: int) -> None:
        self.device = index

    def current_stream(self, device: torch.device) -> object:
        return self.streams[device]

    def set_stream(self, stream: Any) -> None:
        if isinstance(stream, str):  # a default stream, by its name
            device = torch.device(f"cuda:{stream[-1]}")
        else:
            device = stream.device
        # As torch does, which makes the device the current one.
        self.streams[device], self.device = stream, device.index


def stream_of(device: torch.device) -> Any:
    return SimpleNamespace(device=device)


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> PaperAccelerator:
    paper = PaperAccelerator()
    monkeypatch.setattr(torch, "accelerator", paper)
    monkeypatch.setattr(_streams, "_BACKENDS", {})
    return paper


def test_a_stream_is_current_in_a_block_and_after_it_all_is_as_before(
    accelerator: PaperAccelerator,
) -> None:
    backend = _AcceleratorBackend()
    mine, far = stream_of(ONE), stream_of(OTHER)
    with pytest.raises(KeyError), backend.using(far):
        with backend.using(mine):
            assert accelerator.streams == {ONE: mine, OTHER: far} and accelerator.device == 0
            with backend.using(mine):
                assert backend.current_stream(ONE) is mine
            assert accelerator.streams == {ONE: mine, OTHER: far}
        assert accelerator.streams == {ONE: "default 0", OTHER: far} and accelerator.device == 1
        raise KeyError
    assert accelerator.streams == {ONE: "default 0", OTHER: "default 1"}
    assert accelerator.device == 0


def test_the_accelerator_that_is_there_is_used_and_others_are_hosts(
    accelerator: PaperAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_of(ONE)
    assert isinstance(backend, _AcceleratorBackend) and backend_of(OTHER) is backend
    for name in ("cpu", "meta", "mps", "xpu:0"):
        assert isinstance(backend_of(torch.device(name)), HostBackend)
    mine = HostBackend()
    register_backend("xpu", mine)
    assert backend_of(torch.device("xpu:0")) is mine


def test_an_accelerator_that_is_not_there_is_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_streams, "_BACKENDS", {})
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: None)
    with FakeTensorMode():
        assert isinstance(backend_of(ONE), HostBackend)


def test_only_cuda_is_asked_whether_it_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda *_: False)
    backend = _AcceleratorBackend()
    assert not backend.can_reach(ONE, OTHER)
    assert not backend.can_reach(ONE, CPU)
    assert backend.can_reach(torch.device("xpu:0"), torch.device("xpu:1"))


def test_a_host_has_done_what_it_was_asked() -> None:
    backend = HostBackend()
    stream, event = backend.current_stream(CPU), backend.new_event(CPU)
    assert stream == backend.new_stream(CPU) and stream.device == CPU
    event.record(stream)
    stream.wait_event(event)
    stream.synchronize()
    backend.record_use(torch.ones(1), stream)
    with backend.using(stream):
        assert backend.current_stream(CPU) == stream
    assert backend.can_reach(CPU, CPU) and not backend.can_reach(CPU, ONE)


def test_a_host_waits_for_the_events_of_devices() -> None:
    waited = []
    event: Any = SimpleNamespace(synchronize=lambda: waited.append("yes"))
    HostBackend().current_stream(CPU).wait_event(event)
    assert waited == ["yes"]


@pytest.mark.parametrize("step", [1, 2])
def test_memory_to_copy_to_is_on_the_host_without_gaps(step: int) -> None:
    like = torch.empty(3, 4, dtype=torch.complex64, device="meta")[::step].T
    with torch.device("meta"):
        result = HostBackend().empty_pinned(like)
    assert result.device == CPU and result.T.is_contiguous()
    assert (result.shape, result.dtype) == (like.shape, like.dtype)


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(TypeError, match="what must be a stream, got 'cuda:0'"):
        as_stream("what", "cuda:0")
    stream = torch.Stream(device="cpu")
    result: object = as_stream("what", stream)
    assert result is stream


@pytest.mark.gpu
def test_a_gpu_has_streams_that_two_threads_can_use_at_once() -> None:
    backend = _AcceleratorBackend()
    stream, before = backend.new_stream(ONE), backend.current_stream(ONE)
    with backend.using(stream), backend.using(stream):
        assert backend.current_stream(ONE) == stream
    assert backend.current_stream(ONE) == before
    assert backend.empty_pinned(torch.empty(3, device="cuda:0")).is_pinned()
