import itertools
import threading
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_multigpu._devices import _staging
from linops_multigpu._devices._staging import PinnedBuffer, buffers_for, pieces
from linops_multigpu._devices._streams import backend_of

CUDA = torch.device("cuda:0")


@given(
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(16, 200),
    st.permutations(range(4)),
)
def test_pieces_are_all_of_both_and_none_is_too_long(
    shape: list[int], limit: int, order: list[int]
) -> None:
    x = torch.rand(shape, dtype=torch.complex128)
    x = x.permute([axis for axis in order if axis < x.ndim])
    out = torch.zeros_like(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_staging, "PIECE_NBYTES", limit)
        result = list(pieces(x, out))
    for piece, place in result:
        assert 0 < piece.nbytes <= limit and piece.shape == place.shape
        place.add_(piece).add_(1)
    assert torch.equal(out, x + 1)


def test_a_piece_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_staging, "PIECE_NBYTES", 64)
    x = torch.empty(10, 2, dtype=torch.float64)
    assert [piece.shape[0] for piece, _ in pieces(x, x)] == [4, 4, 2]


def test_the_buffers_take_turns_also_from_one_transfer_to_the_next(paper: Any) -> None:
    lent: list[PinnedBuffer] = []
    for n_pieces in (3, 1, 2):
        with buffers_for(CUDA, paper) as buffers:
            lent += [next(buffers) for _ in range(n_pieces)]
    assert len(set(lent)) == 2
    assert all(one is not other for one, other in itertools.pairwise(lent))
    with buffers_for(CUDA, paper), buffers_for(torch.device("cuda:1"), paper) as buffers:
        assert next(buffers) not in lent


def test_one_transfer_at_a_time_has_the_buffers(paper: Any) -> None:
    inside = []

    def use() -> None:
        for _ in range(20):
            with buffers_for(CUDA, paper) as buffers:
                inside.append("in")
                next(buffers)
                inside.append("out")

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == ["in", "out"] * 60


def test_a_buffer_is_waited_for_until_it_is_free(paper: Any) -> None:
    buffer, stream = PinnedBuffer(), paper.new_stream(CUDA)
    buffer.await_on(stream)
    assert not paper.asked
    event = paper.new_event(CUDA)
    buffer.is_busy_until(event)
    buffer.await_on(stream)
    host = torch.device("cpu")
    buffer.await_on(backend_of(host).current_stream(host))
    assert paper.asked == [("wait", stream, event), ("synchronize", None, event)]


def test_the_memory_grows_when_nothing_works_with_it_and_stays(paper: Any) -> None:
    buffer = PinnedBuffer()
    first = buffer.room_for(torch.empty(3, 2, dtype=torch.complex64), paper)
    assert first.shape == (3, 2) and first.dtype == torch.complex64 and first.is_contiguous()
    assert buffer.room_for(torch.empty(2), paper).data_ptr() == first.data_ptr()
    event = paper.new_event(CUDA)
    buffer.is_busy_until(event)
    assert buffer.room_for(torch.empty(100), paper).data_ptr() != first.data_ptr()
    assert paper.asked == [("synchronize", None, event)]


def test_memory_made_in_inference_mode_serves_afterwards(paper: Any) -> None:
    buffer = PinnedBuffer()
    with torch.inference_mode():
        buffer.room_for(torch.empty(2), paper)
    buffer.room_for(torch.empty(2), paper).fill_(1)
