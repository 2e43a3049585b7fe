from collections import UserDict
from fractions import Fraction

import numpy as np
import pytest
import torch

from linops_core._sizes import by_dimension, is_size
from nameddim import ND


def test_a_size_is_a_positive_integer_of_any_kind() -> None:
    assert all(map(is_size, (1, np.int64(3))))
    assert not any(map(is_size, (0, -1, 1.0, Fraction(3), None, "1", torch.tensor(2))))


def test_dimensions_may_be_strings_and_the_mapping_of_any_kind() -> None:
    assert by_dimension("A", UserDict({"N": 2})) == {ND("N"): 2}
    assert by_dimension("A", None) == {}


@pytest.mark.parametrize("sizes", [2, "N", [("N", 2)], torch.ones(2)])
def test_what_is_no_mapping_is_refused(sizes: object) -> None:
    with pytest.raises(TypeError, match="A: n_repeats must be a mapping of dimension to size, got"):
        by_dimension("A", sizes, "n_repeats")  # type: ignore[arg-type]
