"""The order of work: ranks must meet at the same steps, and marks show when they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import torch
import torch.distributed as dist
from torch import Tensor

from .._private_torch import assert_later


class OrderError(RuntimeError):
    """Ranks meet at different steps."""


@dataclass(frozen=True)
class Meeting:
    """The first message of a call; a rank can send another mark in its place."""

    dims: tuple[str, ...]
    n_numbers: int
    """Numbers that are sent with the mark; 0 if the mark is sent before them."""
    dtype: torch.dtype
    device: torch.device
    is_ordered: bool = False
    """Whether it is summed in the order of the ranks."""


@dataclass(eq=False)
class Order:
    """What ranks have agreed on, and how they see that they are at the same step.

    A mark of the step is summed with the first message of a call, or before it. If ranks meet at
    different steps, all get an error, and nothing is summed.
    """

    serial: int = 0
    """Number of the distributed operator, the same on all ranks."""
    calls: set[object] = field(default_factory=set)
    """Calls that ranks have compared: operator, and dtype, shape and gradient of the input."""
    meetings: dict[str, Meeting] = field(default_factory=dict)
    """The first message of each compared call."""
    met: Meeting | None = None
    """The first message of the current call."""

    def step_name(self, owner: str, what: str) -> str:
        """Return the name of a step, which is equal on ranks only at the same step."""
        return f"{what} of {owner} (operator {self.serial})"

    def check_marks(
        self, total: Tensor, mark: Tensor, group: dist.ProcessGroup, step: str, owner: str
    ) -> None:
        """Raise an error if the sum of marks shows that another rank is at another step."""
        is_right = is_sum_of(total, mark)
        if not is_right.is_cpu:
            assert_later(is_right, f"all ranks must be at the same step, got {step}")
        elif not is_right:
            texts: list[str | None] = [None] * group.size()
            dist.all_gather_object(texts, step, group=group)
            members = dist.get_process_group_ranks(group)
            raise OrderError(differing(members, texts, f"{owner}: calls"))


@lru_cache(maxsize=1024)
def mark_of(text: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 64 numbers for a text: the bits of its hash, and their complements.

    If texts differ, the sum over the ranks is not zero at some zero of each rank's own mark. Every
    dtype represents zero and one exactly.
    """
    digest = blake2b(text.encode(), digest_size=4).digest()
    bits = [byte >> number & 1 for byte in digest for number in range(8)]
    return torch.tensor([*bits, *[1 - bit for bit in bits]], dtype=dtype, device=device)


def is_sum_of(total: Tensor, mark: Tensor) -> Tensor:
    """Return whether a sum over ranks is one of this mark alone.

    A dtype of few digits may round the sum or overflow, but keeps its zeros. Integers are summed in
    int64, so that they do not wrap around.
    """
    return ((total == 0) | (mark == 1)).all()


def differing(ranks: Sequence[int], values: Sequence[object], subject: str) -> str:
    """Return a message with the object of each rank, empty if all are equal."""
    by_text: dict[str, list[int]] = {}
    for rank, text in zip(ranks, map(str, values), strict=True):
        by_text.setdefault(text, []).append(rank)
    if len(by_text) == 1:
        return ""
    listed = "; ".join(f"{text} on rank {_listed(ranks)}" for text, ranks in by_text.items())
    return f"{subject} must be the same on all ranks, got {listed}"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
