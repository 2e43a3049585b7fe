"""The collector of cycles is paused while a report is made, and is then as it was before."""

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from memmap import CheckpointError, MemoryReport
from memmap._reports import _checkpoint, _garbage_collection, _report
from memmap._reports._garbage_collection import collector_paused


@pytest.fixture(params=[True, False])
def is_enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_the_collector_is_paused_and_then_as_before(is_enabled: bool) -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is is_enabled
    with pytest.raises(KeyboardInterrupt), collector_paused():
        raise KeyboardInterrupt
    assert gc.isenabled() is is_enabled


def test_threads_leave_the_collector_as_it_was(
    is_enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pause ends, or tries to, while the second one begins."""
    has_begun, may_end = threading.Event(), threading.Event()

    def pause() -> None:
        with collector_paused():
            has_begun.set()
            may_end.wait(10)

    first = threading.Thread(target=pause)
    first.start()
    assert has_begun.wait(10)

    def disable() -> None:
        may_end.set()
        first.join(0.1)
        gc.disable()

    monkeypatch.setattr(_garbage_collection, "disable", disable)
    with collector_paused():
        first.join(10)
    assert gc.isenabled() is is_enabled


def test_an_interrupt_of_its_first_step_leaves_the_collector_as_it_was(
    is_enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disable() -> None:
        gc.disable()
        raise KeyboardInterrupt

    monkeypatch.setattr(_garbage_collection, "disable", disable)
    with pytest.raises(KeyboardInterrupt), collector_paused():
        pass
    assert gc.isenabled() is is_enabled


@pytest.mark.parametrize(
    ("where", "name", "work"),
    [
        (_report, "entries_of", lambda path: MemoryReport({"x": torch.zeros(2)})),
        (_checkpoint, "InertUnpickler", MemoryReport.from_file),
        (_report, "table", lambda path: str(MemoryReport.from_file(path))),
        (_report, "html_table", lambda path: MemoryReport.from_file(path)._repr_html_()),
        (_report, "picture", lambda path: MemoryReport.from_file(path).to_svg()),
    ],
)
def test_reports_are_made_without_the_collector(
    where: object,
    name: str,
    work: Callable[[Path], object],
    is_enabled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    inner = getattr(where, name)

    def see(*args: object) -> object:
        seen.append(gc.isenabled())
        return inner(*args)

    monkeypatch.setattr(where, name, see)
    path = tmp_path / "x.pt"
    torch.save({"x": torch.zeros(2)}, path)
    work(path)
    assert seen == [False]
    assert gc.isenabled() is is_enabled


def test_an_error_leaves_the_collector_as_it_was(is_enabled: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(CheckpointError, match="must be a"):
        MemoryReport.from_file(path)
    assert gc.isenabled() is is_enabled
