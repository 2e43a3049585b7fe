import threading
from typing import Any

import torch

from linops_multigpu import DeviceSpec
from linops_multigpu._devices._stream_pool import DeviceStreams, streams_on

ONE, OTHER = torch.device("cuda:0"), torch.device("cuda:1")


def test_copies_have_streams_of_their_own_that_all_share(paper: Any) -> None:
    result = streams_on(ONE)
    assert result.device == ONE and result.compute is paper.current_stream(ONE)
    assert len({id(s) for s in (result.compute, result.incoming, result.outgoing)}) == 3
    assert streams_on(ONE) == result
    assert {streams_on(OTHER).incoming, streams_on(OTHER).outgoing}.isdisjoint(
        {result.incoming, result.outgoing}
    )


def test_work_goes_to_the_stream_that_is_current_now(paper: Any) -> None:
    before = streams_on(ONE)
    with paper.using(paper.new_stream(ONE)):
        result = streams_on(ONE)
    assert result.compute is not before.compute
    assert (result.incoming, result.outgoing) == (before.incoming, before.outgoing)


def test_given_streams_are_used(paper: Any) -> None:
    compute, transfer = (paper.new_stream(ONE) for _ in range(2))
    result = streams_on(ONE, DeviceSpec("cuda:0", compute, transfer))
    assert (result.compute, result.incoming, result.outgoing) == (compute, transfer, transfer)
    result = streams_on(ONE, DeviceSpec("cuda:0", compute_stream=compute))
    assert result.compute is compute and result.incoming is streams_on(ONE).incoming
    result = streams_on(ONE, DeviceSpec("cuda:0", transfer_stream=transfer))
    assert result.compute is paper.current_stream(ONE) and result.outgoing is transfer


def test_another_backend_has_other_streams(paper: Any, monkeypatch: Any) -> None:
    from linops_multigpu._devices import _streams

    before = streams_on(ONE)
    monkeypatch.setitem(_streams._BACKENDS, "cuda", type(paper)())
    assert streams_on(ONE).incoming is not before.incoming


def test_threads_that_ask_at_once_get_the_same(paper: Any) -> None:
    barrier, result = threading.Barrier(4), list[DeviceStreams]()

    def ask() -> None:
        barrier.wait()
        result.append(streams_on(ONE))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(streams.incoming, streams.outgoing) for streams in result}) == 1


def test_a_cpu_has_the_stream_of_the_caller_for_all() -> None:
    result = streams_on(torch.device("cpu"))
    assert result.compute.device == result.incoming.device == torch.device("cpu")
