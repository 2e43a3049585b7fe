"""Ranks in threads of this process, as tests have them."""

import time
from typing import Any

import pytest
import torch.distributed as dist

from linops_distributed.testing import ranks_in_threads


def test_all_ranks_are_connected_when_the_block_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that ended before would close the connections of one that still connects."""
    init, connected = dist.init_process_group, []

    def late(*args: Any, rank: int, **options: Any) -> None:
        time.sleep(0.05 * rank)
        init(*args, **options, rank=rank)  # type: ignore[misc]  # mypy takes args for all
        connected.append(rank)

    monkeypatch.setattr(dist, "init_process_group", late)
    with ranks_in_threads(2):
        assert sorted(connected) == [0, 1]


def test_an_error_of_a_connection_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **options: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(dist, "init_process_group", fails)
    with pytest.raises(RuntimeError, match="planted"), ranks_in_threads(2):
        raise AssertionError
