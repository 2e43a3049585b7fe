import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_multigpu import RepeatedEvent

CUDA = torch.device("cuda:0")


def test_each_record_is_a_fresh_event(paper: Any) -> None:
    start = RepeatedEvent("cuda:0")
    tokens = [start.record() for _ in range(3)]
    assert len({id(token) for token in tokens}) == 3
    stream = paper.current_stream(CUDA)
    assert paper.asked == [("record", stream, token) for token in tokens]


def test_a_wait_is_for_what_was_recorded_last(paper: Any) -> None:
    start, stream = RepeatedEvent("cuda:0"), paper.new_stream(CUDA)
    start.record()
    last = start.record(stream)
    start.wait()
    start.wait(stream)
    assert paper.asked[2:] == [("wait", paper.current_stream(CUDA), last), ("wait", stream, last)]


def test_a_token_stands_for_its_own_point(paper: Any) -> None:
    start, stream = RepeatedEvent("cuda:0"), paper.new_stream(CUDA)
    first = start.record()
    start.record()
    stream.wait_event(first)
    assert paper.asked[-1] == ("wait", stream, first)


def test_a_wait_before_any_record_is_refused(paper: Any) -> None:
    message = "wait must come after record, got no record yet"
    for event in (RepeatedEvent(), RepeatedEvent("cuda:0")):
        with pytest.raises(RuntimeError, match=message):
            event.wait()
    assert not paper.asked


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))]
)
def test_a_copy_has_not_been_recorded(
    paper: Any, duplicate: Callable[[RepeatedEvent], RepeatedEvent]
) -> None:
    start = RepeatedEvent("cuda:0")
    token = start.record()
    other = duplicate(start)
    assert other.device == CUDA
    assert (repr(start), repr(other)) == ("RepeatedEvent(recorded)", "RepeatedEvent(not recorded)")
    with pytest.raises(RuntimeError, match="must come after record"):
        other.wait()
    assert other.record() is not token
    start.wait()
    assert paper.asked[-1][2] is token


@given(st.lists(st.booleans(), max_size=8))
def test_on_a_cpu_any_order_with_a_record_first_is_fine(records: list[bool]) -> None:
    event, tokens = RepeatedEvent("cpu"), [object()]
    for record in records:
        if record:
            tokens.append(event.record())
        elif len(tokens) > 1:
            event.wait()
        else:
            with pytest.raises(RuntimeError, match="must come after record"):
                event.wait()
    assert len({id(token) for token in tokens}) == len(tokens)


def test_the_device_is_the_current_one_by_default() -> None:
    event = RepeatedEvent()
    event.record().synchronize()
    event.wait()


@pytest.mark.parametrize("stream", [0, "cuda:0", torch.device("cuda:0")])
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    event = RepeatedEvent()
    with pytest.raises(TypeError, match="RepeatedEvent: stream must be a stream, got"):
        event.record(stream)
    event.record()
    with pytest.raises(TypeError, match="RepeatedEvent: stream must be a stream, got"):
        event.wait(stream)


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(ValueError, match="a device must be named as in"):
        RepeatedEvent("gpu")


@pytest.mark.gpu
def test_a_gpu_does_what_comes_after_a_wait_later() -> None:
    event, other = RepeatedEvent(), torch.Stream("cuda:0")
    x = torch.zeros(1 << 20, device="cuda:0")
    for k in range(20):
        x.add_(1)
        other.wait_event(event.record())  # type: ignore[arg-type]
        with other:
            y = x.clone()
        y.record_stream(torch.accelerator.current_stream())
        event.record(other)
        event.wait()
        assert (y == k + 1).all()
