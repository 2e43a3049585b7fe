"""Components and groups are those that brute force makes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import ModuleMemoryMap, memory_aware_deepcopy, memory_aware_to
from memmap._components import components
from memmap._copies._plan import copy_plan
from memmap._modules._traverse import FoundTensor

NUMBERS = st.integers(0, 9)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20))
def test_numbers_are_in_one_component_if_they_are_paired_directly_or_through_others(
    pairs: list[tuple[int, int]],
) -> None:
    expected = [{number} for number in range(10)]
    for a, b in pairs:
        union = expected[a] | expected[b]
        for number in union:
            expected[number] = union
    result = components(10, pairs)
    for number in range(10):
        together = {other for other in range(10) if result[other] == result[number]}
        assert together == expected[number]
        assert result[number] in expected[number]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=8))
def test_storages_are_one_group_if_they_share_bytes_directly_or_through_others(
    intervals: list[tuple[int, int]],
) -> None:
    array = np.zeros(26, np.uint8)
    tensors = [torch.from_numpy(array[start : start + length]) for start, length in intervals]
    touched = [set(range(start, start + length)) for start, length in intervals]
    n = len(intervals)
    pairs = [(a, b) for a in range(n) for b in range(n) if touched[a] & touched[b]]
    expected: dict[int, list[int]] = {}
    for position, component in enumerate(components(n, pairs)):
        expected.setdefault(component, []).append(position)
    groups = copy_plan(
        FoundTensor(tensor, (None, str(at))) for at, tensor in enumerate(tensors)
    ).groups
    results = [[int((piece.path or ("", ""))[1]) for piece in group.pieces] for group in groups]
    assert results == list(expected.values()), "also in the order in which they were found"


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.grad, torch.func.functionalize])
def test_nothing_is_copied_or_moved_inside_of_a_transform(transform: Any) -> None:
    def ask(x: torch.Tensor) -> torch.Tensor:
        refused = pytest.raises(
            TypeError, match=r"^x: a tensor must have its own memory, got one in"
        )
        with refused:
            memory_aware_deepcopy({"x": x})
        with refused:
            memory_aware_to({"x": x}, dtype=torch.float64)
        with refused:
            ModuleMemoryMap().copy_to({"x": x}, "meta")
        return x.sum()

    transform(ask)(torch.ones(2, 2) if transform is torch.func.vmap else torch.ones(2))
