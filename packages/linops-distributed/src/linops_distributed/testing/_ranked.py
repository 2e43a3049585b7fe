"""Ranks in threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

T = TypeVar("T")

_isolate = _distributed_c10d._set_thread_isolation_mode  # type: ignore[attr-defined]  # not in stubs

# The state before, once for each active ranks_in_threads.
_before: list[Any] = []


class Ranked:
    """Ranks that wait for functions to call; see :func:`ranks_in_threads`."""

    def __init__(self, n_ranks: int, timeout: float) -> None:
        self.n_ranks, self._timeout = n_ranks, timedelta(seconds=timeout)
        self._work: list[SimpleQueue[Callable[[int], Any] | None]] = [
            SimpleQueue() for _ in range(n_ranks)
        ]
        self._done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
        self._store = _distributed_c10d.HashStore()
        self._meshes: dict[object, DeviceMesh] = {}

    def attempt(self, function: Callable[[int], T]) -> list[tuple[int, T | BaseException]]:
        """Return each rank with the result or error of a function, in the order of completion.

        After an error, the ranks are connected anew.
        """
        results = self._called(function)
        if any(isinstance(result, BaseException) for _, result in results):
            self._store, self._meshes = _distributed_c10d.HashStore(), {}
            self._called(self._connect_again)
        return results

    def run(self, function: Callable[[int], T]) -> list[T]:
        """Return the result of a function on each rank; raise the first error."""
        return _in_order(self.attempt(function))

    def mesh(self, **sizes: int) -> DeviceMesh:
        """Return the mesh of dimensions of these names and sizes; made once at each rank.

        To be called by the ranks.
        """
        from torch.distributed.device_mesh import init_device_mesh

        key = dist.get_rank(), tuple(sizes.items())
        if key not in self._meshes:
            names = tuple(sizes)
            self._meshes[key] = init_device_mesh("cpu", (*sizes.values(),), mesh_dim_names=names)
        return self._meshes[key]

    def _called(self, function: Callable[[int], T]) -> list[tuple[int, T | BaseException]]:
        for queue in self._work:
            queue.put(function)
        done = [self._done.get() for _ in range(self.n_ranks)]
        return [(rank, result if error is None else error) for rank, result, error in done]

    def connect(self) -> None:
        """Connect all ranks, and wait for them: gloo fails if one of them closes before."""
        _in_order(self._called(self._connect))

    def _connect(self, rank: int) -> None:
        dist.init_process_group(
            "gloo", rank=rank, world_size=self.n_ranks, store=self._store, timeout=self._timeout
        )

    def _connect_again(self, rank: int) -> None:
        dist.destroy_process_group()
        self._connect(rank)

    def _serve(self, rank: int) -> None:
        while (function := self._work[rank].get()) is not None:
            try:
                self._done.put((rank, function(rank), None))
            except BaseException as error:
                self._done.put((rank, None, error))
            del function
        if dist.is_initialized():
            dist.destroy_process_group()


def _in_order(results: Sequence[tuple[int, T | BaseException]]) -> list[T]:
    """Return the result of each rank; raise the first error."""
    for _, result in results:
        if isinstance(result, BaseException):
            raise result
    return [cast(T, result) for _, result in sorted(results, key=lambda pair: pair[0])]


@contextmanager
def ranks_in_threads(n_ranks: int, timeout: float = 300.0) -> Iterator[Ranked]:
    """Run the ranks of a gloo process group as threads of this process.

    Parameters
    ----------
    n_ranks : int
    timeout : float
        Seconds that a rank waits for the others.

    Examples
    --------
    >>> import torch
    >>> def total(rank):
    ...     x = torch.tensor([float(rank)])
    ...     torch.distributed.all_reduce(x)
    ...     return x.item()
    >>> with ranks_in_threads(3) as ranks:
    ...     ranks.run(total)
    [3.0, 3.0, 3.0]
    """
    from torch.testing._internal.distributed.multi_threaded_pg import ThreadLocalWorld

    _before.append(_before[0] if _before else distributed_c10d._world)
    if len(_before) == 1:  # other threads of this process use the same one
        distributed_c10d._world = ThreadLocalWorld()  # type: ignore[assignment]  # it acts as one
        _isolate(True)
    ranked = Ranked(n_ranks, timeout)
    threads = [threading.Thread(target=ranked._serve, args=(rank,)) for rank in range(n_ranks)]
    for thread in threads:
        thread.start()
    try:
        ranked.connect()
        yield ranked
    finally:
        for queue in ranked._work:
            queue.put(None)
        for thread in threads:
            thread.join()
        before = _before.pop()
        if not _before:  # the last one restores it
            _isolate(False)
            distributed_c10d._world = before
