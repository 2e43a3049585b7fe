import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import View, tensor_memory_span
from memmap.testing import tensor_views


@given(st.data())
def test_the_span_is_from_the_first_element_to_the_last(data: st.DataObject) -> None:
    tensor = data.draw(tensor_views(torch.zeros(40).untyped_storage()))
    strides = tensor.stride()
    at = [
        tensor.storage_offset() + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in np.ndindex(*tensor.shape)
    ]
    assert tensor_memory_span(tensor) == ((min(at), max(at)) if at else None)


def test_the_span_of_a_meta_tensor() -> None:
    assert tensor_memory_span(torch.empty(4, 5, device="meta")[1:3, ::2]) == (5, 14)


def test_the_span_of_an_array_that_runs_backwards() -> None:
    assert tensor_memory_span(np.zeros((3, 4))[::-1, 1]) == (1, 9)


def test_elements_between_elements_have_no_position() -> None:
    with pytest.raises(ValueError, match=r"whole elements from .*, got a view of 4-byte .* byte 2"):
        tensor_memory_span(View("RAM", 0, 16, 2, (2,), (4,), 4))


def test_what_has_no_memory_has_no_span() -> None:
    with pytest.raises(TypeError, match="must be strided"):
        tensor_memory_span(torch.eye(2).to_sparse())
