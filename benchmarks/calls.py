"""What the call of an operator costs over the bare operation, on operands that take no time."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeAlias

from results import record

Work: TypeAlias = Callable[[], object]


def microseconds(work: Work, number: int = 2000) -> float:
    """Return the smallest of some means over ``number`` calls, in microseconds."""
    return min(timeit.repeat(work, number=number, repeat=3)) / number * 1e6


def print_extra(title: str, pairs: Mapping[str, tuple[Work, Work]]) -> None:
    """Print by how much each first way takes longer than its second way, in turns."""
    print(f"\n{title}")
    rounds = [[(microseconds(a), microseconds(b)) for a, b in pairs.values()] for _ in range(9)]
    for name, times in zip(pairs, zip(*rounds, strict=True), strict=True):
        extra = sorted(ours - bare for ours, bare in times)
        bare = median(bare for _, bare in times)
        record(title, name, median(extra), "us", low=extra[0], high=extra[-1])
        print(
            f"  {name:44} {bare:7.2f} us bare, {extra[0]:6.2f} us more at least, "
            f"{median(extra):6.2f} in the median"
        )
