"""Whether a tensor is what it was."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from linops_core._kernels._changes import TensorState


def replace_data(tensor: Tensor) -> None:
    for _ in range(20):  # the memory of the first may be given anew
        tensor.data = torch.ones(2, 3)


def transpose_data(tensor: Tensor) -> None:
    tensor.data = torch.ones(3, 3).T[:2]


def write(tensor: Tensor) -> None:
    with torch.no_grad():
        tensor.mul_(2)


def write_to_a_view(tensor: Tensor) -> None:
    tensor.detach()[0].zero_()


@pytest.mark.parametrize("change", [replace_data, transpose_data, write, write_to_a_view])
@pytest.mark.parametrize("tensor", [torch.ones(2, 3), torch.nn.Parameter(torch.ones(2, 3))])
def test_a_change_is_seen(change: Callable[[Tensor], None], tensor: Tensor) -> None:
    state = TensorState(tensor)
    assert state.is_current(tensor)
    change(tensor)
    assert not state.is_current(tensor)
    assert TensorState(tensor).is_current(tensor)


def test_conjugation_is_seen() -> None:
    tensor = torch.ones(2, dtype=torch.complex64)
    state = TensorState(tensor)
    tensor.data = tensor.data.conj()
    assert not state.is_current(tensor)


@pytest.mark.parametrize("other", [torch.Tensor.clone, torch.Tensor.detach, lambda x: x.data])
def test_another_tensor_is_not_the_same(other: Callable[[Tensor], Tensor]) -> None:
    tensor = torch.ones(3)
    state, another = TensorState(tensor), other(tensor)
    assert not state.is_current(another)


@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_a_sparse_tensor_is_told_from_others(layout: torch.layout) -> None:
    tensor = torch.eye(3).to_sparse(layout=layout)
    state = TensorState(tensor)
    assert state.is_current(tensor)
    tensor.mul_(2)
    assert not state.is_current(tensor)


def test_no_memory_is_kept() -> None:
    tensor = torch.ones(3)
    storage = StorageWeakRef(tensor.untyped_storage())
    state = TensorState(tensor)
    del tensor
    assert storage.expired()
    assert state.counts_writes


def test_a_tensor_of_inference_mode_says_that_writes_are_not_counted() -> None:
    with torch.inference_mode():
        tensor = torch.ones(3)
    state = TensorState(tensor)
    assert state.is_current(tensor)
    assert not state.counts_writes
