"""Overlap of tensors: one pair, adversarial strides, and all pairs among ten thousand views."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from interleaved import interleaved, print_timings
from torch import Tensor

from memmap import overlapping_pairs, overlaps

N = 10_000
CALLS = 2_000


def main() -> None:
    """Check every answer, then time it."""
    one_pair()
    adversarial()
    many()


def one_pair() -> None:
    """Slices of 2-D and 3-D tensors, building of the views included."""
    matrix, cube = torch.zeros(64, 64), torch.zeros(64, 64, 64)
    pairs = {
        "halves of the rows": (matrix[:32], matrix[32:], False),
        "halves of the columns": (matrix[:, :32], matrix[:, 32:], False),
        "transpose and half": (matrix.T, matrix[:, :32], True),
        "3-D, split in the middle": (cube[:, :32], cube[:, 32:], False),
        "3-D, odd and even": (cube[:, ::2, 1:9], cube[:, 1::2, 3:12], False),
        "3-D, steps of 2 and 3": (cube[1::2, :, ::2], cube[::3, 2:8, ::3], True),
    }
    ways: dict[str, Callable[[], object]] = {
        f"{CALLS} calls of data_ptr": partial(repeat, Tensor.data_ptr, (matrix,))
    }
    for name, (a, b, expected) in pairs.items():
        assert overlaps(a, b) == expected, name
        assert np.shares_memory(a.numpy(), b.numpy()) == expected, name
        ways[name] = partial(repeat, overlaps, (a, b))
    print_timings(
        f"overlaps, {CALLS} calls: {CALLS / 1000:g} ms is 1 us for each", interleaved(ways)
    )


def repeat(function: Callable[..., object], arguments: Sequence[Tensor]) -> None:
    """Call a function many times."""
    for _ in range(CALLS):
        function(*arguments)


def adversarial() -> None:
    """Strides without common divisors; NumPy's search needs minutes for the first pair."""
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
    print_timings("overlaps, adversarial strides", interleaved(ways, rounds=5))


def many() -> None:
    """All pairs among views of one storage; the time for a quarter of them shows the growth."""
    print("\noverlapping_pairs, views of one storage: seconds, and for a quarter of the views")
    vector, plane = torch.zeros(N * 100), torch.zeros(1000, 1000)
    columns, block = torch.zeros(512, N), torch.zeros(32, 32, 32, 32)
    tiles = [plane[i : i + 10, j : j + 10] for i in range(0, 1000, 10) for j in range(0, 1000, 10)]
    rng = random.Random(0)
    families = {
        "flat parameters": [vector[i * 100 : (i + 1) * 100] for i in range(N)],
        "flat parameters, each overlapping the next": [
            vector[i * 99 : i * 99 + 150] for i in range(N)
        ],
        "columns of 512 x 10,000": [columns[:, i] for i in range(N)],
        "tiles of 10 x 10": tiles,
        "random 2-D blocks, 20 of 1000 wide": [random_block(plane, 20, rng) for _ in range(N)],
        "random 2-D blocks, 100 of 1000 wide": [random_block(plane, 100, rng) for _ in range(N)],
        "random 4-D blocks, 4 of 32 wide": [random_block(block, 4, rng) for _ in range(N)],
        "random 4-D blocks, 8 of 32 wide": [random_block(block, 8, rng) for _ in range(N)],
    }
    for name, views in families.items():
        sample = rng.sample(views, 60)
        expected = [
            (i, j) for i in range(60) for j in range(i + 1, 60) if overlaps(sample[i], sample[j])
        ]
        assert overlapping_pairs(sample) == expected, name
        seconds, n_pairs = best_of(views)
        quarter, _ = best_of(views[::4])
        print(f"  {name:44} {seconds:6.3f} s ({quarter:.3f})  {n_pairs:7} pairs")


def random_block(tensor: Tensor, widest: int, rng: random.Random) -> Tensor:
    """A block of the tensor, up to so wide, anywhere."""
    for axis, size in enumerate(tensor.shape):
        width = rng.randint(1, widest)
        tensor = tensor.narrow(axis, rng.randint(0, size - width), width)
    return tensor


def best_of(views: list[Tensor], rounds: int = 5) -> tuple[float, int]:
    """Seconds of the fastest of some rounds, and the number of pairs."""
    seconds = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        n_pairs = len(overlapping_pairs(views))
        seconds.append(time.perf_counter() - start)
    return min(seconds), n_pairs


if __name__ == "__main__":
    main()
