import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.dlpack
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef

from memmap import (
    MemoryReport,
    StorageError,
    View,
    footprint,
    overlapping_pairs,
    overlaps,
    same_storage,
    view_of,
)
from memmap.testing import DTYPES, tensor_views, touched_bytes, views


@given(st.data())
def test_a_view_touches_the_bytes_that_its_tensor_has(data: st.DataObject) -> None:
    storage = torch.zeros(40).untyped_storage()
    tensor = data.draw(tensor_views(storage))
    view = view_of(tensor)
    assert touched_bytes(view) == touched_bytes(tensor)
    assert view.storage_span == (storage.data_ptr(), storage.data_ptr() + 160)
    assert (view.is_conj, view.is_neg) == (tensor.is_conj(), tensor.is_neg())
    assert (view.sizes, view.itemsize) == (tuple(tensor.shape), tensor.element_size())


@given(st.data())
def test_a_meta_tensor_has_the_view_that_it_would_have_on_a_cpu(data: st.DataObject) -> None:
    storage = torch.zeros(40).untyped_storage()
    tensor = data.draw(tensor_views(storage))
    memory = torch.empty(160, dtype=torch.uint8, device="meta").untyped_storage()
    meta = torch.empty(0, dtype=tensor.dtype, device="meta")
    meta.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())
    got, expected = view_of(meta), view_of(tensor)
    assert got[2:7] == expected[2:7]
    if expected.span is None:
        assert got.span is None
    else:
        assert got.span == tuple(end - storage.data_ptr() for end in expected.span)


@given(views())
def test_the_span_is_from_the_first_byte_to_the_last(view: View) -> None:
    touched = touched_bytes(view)
    assert view.span == ((min(touched), max(touched) + 1) if touched else None)


@given(views(nbytes=40))
def test_the_layout_lists_exactly_the_touched_bytes(view: View) -> None:
    layout = view.layout()
    touched = set(touched_bytes(view))
    if layout is None:
        assert not touched
        return
    listed = [layout.start]
    for stride, count in layout.dims:
        listed = [byte + stride * i for byte in listed for i in range(count)]
    assert set(listed) == touched
    assert (len(listed) == len(touched)) or not layout.is_nested
    assert layout.n_points == len(listed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_itemsize_is_counted_in_bytes(dtype: torch.dtype) -> None:
    view = view_of(torch.zeros(3, 5, dtype=dtype)[1:, 2])
    itemsize = dtype.itemsize
    assert (view.offset, view.strides, view.itemsize) == (7 * itemsize, (5 * itemsize,), itemsize)


def test_a_tensor_of_no_dimensions_is_one_element() -> None:
    view = view_of(torch.tensor(1.0))
    assert (view.sizes, view.strides, view.span) == ((), (), (view.address, view.address + 4))


def test_a_numpy_array_may_run_backwards() -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[::-1, ::-2]
    view = view_of(array)
    assert touched_bytes(view) == touched_bytes(array)
    assert view.strides == (-8, -4)
    assert view.storage_nbytes == 24


def test_conjugate_and_negative_bits_are_part_of_a_view() -> None:
    tensor = torch.zeros(3, dtype=torch.complex64)
    assert view_of(tensor.conj()).is_conj
    assert view_of(tensor.conj().imag).is_neg
    assert not (view_of(tensor).is_conj or view_of(tensor).is_neg)


def test_a_view_is_a_view_of_itself() -> None:
    view = view_of(torch.zeros(3))
    assert view_of(view) is view


def aliases_of_one_array() -> dict[str, Any]:
    array = np.zeros(16, np.float32)
    tensor = torch.from_numpy(array)
    sliced = torch.empty(0).set_(tensor.untyped_storage()[16:48], 0, (8,), (1,))
    return {
        "array": array,
        "from_numpy": tensor,
        "from_numpy again": torch.from_numpy(array),
        "as_tensor": torch.as_tensor(array),
        "part": torch.from_numpy(array[2:9]),
        "DLPack": torch.utils.dlpack.from_dlpack(tensor),
        "DLPack of the array": torch.utils.dlpack.from_dlpack(array),
        "frombuffer": torch.frombuffer(array, dtype=torch.int32, offset=8),
        "storage slice": sliced,
        "numpy": tensor.numpy(),
        "detach": tensor.detach(),
        "other type": tensor.view(torch.int64),
    }


ALIASES = aliases_of_one_array()


@pytest.mark.parametrize("first", ALIASES)
@pytest.mark.parametrize("second", ALIASES)
def test_memory_reached_in_any_way_is_recognised(first: str, second: str) -> None:
    a, b = ALIASES[first], ALIASES[second]
    assert same_storage(a, b)
    assert overlaps(a, b) == bool(set(touched_bytes(a)) & set(touched_bytes(b)))
    assert overlaps(a, b)


def test_a_copy_is_in_another_storage() -> None:
    tensor = torch.zeros(4)
    assert not same_storage(tensor, tensor.clone())
    assert not same_storage(tensor, np.zeros(4))


def test_parts_of_one_array_are_in_one_storage() -> None:
    array = np.zeros(10)
    assert same_storage(array[:2], array[7:])
    buffer = bytearray(64)
    first, second = np.frombuffer(buffer, np.uint8, 8, 0), np.frombuffer(buffer, np.uint8, 8, 32)
    assert same_storage(first, second)


def test_a_storage_of_no_bytes_is_itself() -> None:
    tensor = torch.empty(0)
    assert same_storage(tensor, tensor.view(0, 1))
    assert not same_storage(tensor, torch.empty(0))


def test_meta_tensors_share_memory_only_through_one_storage() -> None:
    tensor = torch.empty(6, device="meta")
    assert same_storage(tensor[:2], tensor[4:])
    assert overlaps(tensor[:4], tensor[3:])
    assert not overlaps(tensor[:3], tensor[3:])
    assert not overlaps(tensor, torch.empty(6, device="meta"))
    assert not same_storage(tensor, torch.empty(6, device="meta"))
    assert view_of(tensor).space != torch.device("meta")


def test_fake_tensors_share_memory_only_through_one_storage() -> None:
    with FakeTensorMode():
        tensor = torch.empty(4, 6, device="cpu")
        other = torch.empty(4, 6, device="cpu")
        assert overlaps(tensor[:, :3], tensor[:, 2:])
        assert not overlaps(tensor[:, :3], tensor[:, 3:])
        assert not overlaps(tensor, other)
        assert view_of(tensor[1, 2:]).offset == 32


def test_the_space_of_a_meta_tensor_compares_with_other_spaces() -> None:
    tensor = torch.empty(4, device="meta")
    space = view_of(tensor).space
    assert space == view_of(tensor[1:]).space
    assert hash(space) == hash(view_of(tensor[1:]).space)
    assert space != "RAM"
    assert space is tensor.untyped_storage()


def test_a_view_keeps_no_memory_alive() -> None:
    tensor = torch.zeros(1000)
    memory = StorageWeakRef(tensor.untyped_storage())
    view = view_of(tensor)
    del tensor
    gc.collect()
    assert memory.expired()
    assert view.storage_nbytes == 4000


def test_a_view_of_a_meta_tensor_keeps_the_identity_of_its_storage() -> None:
    kept = [view_of(torch.empty(6, device="meta")) for _ in range(50)]
    assert len({view.space for view in kept}) == 50


def test_a_lazy_clone_stays_lazy() -> None:
    tensor = torch.zeros(8)
    clone = torch._lazy_clone(tensor)
    assert not overlaps(clone, tensor)
    assert overlaps(clone[:4], clone[3:])
    assert torch._C._is_cow_tensor(clone)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["uint4", "uint1", "int2", "int7"])
def test_numbers_of_few_bits_take_a_byte_each(name: str) -> None:
    whole = torch.arange(8, dtype=torch.uint8)
    few = whole.view(getattr(torch, name))
    assert few.untyped_storage().nbytes() == footprint(few).nbytes == 8
    assert overlaps(few[:3], whole[2:]) and not overlaps(few[:3], whole[3:])


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_elements_that_share_a_byte_are_refused() -> None:
    scales, zeros = torch.ones(2), torch.zeros(2)
    tensor = torch.quantize_per_channel(torch.ones(2, 4), scales, zeros, 0, torch.quint4x2)
    assert tensor.untyped_storage().nbytes() == 4
    with pytest.raises(TypeError, match=r"must be whole bytes, got a tensor of torch\.quint4x2"):
        view_of(tensor)
    with pytest.raises(TypeError, match="elements must be whole bytes"):
        overlaps(tensor, torch.zeros(1))


@pytest.mark.filterwarnings("ignore:.*(prototype|beta).*:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.eye(2).to_sparse_csr(),
        lambda: torch.eye(2).to_mkldnn(),
        lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    ],
    ids=["coordinates", "compressed", "mkldnn", "nested"],
)
def test_tensors_that_are_not_strided_are_refused(make: Callable[[], torch.Tensor]) -> None:
    tensor = make()
    with pytest.raises(TypeError, match="the tensor must be strided, got a Tensor"):
        view_of(tensor)
    with pytest.raises(TypeError, match="the tensor must be strided, got a Tensor"):
        overlaps(tensor, tensor)


@pytest.mark.filterwarnings("ignore:.*prototype.*:UserWarning")
def test_wrappers_are_refused() -> None:
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    with pytest.raises(TypeError, match=r"must (have its own memory|be strided), got"):
        view_of(ragged)


@pytest.mark.parametrize("value", [None, 3.0, [1.0], "weights"])
def test_what_has_no_memory_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="must be a tensor, a NumPy array or a View, got"):
        view_of(value)


def test_a_view_needs_a_stride_for_each_dimension() -> None:
    with pytest.raises(ValueError, match="one entry per dimension, got 2 sizes and 1 strides"):
        View("RAM", 0, 64, 0, (2, 2), (1,))


@pytest.mark.parametrize(
    ("nbytes", "sizes", "itemsize"), [(-1, (), 1), (8, (-1,), 1), (8, (1,), -2)]
)
def test_a_view_has_no_negative_extent(nbytes: int, sizes: tuple[int, ...], itemsize: int) -> None:
    with pytest.raises(ValueError, match="must not be negative, got"):
        View("RAM", 0, nbytes, 0, sizes, (1,) * len(sizes), itemsize)


@pytest.mark.parametrize(("offset", "stride"), [(-1, 1), (7, 1), (2, -2), (0, 5), (8, 0)])
def test_a_view_lies_in_its_storage(offset: int, stride: int) -> None:
    with pytest.raises(ValueError, match="must lie in its storage of 8 bytes, got elements at"):
        View("RAM", 1000, 8, offset, (3,), (stride,), 1)


def test_a_tensor_whose_storage_was_freed_is_refused() -> None:
    tensor = torch.zeros(4)
    tensor.untyped_storage().resize_(0)
    for ask in (view_of(tensor).layout, lambda: overlaps(tensor, tensor)):
        with pytest.raises(StorageError, match=r"storage of 0 bytes, got .* 0 to 15; it was freed"):
            ask()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_tensor_that_lost_its_last_byte_is_refused(dtype: torch.dtype) -> None:
    tensor = torch.zeros(6, dtype=dtype)[1::2]
    tensor.untyped_storage().resize_(6 * dtype.itemsize - 1)
    for ask in (overlaps, lambda a, b: overlapping_pairs([a, b]), lambda a, b: footprint(a)):
        with pytest.raises(StorageError, match="every element must lie in its storage of"):
            ask(tensor, tensor)
    assert footprint(tensor[:-1]).nbytes == 2 * dtype.itemsize


@pytest.mark.parametrize(
    "entries",
    [
        {"sizes": (1.5,), "strides": (4,)},
        {"sizes": (1,), "strides": (1.0,)},
        {"sizes": 3, "strides": 4},
        {"offset": 0.5},
        {"itemsize": None},
        {"storage_address": "0"},
        {"storage_nbytes": 8.0},
    ],
)
def test_a_view_whose_numbers_are_no_integers_is_refused(entries: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"View: addresses, offset, .* must be integers: "):
        View(**{"space": "RAM", "storage_address": 0, "storage_nbytes": 8, **entries})


def test_a_space_by_which_nothing_is_found_is_refused() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        View([], 0, 8)  # type: ignore[arg-type]  # what the test is about


def test_integers_of_numpy_are_integers() -> None:
    size, stride = np.int64(2), np.int32(4)
    view = View("RAM", np.int64(0), np.uint8(8), sizes=(size,), strides=(stride,), itemsize=4)  # type: ignore[arg-type]
    assert view == View("RAM", 0, 8, sizes=(2,), strides=(4,), itemsize=4)
    assert type(view.sizes[0]) is int


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.grad, torch.func.functionalize])
def test_a_tensor_inside_of_a_transform_has_no_memory_of_its_own(transform: Any) -> None:
    def ask(x: torch.Tensor) -> torch.Tensor:
        with pytest.raises(TypeError, match=r"without any .inside of a transform of torch"):
            overlaps(x, x)
        return x.sum()

    transform(ask)(torch.ones(2, 2) if transform is torch.func.vmap else torch.ones(2))


def test_the_zeros_of_autograd_have_no_memory() -> None:
    zeros = torch._efficientzerotensor(3)
    with pytest.raises(TypeError, match=r"must have its own memory, got a Tensor .* without any"):
        view_of(zeros)
    assert MemoryReport({"z": zeros}).unplaced == ("z",)
