import threading
from typing import Any

import torch

from linops_multigpu import DeviceSpec
from linops_multigpu._devices._stream_pool import DeviceStreams, streams_on

ONE, OTHER = torch.device("cuda:0"), torch.device("cuda:1")


def test_copies_have_streams_of_their_own_that_all_share(paper: Any) -> None:
    found = streams_on(ONE)
    assert found.device == ONE and found.compute is paper.current_stream(ONE)
    assert len({id(s) for s in (found.compute, found.incoming, found.outgoing)}) == 3
    assert streams_on(ONE) == found
    assert {streams_on(OTHER).incoming, streams_on(OTHER).outgoing}.isdisjoint(
        {found.incoming, found.outgoing}
    )


def test_work_goes_to_the_stream_that_is_current_now(paper: Any) -> None:
    before = streams_on(ONE)
    with paper.using(paper.new_stream(ONE)):
        found = streams_on(ONE)
    assert found.compute is not before.compute
    assert (found.incoming, found.outgoing) == (before.incoming, before.outgoing)


def test_given_streams_are_used(paper: Any) -> None:
    compute, transfer = (paper.new_stream(ONE) for _ in range(2))
    found = streams_on(ONE, DeviceSpec("cuda:0", compute, transfer))
    assert (found.compute, found.incoming, found.outgoing) == (compute, transfer, transfer)
    found = streams_on(ONE, DeviceSpec("cuda:0", compute_stream=compute))
    assert found.compute is compute and found.incoming is streams_on(ONE).incoming
    found = streams_on(ONE, DeviceSpec("cuda:0", transfer_stream=transfer))
    assert found.compute is paper.current_stream(ONE) and found.outgoing is transfer


def test_another_backend_has_other_streams(paper: Any, monkeypatch: Any) -> None:
    from linops_multigpu._devices import _streams

    before = streams_on(ONE)
    monkeypatch.setitem(_streams._BACKENDS, "cuda", type(paper)())
    assert streams_on(ONE).incoming is not before.incoming


def test_threads_that_ask_at_once_get_the_same(paper: Any) -> None:
    barrier, found = threading.Barrier(4), list[DeviceStreams]()

    def ask() -> None:
        barrier.wait()
        found.append(streams_on(ONE))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(streams.incoming, streams.outgoing) for streams in found}) == 1


def test_a_cpu_has_the_stream_of_the_caller_for_all() -> None:
    found = streams_on(torch.device("cpu"))
    assert found.compute.device == found.incoming.device == torch.device("cpu")
