import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linops_imaging.io import _in_pieces


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(1, 30))
def test_parts_are_all_elements_in_their_order(shape: list[int], at_once: int) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_in_pieces, "AT_ONCE", at_once)
        parts = [values[index].ravel() for index in _in_pieces.indices_in_pieces(shape)]
    assert np.array_equal(np.concatenate([*parts, np.empty(0, int)]), values.ravel())
    assert all(part.size <= at_once for part in parts)
