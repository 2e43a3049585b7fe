"""Overlap of tensors: one pair, adversarial strides, all pairs among many views, reports.

Everything runs in one thread. Times are those of the processor, which other people's work on a
shared machine disturbs less than those of the clock.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from results import record
from torch import Tensor

from memmap import MemoryReport, View, overlapping_pairs, overlaps

N = 10_000
CALLS = 2_000


def main() -> None:
    """Check every answer, then time it."""
    torch.set_num_threads(1)
    one_pair()
    adversarial()
    many()
    reports()


def one_pair() -> None:
    """Slices of 1-D, 2-D and 3-D tensors, building of the views included."""
    vector, matrix, cube = torch.zeros(1000), torch.zeros(64, 64), torch.zeros(64, 64, 64)
    pairs = {
        "halves of the rows": (matrix[:32], matrix[32:], False),
        "halves of the columns": (matrix[:, :32], matrix[:, 32:], False),
        "transpose and half": (matrix.T, matrix[:, :32], True),
        "3-D, split in the middle": (cube[:, :32], cube[:, 32:], False),
        "3-D, odd and even": (cube[:, ::2, 1:9], cube[:, 1::2, 3:12], False),
        "1-D, steps of 2 and 3": (vector[::2], vector[1::3], True),
        "3-D, steps of 2 and 3": (cube[1::2, :, ::2], cube[::3, 2:8, ::3], True),
    }
    ways: dict[str, Callable[[], object]] = {
        f"{CALLS} calls of data_ptr": partial(repeat, Tensor.data_ptr, [(matrix,)] * CALLS)
    }
    for name, (a, b, expected) in pairs.items():
        assert overlaps(a, b) == expected, name
        assert np.shares_memory(a.numpy(), b.numpy()) == expected, name
        ways[name] = partial(repeat, overlaps, [(a, b)] * CALLS)
    rng = random.Random(0)
    for tensor, name in ((matrix, "2-D"), (cube, "3-D")):
        # Of many shapes, so that little is found in the caches of normal forms.
        blocks = [random_block(tensor, 64, rng) for _ in range(2 * CALLS)]
        ways[f"{name}, {CALLS} different pairs of blocks"] = partial(
            repeat, overlaps, list(zip(blocks[::2], blocks[1::2], strict=True))
        )
    print("overlaps, microseconds for a call: fastest and median of 15 rounds of 2,000 calls")
    report("overlaps, one pair", ways, "us", CALLS * 1e-6)


def report(
    section: str,
    ways: Mapping[str, Callable[[], object]],
    unit: str,
    seconds: float,
    rounds: int = 15,
) -> None:
    """Print the fastest and the median time of each way, taken in turns.

    ``seconds`` is what counts as one of ``unit``.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            start = time.process_time()
            work()
            times[name].append((time.process_time() - start) / seconds)
    for name, own in times.items():
        middle = statistics.median(own)
        record(section, name, middle, unit, low=min(own), high=max(own))
        print(f"  {name:44} {min(own):8.3f} {middle:8.3f}")


def repeat(function: Callable[..., object], arguments: Sequence[tuple[Tensor, ...]]) -> None:
    """Call a function many times."""
    for given in arguments:
        function(*given)


def adversarial() -> None:
    """Strides without common divisors: known examples, and random ones that are as bad."""
    memory = torch.empty(192_163_377, dtype=torch.int8, device="meta")
    a = memory.as_strided((1049, 1049, 1049), (36674, 61119, 85569))
    ways: dict[str, Callable[[], object]] = {
        "the example of NumPy's manual": partial(
            overlaps, a, memory.as_strided((1049, 1049), (12223, 12224), 64_023_025)
        )
    }
    for count, offset in ((300, 1), (1049, 7)):
        b = memory.as_strided((count, 1049), (12222, 12224), 64_023_025 + offset)
        ways[f"{count} x 1049 bytes of strides 12222 and 12224"] = partial(overlaps, a, b)
    print("\noverlaps, adversarial strides, milliseconds: fastest and median of 15 rounds")
    report("overlaps, adversarial strides", ways, "ms", 1e-3)
    print(
        "\noverlaps, random bad strides: median and slowest of 200 pairs in ms, pairs that overlap"
    )
    rng = random.Random(0)
    for nbytes in (10**6, 10**8, 10**9):
        for n_dims in (2, 3, 4, 5):
            pairs = [bad_pair(n_dims, nbytes, rng) for _ in range(200)]
            gc.collect()
            gc.disable()
            seconds = []
            n_met = 0
            for first, second in pairs:
                start = time.process_time()
                n_met += overlaps(first, second)
                seconds.append(time.process_time() - start)
            gc.enable()
            name = f"{n_dims}-D views of about {nbytes / 1e6:,.0f} MB"
            title = "overlaps, random bad strides: the slowest of 200 pairs"
            record(title, name, max(seconds) * 1e3, "ms", target=50)
            print(
                f"  {name:44} {statistics.median(seconds) * 1e3:8.3f} {max(seconds) * 1e3:8.3f}"
                f"  {n_met:4}"
            )


def bad_pair(n_dims: int, nbytes: int, rng: random.Random) -> tuple[View, View]:
    """Two views of which it is hard to say whether they overlap.

    Their strides are random, of like size and without common divisors, and they have about as many
    pairs of elements as there are distances between two elements: the distance that matters is
    one of some element pair or of none, and no short way tells.
    """
    n = 2 * n_dims
    counts = [rng.randint(2, max(2, round(2 * nbytes ** (1 / n)))) for _ in range(n)]
    largest = nbytes // sum(counts)
    strides = [rng.randint(largest // 2, largest) for _ in range(n)]
    itemsize = rng.choice((1, 2, 4, 8))
    reach = sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True))
    first = View("RAM", 0, 2 * reach, 0, counts[:n_dims], strides[:n_dims], itemsize)
    assert first.span is not None
    offset = rng.randrange(first.span[1])
    return first, View("RAM", 0, 2 * reach, offset, counts[n_dims:], strides[n_dims:], itemsize)


def many() -> None:
    """All pairs among views of one storage, and how the time grows with their number."""
    sizes = (N // 2, N, 2 * N, 4 * N)
    print("\noverlapping_pairs, views of one storage: seconds for n views, and pairs among them")
    print("  " + " " * 44 + "".join(f"{n:>17}" for n in sizes))
    for name, family in families().items():
        cells = []
        for n in sizes:
            rng = random.Random(0)
            views = family(n, rng)
            sample = rng.sample(views, 60)
            expected = [
                (i, j)
                for i in range(60)
                for j in range(i + 1, 60)
                if overlaps(sample[i], sample[j])
            ]
            assert overlapping_pairs(sample) == expected, name
            seconds, n_pairs = best_of(views)
            record("overlapping_pairs", f"{name}: {n} views, {n_pairs} pairs", seconds, "s")
            cells.append(f"{seconds:7.3f} {n_pairs:9}")
        print(f"  {name:44}" + "".join(cells))


def families() -> dict[str, Callable[[int, random.Random], list[Tensor]]]:
    """Ways to make n views of one storage."""

    def blocks(sides: tuple[int, ...], widest: int) -> Callable[[int, random.Random], list[Tensor]]:
        tensor = torch.empty(sides, dtype=torch.int8)
        return lambda n, rng: [random_block(tensor, widest, rng) for _ in range(n)]

    def tiles(n: int, rng: random.Random) -> list[Tensor]:
        plane = torch.empty(10 * (n // 100), 1000, dtype=torch.int8)
        return [tile for rows in torch.split(plane, 10) for tile in torch.split(rows, 10, 1)]

    vector = torch.empty(100 * 4 * N + 150, dtype=torch.int8)
    return {
        "flat parameters": lambda n, rng: list(torch.split(vector[: 100 * n], 100)),
        "flat parameters, each overlapping the next": lambda n, rng: [
            vector[i * 99 : i * 99 + 150] for i in range(n)
        ],
        "columns of 512 x n": lambda n, rng: list(torch.empty(512, n, dtype=torch.int8).T),
        "tiles of 10 x 10": tiles,
        "random 2-D blocks, 20 of 1000 wide": blocks((1000, 1000), 20),
        "random 2-D blocks, 100 of 1000 wide": blocks((1000, 1000), 100),
        "random 4-D blocks, 4 of 32 wide": blocks((32, 32, 32, 32), 4),
        "random 4-D blocks, 8 of 32 wide": blocks((32, 32, 32, 32), 8),
    }


def random_block(tensor: Tensor, widest: int, rng: random.Random) -> Tensor:
    """A block of the tensor, up to so wide, anywhere."""
    for axis, size in enumerate(tensor.shape):
        width = rng.randint(1, widest)
        tensor = tensor.narrow(axis, rng.randint(0, size - width), width)
    return tensor


def best_of(views: list[Tensor], rounds: int = 3) -> tuple[float, int]:
    """Seconds of the fastest of some rounds, and the number of pairs."""
    seconds = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        n_pairs = len(overlapping_pairs(views))
        seconds.append(time.process_time() - start)
    return min(seconds), n_pairs


def reports() -> None:
    """Reports on many overlapping views of one storage, as a table and as a picture."""
    print("\nMemoryReport, made anew each time: seconds for the table and for the picture")
    vector, matrix = torch.empty(100 * N + 150), torch.empty(N, N)
    named = {
        f"{N} views, each overlapping the next": [
            vector[i * 100 : i * 100 + 150] for i in range(N)
        ],
        "3 overlapping column views of a 400 MB matrix": [
            matrix[:, i * 1000 : i * 1000 + 1500] for i in range(3)
        ],
    }
    for name, views in named.items():
        source = {f"view{i}": view for i, view in enumerate(views)}
        seconds = []
        for show in (str, MemoryReport.to_svg):
            gc.collect()
            start = time.process_time()
            show(MemoryReport(source))
            seconds.append(time.process_time() - start)
        for what, elapsed in zip(("table", "picture"), seconds, strict=True):
            record("MemoryReport, made anew", f"{name}, {what}", elapsed, "s")
        print(f"  {name:44} {seconds[0]:6.3f} {seconds[1]:6.3f}")


if __name__ == "__main__":
    main()
