"""What all tests share: streams on paper, of a device that is not there, and when to skip."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from linops_multigpu._devices import _streams
from linops_multigpu.testing import simulated


@dataclass(eq=False)
class PaperEvent:
    device: torch.device
    backend: "PaperBackend"

    def record(self, stream: "PaperStream") -> None:
        self.backend.asked.append(("record", stream, self))

    def synchronize(self) -> None:
        self.backend.asked.append(("synchronize", None, self))


@dataclass(eq=False)
class PaperStream:
    device: torch.device
    backend: "PaperBackend"

    def wait_event(self, event: PaperEvent) -> None:
        self.backend.asked.append(("wait", self, event))

    def synchronize(self) -> None:
        self.backend.asked.append(("synchronize", self, None))


@dataclass(eq=False)
class PaperBackend:
    """Writes down what is asked of it."""

    asked: list[tuple[str, PaperStream | None, PaperEvent | None]] = field(default_factory=list)
    current: dict[torch.device, PaperStream] = field(default_factory=dict)

    def current_stream(self, device: torch.device) -> PaperStream:
        return self.current.setdefault(device, self.new_stream(device))

    def new_stream(self, device: torch.device) -> PaperStream:
        return PaperStream(device, self)

    def new_event(self, device: torch.device) -> PaperEvent:
        return PaperEvent(device, self)

    @contextmanager
    def using(self, stream: PaperStream) -> Iterator[None]:
        before = self.current_stream(stream.device)
        self.current[stream.device] = stream
        yield
        self.current[stream.device] = before

    def record_use(self, tensor: Tensor, stream: PaperStream) -> None:
        self.asked.append(("use", stream, None))

    def can_reach(self, device: torch.device, peer: torch.device) -> bool:
        return True

    def empty_pinned(self, like: Tensor) -> Tensor:
        return torch.empty(like.shape, dtype=like.dtype)


@pytest.fixture(autouse=True)
def cuda(request: pytest.FixtureRequest) -> None:
    """Skips the tests that need GPUs where these are not those of CUDA, which all of them name."""
    marks = [request.node.get_closest_marker(name) for name in ("gpu", "multigpu")]
    if any(marks) and not torch.cuda.is_available():
        pytest.skip(f"needs CUDA, got {torch.accelerator.current_accelerator()}")


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> PaperBackend:
    """What is asked of the streams of CUDA devices, of which there need be none."""
    backend = PaperBackend()
    monkeypatch.setitem(_streams._BACKENDS, "cuda", backend)
    return backend


@pytest.fixture
def simulation() -> None:
    """Needs a process in which simulated devices can be: one without an accelerator."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type != "sim":
        pytest.skip(f"simulated devices need a process without an accelerator, got {accelerator}")
    with simulated(1):
        pass  # a device may be named outside of `simulated` once torch knows its type
