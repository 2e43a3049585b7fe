from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from memmap import (
    AliasError,
    AliasWarning,
    ModuleMemoryMap,
    MoveError,
    NonLeafError,
    StorageError,
    overlaps,
    union_nbytes,
)
from memmap._copies import _buffers
from memmap._copies._allocate import empty_bytes
from memmap.testing import (
    Holder,
    allocated_nbytes,
    content_of,
    modules,
    sharing_of,
    tensors_of,
)

PACK = st.sampled_from([False, True, "close"])


def all_of(parts: list[torch.nn.Module]) -> list[torch.Tensor]:
    return [tensor for part in parts for _, tensor in tensors_of(part)]


def snapshot(module: torch.nn.Module) -> list[tuple[object, ...]]:
    return [
        (path, id(t), t.device, t.untyped_storage()._cdata, t.storage_offset(), t.stride())
        for path, t in tensors_of(module)
    ]


@pytest.mark.parametrize("device", ["meta", "cpu"])
@given(modules(), st.data(), PACK)
def test_copies_on_a_device_share_what_the_sources_share(
    device: str, module: torch.nn.Module, data: st.DataObject, pack: Any
) -> None:
    inner = data.draw(st.sampled_from(list(module.modules())))
    parts = data.draw(st.permutations([module, inner]))
    memory_map = ModuleMemoryMap()
    for part in parts:
        memory_map.register_module(part, data.draw(st.sampled_from([device, None])))
    before = snapshot(module)
    made = [memory_map.copy_to(part, device, pack=pack) for part in parts]
    assert snapshot(module) == before, "the source stays as it is"
    source, target = all_of(parts), all_of(made)
    assert all(tensor.device.type == device for tensor in target)
    assert sharing_of(target) == sharing_of(source)
    assert [id(t) for t in target] != [id(t) for t in source]
    if device == "cpu":
        assert [content_of(t) for t in target] == [content_of(t) for t in source]
        assert not any(overlaps(a, b) for a in source for b in target)


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
@given(modules(attributes=False), st.data(), PACK)
def test_what_was_sent_once_is_found_again(
    module: torch.nn.Module, data: st.DataObject, pack: Any
) -> None:
    inner = data.draw(st.sampled_from(list(module.modules())))
    memory_map = ModuleMemoryMap(module)
    memory_map.copy_to(module, "meta", pack=pack)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_buffers, "empty_bytes", refused)
        memory_map.copy_to(inner, "meta", pack=pack)
        memory_map.memory_aware_to(inner, "meta", pack=pack)
    assert all(t.is_meta for p, t in tensors_of(inner) if "._parameters." in p or "._buffers." in p)


def refused(nbytes: int, device: torch.device) -> torch.Tensor:
    raise AssertionError("nothing should be allocated")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each allocation on a device."""
    sizes = []

    def counted(nbytes: int, device: torch.device) -> torch.Tensor:
        sizes.append(nbytes)
        return empty_bytes(nbytes, device)

    monkeypatch.setattr(_buffers, "empty_bytes", counted)
    return sizes


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_columns_send_only_the_touched_bytes(device: str, sent: list[int]) -> None:
    matrix = torch.arange(64 * 64.0).view(64, 64)
    module = Holder(a=matrix[:, 8:12], b=matrix[:, 10:14])
    made = ModuleMemoryMap().copy_to(module, device)
    assert sum(sent) == union_nbytes([module.a, module.b]) == 64 * 6 * 4
    assert overlaps(made.a, made.b)
    if device == "cpu":
        assert torch.equal(made.a, module.a) and torch.equal(made.b, module.b)


def test_a_second_module_sends_only_what_is_new(sent: list[int]) -> None:
    flat = torch.zeros(1000)
    first, second = Holder(a=flat[:100]), Holder(a=flat[:100].data, b=torch.zeros(3))
    memory_map = ModuleMemoryMap()
    for module in (first, second):
        memory_map.register_module(module, "meta")
    a = memory_map.copy_to(first, "meta")
    assert sent == [400]
    b = memory_map.copy_to(second, "meta")
    assert sorted(sent) == [12, 400]
    assert overlaps(a.a, b.a)
    memory_map.copy_to(second, "meta")
    assert sorted(sent) == [12, 400]


def test_a_device_receives_only_what_the_modules_meant_for_it_touch(sent: list[int]) -> None:
    flat = torch.zeros(1000)
    here, there = Holder(a=flat[:10]), Holder(a=flat[500:])
    memory_map = ModuleMemoryMap()
    memory_map.register_module(here, "meta")
    memory_map.register_module(there, "cpu")
    memory_map.copy_to(here, "meta", pack=False)
    assert sent == [40]


def test_the_same_object_in_two_modules_is_one_object_in_the_copies() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    memory_map = ModuleMemoryMap()
    parts = [Holder(w=weight), Holder(v=weight)]
    first, second = (memory_map.copy_to(part, "meta") for part in parts)
    assert first.w is second.v and first.w is not weight


def test_modules_moved_one_after_the_other_still_overlap() -> None:
    flat = torch.zeros(20)
    first, second = Holder(a=flat[:12].data), Holder(b=flat[8:].data)
    del flat
    memory_map = ModuleMemoryMap(first)
    memory_map.register_module(second)
    for module in (first, second):
        assert memory_map.memory_aware_to(module, "meta", strict=True) is module
    assert overlaps(first.a, second.b)
    assert allocated_nbytes([first.a, second.b]) == 80


def test_what_nobody_registered_is_outside() -> None:
    flat = torch.zeros(20)
    module = Holder(a=flat[:12].data)
    with pytest.raises(AliasError, match=r"a \(by 1\)"):
        ModuleMemoryMap().memory_aware_to(module, "meta", strict=True)
    with pytest.warns(AliasWarning, match=r"a \(by 1\)"):
        ModuleMemoryMap().memory_aware_to(module, "meta")
    assert flat.device.type == "cpu"


def test_a_view_that_was_placed_in_part_is_refused() -> None:
    flat = torch.zeros(20)
    memory_map = ModuleMemoryMap()
    memory_map.copy_to(Holder(a=flat[:12]), "meta")
    for beyond in (flat[8:], flat[8:13]):
        with pytest.raises(StorageError, match="b: a view must lie inside or outside of"):
            memory_map.copy_to(Holder(b=beyond), "meta")
    assert memory_map.copy_to(Holder(c=flat[2:7]), "meta").c.is_meta
    assert memory_map.copy_to(Holder(d=flat[12:]), "meta").d.is_meta


def test_storages_that_share_memory_must_be_known_before_one_is_placed() -> None:
    array = np.zeros(10, np.float32)
    memory_map = ModuleMemoryMap()
    first = Holder(a=torch.from_numpy(array[:6]))
    memory_map.copy_to(first, "meta")
    second = Holder(b=torch.from_numpy(array[4:]))
    with pytest.raises(StorageError, match="storages that share memory must be known before"):
        memory_map.copy_to(second, "meta")
    known = ModuleMemoryMap(first)
    known.register_module(second)
    assert overlaps(known.copy_to(first, "meta").a, known.copy_to(second, "meta").b)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=6))
def test_storages_are_placed_if_they_share_no_memory_with_one_that_was(
    intervals: list[tuple[int, int]],
) -> None:
    array = np.zeros(26, np.float32)
    memory_map = ModuleMemoryMap()
    placed: list[torch.Tensor] = []
    for start, length in intervals:
        tensor = torch.from_numpy(array[start : start + length])
        if any(overlaps(tensor, other) for other in placed):
            with pytest.raises(StorageError, match=r"^x: storages that share memory must be known"):
                memory_map.copy_to(Holder(x=tensor), "meta")
        else:
            assert memory_map.copy_to(Holder(x=tensor), "meta").x.is_meta
            placed.append(tensor)


def test_the_storage_that_was_not_known_is_named() -> None:
    array = np.zeros(20, np.float32)
    pieces = [torch.from_numpy(array[start : start + 8]) for start in (0, 4, 10)]
    memory_map = ModuleMemoryMap()
    memory_map.copy_to(Holder(known=pieces[2]), "meta")
    with pytest.raises(StorageError, match=r"^near: storages that share memory must be known"):
        memory_map.copy_to(Holder(far=pieces[0], near=pieces[1]), "meta")


def test_copies_of_fake_tensors_are_on_the_device_they_were_sent_to() -> None:
    with FakeTensorMode():
        flat = torch.zeros(10)
        module = Holder(a=torch.nn.Parameter(flat[:6]), b=flat[4:])
        module.a.grad = torch.ones(6)
        module.a.note = "trained"
    del flat
    memory_map = ModuleMemoryMap(module)
    made = memory_map.copy_to(module, "cuda:1")
    for tensor in (made.a, made.b, made.a.grad):
        assert isinstance(tensor, FakeTensor) and tensor.device == torch.device("cuda:1")
    assert overlaps(made.a, made.b) and made.a.note == "trained"
    assert module.a.device == module.a.grad.device == torch.device("cpu")
    moved = memory_map.memory_aware_to(module, "cuda:1")
    assert moved.a.device == moved.b.device == moved.a.grad.device == torch.device("cuda:1")


def test_release_forgets_so_that_a_change_is_sent() -> None:
    module = Holder(a=torch.zeros(3))
    memory_map = ModuleMemoryMap(module)
    first = memory_map.copy_to(module, "cpu")
    module.a.fill_(5)
    assert memory_map.copy_to(module, "cpu").a.tolist() == [0, 0, 0]
    memory_map.release("meta")
    assert memory_map.copy_to(module, "cpu").a is first.a
    memory_map.release("cpu")
    assert memory_map.copy_to(module, "cpu").a.tolist() == [5, 5, 5]
    memory_map.release()
    assert memory_map.copy_to(module, "cpu").a is not first.a


def test_deep_copies_of_a_map_are_independent() -> None:
    module = Holder(a=torch.zeros(3))
    memory_map = ModuleMemoryMap(module)
    first, second = (memory_map.memory_aware_deepcopy(module) for _ in range(2))
    assert not overlaps(first.a, second.a) and not overlaps(first.a, module.a)


def test_groups_are_the_storages_of_all_registered_modules() -> None:
    flat = torch.zeros(20)
    memory_map = ModuleMemoryMap(Holder(a=flat[:12]))
    memory_map.register_module(Holder(b=flat[8:], other=torch.zeros(1)))
    assert len(memory_map.groups) == 2
    assert ModuleMemoryMap().groups == []


def test_non_leaf_tensors_raise_naming_the_path() -> None:
    module = Holder(w=torch.nn.Parameter(torch.ones(2)))
    module.seen = module.w * 2
    memory_map = ModuleMemoryMap(module)
    with pytest.raises(NonLeafError, match="seen: a tensor to be copied must be a leaf"):
        memory_map.copy_to(module, "meta")
    made = memory_map.copy_to(module, "meta", detach=True)
    assert made.seen.is_meta and made.seen.is_leaf


def test_meta_tensors_have_no_data_to_send() -> None:
    with pytest.raises(MoveError, match="m: a tensor that moves must have data"):
        ModuleMemoryMap().copy_to(Holder(m=torch.empty(3, device="meta")), "cpu")


def test_gradients_and_attributes_arrive_with_a_copy() -> None:
    module = Holder(w=torch.nn.Parameter(torch.ones(3)))
    module.w.grad = torch.zeros(3)
    module.names = ["a"]
    made = ModuleMemoryMap().copy_to(module, "meta")
    assert made.w.grad.is_meta and made.w.requires_grad
    assert made.names == ["a"] and made.names is not module.names
    assert not module.w.is_meta and not module.w.grad.is_meta


def test_the_first_allocation_that_fails_leaves_the_module_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def fail_later(nbytes: int, device: torch.device) -> torch.Tensor:
        calls.append(nbytes)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no memory left")
        return empty_bytes(nbytes, device)

    monkeypatch.setattr(_buffers, "empty_bytes", fail_later)
    module = Holder(a=torch.zeros(2), b=torch.zeros(3), c=torch.zeros(4))
    before = snapshot(module)
    memory_map = ModuleMemoryMap(module)
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_map.memory_aware_to(module, "meta")
    assert snapshot(module) == before
    assert memory_map.memory_aware_to(module, "meta").a.is_meta


CHANGES: dict[str, Callable[[Holder], object]] = {
    "type": lambda m: m.double(),
    "flag": lambda m: m.w.requires_grad_(False),
    "memory": lambda m: setattr(m.w, "data", torch.full((2, 2), 7.0)),
    "shape": lambda m: setattr(m.w, "data", m.w.data.view(4)),
    "strides": lambda m: setattr(m.w, "data", m.w.data.T),
    "type of gradients": lambda m: setattr(m.w, "grad_dtype", None),
    "gradient": lambda m: setattr(m.w, "grad", torch.full((2, 2), 5.0)),
    "class": lambda m: setattr(m.w, "__class__", OtherParameter),
}


class OtherParameter(torch.nn.Parameter):
    pass


@pytest.mark.parametrize("change", CHANGES)
def test_a_tensor_that_has_become_another_is_copied_anew(change: str) -> None:
    module = Holder(w=torch.nn.Parameter(torch.arange(4.0).view(2, 2)))
    memory_map = ModuleMemoryMap(module)
    first = memory_map.copy_to(module, "cpu")
    CHANGES[change](module)
    made = memory_map.copy_to(module, "cpu")
    assert made.w is not first.w and type(made.w) is type(module.w)
    assert (made.w.dtype, made.w.shape, made.w.stride(), made.w.requires_grad) == (
        module.w.dtype, module.w.shape, module.w.stride(), module.w.requires_grad,
    )  # fmt: skip
    assert torch.equal(made.w, module.w) and made.w.grad_dtype is module.w.grad_dtype
    assert (made.w.grad is None) == (module.w.grad is None)
    assert memory_map.copy_to(module, "cpu").w is made.w


def test_pack_must_be_one_of_three() -> None:
    module, memory_map, pack = Holder(a=torch.ones(2)), ModuleMemoryMap(), cast(Any, "closed")
    for method in (memory_map.copy_to, memory_map.memory_aware_to):
        with pytest.raises(ValueError, match="pack must be False, True or 'close', got 'closed"):
            method(module, "meta", pack=pack)
    assert memory_map.groups == [], "nor is the module registered"


@pytest.mark.parametrize("module", [3, torch.ones(2), [torch.nn.Linear(1, 1)]])
def test_what_is_no_module_is_refused(module: Any) -> None:
    memory_map = ModuleMemoryMap()
    match = r"ModuleMemoryMap: module must be a torch\.nn\.Module or a mapping.* got"
    for method in (memory_map.copy_to, memory_map.memory_aware_to, memory_map.register_module):
        with pytest.raises(TypeError, match=match):
            method(module, "meta")
    with pytest.raises(TypeError, match=match):
        ModuleMemoryMap(module)
    assert memory_map.groups == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_copy_for_a_device_of_what_holds_its_tensors_elsewhere_is_refused() -> None:
    scripted = torch.jit.script(torch.nn.Linear(2, 2))
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), scripted)
    with pytest.raises(MoveError, match=r"^1: a module that moves must hold its tensors itself"):
        ModuleMemoryMap(module).copy_to(module, "meta")


def test_the_other_modules_are_looked_through_only_for_new_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from memmap._copies import _module_map

    matrix = torch.zeros(4, 9)
    parts: list[torch.nn.Module] = [Holder(c=matrix[:, i : i + 3]) for i in range(0, 6, 2)]
    looked: list[object] = []
    traverse = vars(_module_map)["traverse"]

    def noted(source: Any, *args: Any) -> Any:
        looked.append(source)
        return traverse(source, *args)

    monkeypatch.setattr(_module_map, "traverse", noted)
    memory_map = ModuleMemoryMap()
    for part in parts:
        memory_map.register_module(part, "meta")
    made = [memory_map.copy_to(part, "meta") for part in parts]
    assert sharing_of(all_of(made)) == sharing_of(all_of(parts))
    assert looked == [parts[0], *parts, parts[1], parts[2]]


def test_a_placed_tensor_whose_storage_was_made_smaller_is_refused_with_the_path() -> None:
    module = torch.nn.Linear(2, 2)
    memory_map = ModuleMemoryMap(module)
    memory_map.copy_to(module, "meta")
    module.weight.untyped_storage().resize_(4)
    with pytest.raises(StorageError, match=r"weight: view: every element must lie"):
        memory_map.copy_to(module, "meta")


def test_lazy_parameters_are_not_copied_to_a_device() -> None:
    with pytest.raises(
        MoveError, match=r"^weight: a tensor that moves must be initialized, got Unin"
    ):
        ModuleMemoryMap().copy_to(torch.nn.LazyLinear(2), "cpu")
