"""The record of who touched which byte, against one that keeps everything."""

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from linops_multigpu.testing._order import Shadow, bytes_of

N = 6


@st.composite
def views(draw: st.DrawFn) -> Tensor:
    """Any view of a vector of 64 elements, of two bytes each."""
    lengths = draw(st.lists(st.integers(0, 3), max_size=3))
    strides = draw(st.lists(st.integers(0, 8), min_size=len(lengths), max_size=len(lengths)))
    return torch.arange(64, dtype=torch.int16).as_strided(lengths, strides, draw(st.integers(0, 9)))


@given(views())
def test_the_bytes_are_those_of_the_elements(view: Tensor) -> None:
    base = torch.arange(64, dtype=torch.int16)
    touched = torch.zeros(2 * 64, dtype=torch.int64).numpy()
    positions = np.arange(2 * 64)[bytes_of(view, view.untyped_storage().data_ptr())]
    np.add.at(touched, positions, 1)
    elements = set(view.flatten().tolist())
    expected = [int(element in elements) for element in base.tolist() for _ in range(2)]
    assert touched.tolist() == expected


steps = st.lists(
    st.tuples(st.integers(0, 2), st.sets(st.integers(0, N - 1)), st.booleans()), max_size=6
)
clocks = st.dictionaries(st.integers(0, 2), st.integers(0, 6))


# What a write came after is forgotten, whoever asks.
@example([(0, {0}, False), (1, {0}, True)], {1: 2}, {0}, True)
@given(steps, clocks, st.sets(st.integers(0, N - 1)), st.booleans())
def test_a_conflict_is_with_an_access_that_is_not_known_of(
    done: list[tuple[int, set[int], bool]],
    clock: dict[int, int],
    touched: set[int],
    writes: bool,
) -> None:
    shadow = Shadow(N, "cpu")
    since_write: dict[int, list[tuple[int, int, bool]]] = {}
    for time, (actor, elements, wrote) in enumerate(done, 1):
        shadow.note(_array(elements), actor, time, writes=wrote)
        for element in elements:
            # A write comes after what was before, so that need not be asked for again.
            accesses = [] if wrote else since_write.setdefault(element, [])
            since_write[element] = [*accesses, (actor, time, wrote)]
    unknown = {
        (actor, wrote)
        for element in touched
        for actor, time, wrote in since_write.get(element, [])
        if (writes or wrote) and time > clock.get(actor, 0)
    }
    result = shadow.conflict(_array(touched), clock, writes=writes)
    assert (result is not None) == bool(unknown)
    assert result is None or (result[0], result[2]) in unknown


def _array(elements: set[int]):  # type: ignore[no-untyped-def]  # NumPy's long name
    return torch.tensor(sorted(elements), dtype=torch.int64).numpy()
