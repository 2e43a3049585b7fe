from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from linops_split import fuzzy_broadcast_to

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(st.data())
def test_every_element_is_the_one_that_a_modulo_finds(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    have = data.draw(npst.array_shapes(min_dims=0, max_dims=len(shape), min_side=1, max_side=3))
    array = np.arange(np.prod(have, dtype=int)).reshape(have)
    result = fuzzy_broadcast_to(array, shape)
    assert result.shape == shape
    for position in product(*map(range, shape)):
        inner = position[len(shape) - len(have) :]
        wanted = array[tuple(k % n for k, n in zip(inner, have, strict=True))]
        assert result[position] == wanted


@given(shapes)
def test_where_numpy_broadcasts_the_result_is_the_same(shape: tuple[int, ...]) -> None:
    array = np.arange(5)[: 1 if not shape else shape[-1]].reshape(-1)[: shape[-1] if shape else 1]
    array = array if shape else array[0]
    assert np.array_equal(fuzzy_broadcast_to(array, shape), np.broadcast_to(array, shape))


def test_devices_take_turns_along_the_last_axis() -> None:
    devices = [torch.device("cuda", 0), torch.device("cuda", 1)]
    result = fuzzy_broadcast_to(np.array(devices, dtype=object), (2, 3))
    assert result.tolist() == [[devices[0], devices[1], devices[0]]] * 2


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_the_result_is_a_new_array(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    fuzzy_broadcast_to(array, shape)[...] = 1
    assert not array.any()


@pytest.mark.parametrize(
    ("array", "shape", "message"),
    [
        ([[1, 2]], (2,), r"at most 1 axes to be broadcast to \(2,\), got shape \(1, 2\)"),
        ([], (2,), r"each size of \(2,\) must be at least 0, .*, got an array of shape \(0,\)"),
        (np.empty((0, 2)), (3, 2), r"each size of \(3, 2\) must be at least 0, and must be 0"),
        (np.empty((0,)), (0, 3), r"each size of \(0, 3\) must be at least 0"),
        ([1], (-1,), r"each size of \(-1,\) must be at least 0"),
        ([[1, 2], [3]], (2, 2), "inhomogeneous"),
    ],
)
def test_what_cannot_be_laid_over_is_refused(
    array: Any, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fuzzy_broadcast_to(array, shape)
