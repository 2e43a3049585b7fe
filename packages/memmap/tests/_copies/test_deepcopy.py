"""Deep copies. Tests of the rows of the semantics table carry the name of the row."""

import copy
import functools
import gc
import io
import pickle
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from memmap import (
    ModuleMemoryMap,
    NonLeafError,
    StorageError,
    memory_aware_deepcopy,
    memory_aware_to,
    overlapping_pairs,
    overlaps,
)
from memmap._copies._allocate import empty_bytes
from memmap.testing import (
    Holder,
    allocated_nbytes,
    content_of,
    modules,
    sharing_of,
    tensor_views,
    tensors_of,
    touched_bytes,
)

# Most tests go on holding the memory that they make modules of.
pytestmark = pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
BETA = pytest.mark.filterwarnings("ignore:.*(prototype|beta).*:UserWarning")


class Copier(Holder):
    """A module that copies itself with its views."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Copier":
        return memory_aware_deepcopy(self, memo)


def storages_of(tensors: Iterable[torch.Tensor]) -> dict[int, torch.UntypedStorage]:
    return {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}


def nbytes_of(module: torch.nn.Module) -> int:
    return allocated_nbytes(tensor for _, tensor in tensors_of(module))


def bytes_needed(tensors: list[torch.Tensor], pack: bool) -> int:
    """One buffer per storage (or per component of bounds), its start rounded down to 64.

    Components that meet through the rounding are one.
    """
    needed = 0
    for identity, storage in storages_of(tensors).items():
        bounds = sorted(
            (min(touched) - storage.data_ptr(), max(touched) + 1 - storage.data_ptr())
            for tensor in tensors
            if tensor.untyped_storage()._cdata == identity and (touched := touched_bytes(tensor))
        )
        spans: list[list[int]] = []
        for start, stop in bounds:
            if spans and (start // 64 * 64 < spans[-1][1] or not pack):
                spans[-1][1] = max(spans[-1][1], stop)
            else:
                spans.append([start // 64 * 64, stop])
        needed += sum(stop - start for start, stop in spans)
    return needed


def identities(things: Iterable[object]) -> list[int]:
    first: dict[int, int] = {}
    return [first.setdefault(id(thing), len(first)) for thing in things]


def structure_of(module: torch.nn.Module) -> list[object]:
    nodes = list(module.modules())
    number = {id(node): i for i, node in enumerate(nodes)}
    return [
        (
            type(node),
            [(name, child and number[id(child)]) for name, child in node._modules.items()],
            [(name, entry is None) for name, entry in node._parameters.items()],
            [(name, entry is None) for name, entry in node._buffers.items()],
            node._non_persistent_buffers_set,
            sorted(node.__dict__),
        )
        for node in nodes
    ]


def looks_of(tensor: torch.Tensor) -> tuple[object, ...]:
    return (
        type(tensor), tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(),
        tensor.is_neg(), tensor.requires_grad, tensor.is_leaf, tensor.device,
    )  # fmt: skip


def assert_copied(source: list[torch.Tensor], made: list[torch.Tensor]) -> None:
    assert sharing_of(made) == sharing_of(source)
    assert identities(made) == identities(source)
    assert [looks_of(t) for t in made] == [looks_of(t) for t in source]
    assert [content_of(t) for t in made] == [content_of(t) for t in source]
    before, after = ({b for t in ts for b in touched_bytes(t)} for ts in (source, made))
    assert before.isdisjoint(after)
    assert storages_of(source).keys().isdisjoint(storages_of(made))


def relative_addresses(tensors: list[torch.Tensor]) -> list[int]:
    """Distance of each tensor from the first one in its storage."""
    first: dict[int, int] = {}
    at = [(t.untyped_storage()._cdata, t.storage_offset() * t.element_size()) for t in tensors]
    return [int(offset) - first.setdefault(identity, int(offset)) for identity, offset in at]


@given(modules())
def test_a_copy_shares_what_the_source_shares(module: torch.nn.Module) -> None:
    made = memory_aware_deepcopy(module)
    assert structure_of(made) == structure_of(module)
    assert [path for path, _ in tensors_of(made)] == [path for path, _ in tensors_of(module)]
    before, after = ([tensor for _, tensor in tensors_of(m)] for m in (module, made))
    assert_copied(before, after)
    assert nbytes_of(made) == bytes_needed(before, pack=False)
    assert set(identities(made.modules())).isdisjoint({id(m) for m in module.modules()})
    if all(tensor.numel() for tensor in before):
        assert len(storages_of(after)) == len(storages_of(before))
        assert relative_addresses(after) == relative_addresses(before)


@given(modules())
def test_a_packed_copy_has_no_gaps(module: torch.nn.Module) -> None:
    made = memory_aware_deepcopy(module, pack=True)
    before, after = ([tensor for _, tensor in tensors_of(m)] for m in (module, made))
    assert_copied(before, after)
    assert nbytes_of(made) == bytes_needed(before, pack=True)


@given(modules(), st.booleans())
def test_a_copy_of_a_copy_is_as_good(module: torch.nn.Module, pack: bool) -> None:
    made = memory_aware_deepcopy(memory_aware_deepcopy(module, pack=pack))
    assert_copied([t for _, t in tensors_of(module)], [t for _, t in tensors_of(made)])
    assert nbytes_of(made) <= nbytes_of(module)


@given(modules(dtypes=[torch.float32, torch.int64, torch.complex64, torch.uint8]))
def test_copies_can_be_pickled(module: torch.nn.Module) -> None:
    made = memory_aware_deepcopy(module)
    again = pickle.loads(pickle.dumps(made))
    # Pickle drops gradients, and writes every storage once for each view.
    before, after = (
        [tensor for path, tensor in tensors_of(m) if not path.endswith(".grad")]
        for m in (made, again)
    )
    assert [looks_of(t)[:4] for t in after] == [looks_of(t)[:4] for t in before]
    assert [content_of(t) for t in after] == [content_of(t) for t in before]


@given(st.data())
def test_inside_a_larger_copy_what_is_shared_stays_shared(data: st.DataObject) -> None:
    module = data.draw(modules())
    tensors = [tensor for _, tensor in tensors_of(module)]
    some = [storage for storage in storages_of(tensors).values() if storage.nbytes()]
    # Tensors outside are copied by torch, which writes out conjugate and negative bits.
    views = data.draw(
        st.lists(st.sampled_from(some).flatmap(lambda s: tensor_views(s, bits=False)), max_size=3)
    )
    inner = data.draw(st.sampled_from(list(module.modules())))
    parts: list[Any] = [Copier(part=module), Copier(part=inner, views=views), *views]
    larger = data.draw(st.permutations(parts))
    made = copy.deepcopy(larger)

    def all_of(parts: list[Any]) -> list[torch.Tensor]:
        listed = []
        for part in parts:
            owner = part if isinstance(part, Holder) else Copier(it=part)
            listed += [tensor for _, tensor in tensors_of(owner)]
        return listed

    before, after = all_of(larger), all_of(made)
    assert sharing_of(after) == sharing_of(before)
    assert identities(after) == identities(before)
    assert [content_of(t) for t in after] == [content_of(t) for t in before]
    assert storages_of(before).keys().isdisjoint(storages_of(after))


def two_views(size: int = 10, **kw: Any) -> Holder:
    flat = torch.arange(float(size), **kw)
    return Copier(a=torch.nn.Parameter(flat[: size - 4]), b=torch.nn.Parameter(flat[4:]))


# Rows of the table.


def test_scope_parameters_buffers_gradients_attributes_and_containers() -> None:
    flat = torch.arange(12.0)
    module = Copier(p=torch.nn.Parameter(flat[:6]), b=flat[3:9])
    module.p.grad = flat[6:]
    module.plain = flat[1:2]
    module.nested = {"list": [flat[::2], (flat[5:],)], flat[2:3]: {1, 2}}
    made = memory_aware_deepcopy(module)
    (key,) = [key for key in made.nested if isinstance(key, torch.Tensor)]
    (old_key,) = [key for key in module.nested if isinstance(key, torch.Tensor)]
    before = [t for _, t in tensors_of(module)] + [old_key]
    after = [t for _, t in tensors_of(made)] + [key]
    assert_copied(before, after)
    assert len(storages_of(after)) == 1
    assert made.nested[key] == {1, 2}


def test_grouping_recognises_aliases_of_foreign_memory() -> None:
    array = np.arange(16, dtype=np.float32)
    module = Copier(
        a=torch.from_numpy(array[:10]), b=torch.from_numpy(array[6:]),
        c=torch.frombuffer(array, dtype=torch.int32, offset=20),
        d=torch.from_dlpack(array[2:4]),  # type: ignore[attr-defined]
    )  # fmt: skip
    made = memory_aware_deepcopy(module)
    assert_copied([t for _, t in tensors_of(module)], [t for _, t in tensors_of(made)])
    assert nbytes_of(made) == 64


def test_grouping_joins_storages_that_overlap_in_a_chain() -> None:
    memory = torch.arange(64, dtype=torch.uint8).untyped_storage()
    parts = [torch.empty(0, dtype=torch.uint8).set_(memory[i : i + 9]) for i in (3, 19, 11, 27)]
    module = Copier(**{f"part{i}": part for i, part in enumerate(parts)})
    made = memory_aware_deepcopy(module)
    assert_copied([t for _, t in tensors_of(module)], [t for _, t in tensors_of(made)])
    assert len(storages_of(t for _, t in tensors_of(made))) == 1


def test_parameter_identity_one_new_parameter_per_source_object() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    made = memory_aware_deepcopy(module)
    assert made[0].weight is made[1].weight
    assert made[0].weight is not module[0].weight
    assert len(list(made.parameters())) == 3


def test_shared_submodules_and_module_cycles() -> None:
    inner, outer = Copier(w=torch.zeros(2)), Copier()
    outer.first, outer.second, inner.back = inner, inner, outer
    made = memory_aware_deepcopy(outer)
    assert made.first is made.second
    assert made.first.back is made
    assert made is not outer


def test_memo_a_module_that_was_copied_is_found_again() -> None:
    memo: dict[int, Any] = {}
    module = two_views()
    made = memory_aware_deepcopy(module, memo)
    assert memory_aware_deepcopy(module, memo) is made
    assert copy.deepcopy(module.a, memo) is made.a


@pytest.mark.parametrize("module_first", [True, False])
def test_inside_a_larger_copy_a_wider_view_completes_the_storage(module_first: bool) -> None:
    flat = torch.arange(100.0)
    module = Copier(a=torch.nn.Parameter(flat[40:50]))
    parts: list[Any] = [module, flat] if module_first else [flat, module]
    made: list[Any] = copy.deepcopy(parts)
    made_module, made_flat = made if module_first else reversed(made)
    assert sharing_of([made_module.a, made_flat]) == sharing_of([module.a, flat])
    assert torch.equal(made_flat, flat)
    assert not overlaps(made_flat, flat)


def test_inside_a_larger_copy_nothing_else_is_copied_in_full() -> None:
    flat = torch.zeros(10_000)
    made: dict[str, Any] = copy.deepcopy({"module": Copier(a=flat[:10]), "other": torch.zeros(3)})
    assert made["module"].a.untyped_storage().nbytes() == 40


def test_inside_a_larger_copy_parts_of_a_tensor_are_not_torn_apart() -> None:
    flat = torch.zeros(4)
    holder = Copier()
    holder.sparse = torch.sparse_coo_tensor(
        torch.tensor([[0, 1]]), flat[:2], (2,), is_coalesced=True, check_invariants=False
    )
    with pytest.raises(StorageError, match=r"sparse\.values: a part of a tensor must not share"):
        copy.deepcopy([holder, flat])


def test_inside_a_larger_copy_modules_that_exist_only_for_a_moment_are_not_mixed_up() -> None:
    class Making(Copier):
        def __getstate__(self) -> dict[str, Any]:
            return {**self.__dict__, "made": two_views()}

    class Ordinary:
        def __getstate__(self) -> dict[str, Any]:
            return {"made": two_views()}  # may lie where a module of the other class has lain

    made: Any = copy.deepcopy([kind() for _ in range(9) for kind in (Making, Ordinary)])
    assert all(overlaps(part.made.a, part.made.b) for part in made)


def test_non_tensor_attributes_ordinary_deepcopy() -> None:
    class Counts:
        def __init__(self) -> None:
            self.by_name = {"a": [1, 2]}

        def __deepcopy__(self, memo: dict[int, Any]) -> "Counts":
            made = Counts()
            made.by_name = {"copied": [len(self.by_name)]}
            return made

    module = Copier()
    module.counts, module.names, module.function = Counts(), [["x"]], len
    made = memory_aware_deepcopy(module)
    assert made.counts.by_name == {"copied": [1]}
    assert made.names == [["x"]] and made.names[0] is not module.names[0]
    assert made.function is len


def test_conj_and_neg_bits_the_raw_bytes_and_the_bit() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    module = Copier(x=x, conj=x.conj(), minus=x.conj().imag)
    made = memory_aware_deepcopy(module)
    assert made.conj.is_conj() and made.minus.is_neg()
    assert torch.equal(made.minus, torch.tensor([-2.0, 4.0]))
    assert nbytes_of(made) == 16
    made.x[0] = 5 + 6j
    assert made.conj[0] == 5 - 6j and made.minus[0] == -6


def test_lazy_bits_of_tensors_that_fill_their_storage() -> None:
    x, z = torch.arange(3.0), torch.tensor([1 + 2j, 3 - 4j])
    module = Copier(minus=torch._neg_view(x).data, conj=z.conj().data)
    made = memory_aware_deepcopy(module)
    assert_copied([t for _, t in tensors_of(module)], [t for _, t in tensors_of(made)])
    assert made.minus.is_neg() and made.conj.is_conj()
    assert made.minus.tolist() == [0, -1, -2] and made.conj.tolist() == [1 - 2j, 3 + 4j]


def test_reinterpreted_types_byte_copy() -> None:
    x = torch.tensor([1.0, float("nan"), -0.0])
    module = Copier(x=torch.nn.Parameter(x), i=x.view(torch.int32), u=x.view(torch.uint8)[3:7])
    made = memory_aware_deepcopy(module)
    assert_copied([t for _, t in tensors_of(module)], [t for _, t in tensors_of(made)])
    assert nbytes_of(made) == 12


def test_complex_parameters_and_their_reals() -> None:
    w = torch.nn.Parameter(torch.arange(4).to(torch.complex64))
    module = Copier(w=w, real=torch.nn.Parameter(torch.view_as_real(w.detach())))
    made = memory_aware_deepcopy(module)
    assert nbytes_of(made) == 32
    assert overlaps(made.w, made.real)


def test_stride_0_keeps_strides_and_copies_the_span_once() -> None:
    module = Copier(p=torch.nn.Parameter(torch.ones(1, 8).expand(1000, 8)))
    made = memory_aware_deepcopy(module)
    assert made.p.stride() == (0, 1)
    assert nbytes_of(made) == 32


def test_internal_overlap_keeps_strides_and_copies_the_span_once() -> None:
    module = Copier(windows=torch.arange(20.0).unfold(0, 5, 1))
    made = memory_aware_deepcopy(module)
    assert made.windows.stride() == (1, 1)
    assert nbytes_of(made) == 80


def test_gaps_one_buffer_from_the_first_byte_rounded_down_to_the_last() -> None:
    flat = torch.arange(1000.0)
    module = Copier(a=flat[101:111], b=flat[500:510])
    made = memory_aware_deepcopy(module)
    assert nbytes_of(made) == 4 * 510 - 384
    assert torch.equal(made.a, module.a) and torch.equal(made.b, module.b)


def test_pack_one_buffer_per_component_of_bounds() -> None:
    flat = torch.arange(1000.0)
    module = Copier(a=flat[96:111], b=flat[500:510], c=flat[496:504])
    made = memory_aware_deepcopy(module, pack=True)
    assert nbytes_of(made) == 60 + 56
    assert overlaps(made.b, made.c)
    assert len(storages_of(t for _, t in tensors_of(made))) == 2


def test_pack_keeps_together_what_overlaps_beside_components_that_are_close() -> None:
    flat = torch.arange(200, dtype=torch.uint8)
    module = Copier(x=flat[60:135], y=flat[129:140], b=flat[140:150], c=flat[150:160])
    made = memory_aware_deepcopy(module, pack=True)
    assert_copied([t for _, t in tensors_of(module)], [t for _, t in tensors_of(made)])
    assert nbytes_of(made) == 160


def test_one_allocation_for_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(nbytes: int, device: torch.device) -> torch.Tensor:
        sizes.append(nbytes)
        return empty_bytes(nbytes, device)

    monkeypatch.setattr("memmap._copies._buffers.empty_bytes", counted)
    flat = torch.zeros(64)
    module = Copier(other=torch.zeros(7), **{f"p{i}": flat[i : i + 30] for i in range(20)})
    memory_aware_deepcopy(module)
    assert sizes.count(196) == 1
    assert sum(sizes) <= 196 + 28, "a tensor that shares nothing may be cloned instead"


def test_aliases_outside_the_module_the_copy_detaches() -> None:
    flat = torch.zeros(10)
    made = memory_aware_deepcopy(Copier(a=flat[:5]))
    flat.fill_(1)
    assert not made.a.any()


def test_requires_grad_grad_and_attributes_kept() -> None:
    module = two_views()
    module.b.requires_grad_(False)
    module.a.grad = torch.ones(6)
    module.a.note = ["trained"]
    made = memory_aware_deepcopy(module)
    assert (made.a.requires_grad, made.b.requires_grad) == (True, False)
    assert torch.equal(made.a.grad, torch.ones(6)) and made.b.grad is None
    assert made.a.grad is not module.a.grad
    assert made.a.note == ["trained"] and made.a.note is not module.a.note
    made.train(False)
    assert module.training


@pytest.mark.parametrize("chosen", [torch.float64, None])
@pytest.mark.parametrize(
    "change",
    [
        memory_aware_deepcopy,
        lambda m: ModuleMemoryMap().copy_to(m, "cpu"),
        lambda m: memory_aware_to(m, "meta"),
        lambda m: memory_aware_to(m, dtype=torch.bfloat16),
        lambda m: memory_aware_to(m, dtype=torch.bfloat16, low_memory=True),
    ],
)
def test_gradients_of_another_type_than_their_tensor_keep_it(change: Any, chosen: Any) -> None:
    flat = torch.ones(6)
    module = Holder(a=torch.nn.Parameter(flat[:4]), b=torch.nn.Parameter(torch.ones(3)))
    module.c = torch.nn.Parameter(flat[2:])
    for parameter in (module.a, module.b):
        parameter.grad_dtype = chosen
        parameter.grad = torch.full_like(parameter, 1 / 3, dtype=torch.float64)
    made = change(module)
    for parameter in (made.a, made.b):
        assert parameter.grad_dtype is chosen and parameter.grad.dtype == torch.float64
        assert parameter.is_meta or parameter.grad[0] == 1 / 3
    assert made.c.grad_dtype is made.c.dtype
    made.b.sum().backward()
    assert made.b.grad.dtype == torch.float64


def test_gradients_flow_in_the_copy_and_only_there() -> None:
    module = two_views()
    made = memory_aware_deepcopy(module)
    (made.a.sum() * 2 + made.b.sum()).backward()
    assert module.a.grad is None
    assert torch.equal(made.a.grad, torch.full((6,), 2.0))


def test_tensors_in_attributes_of_tensors_are_kept_together() -> None:
    module = two_views()
    module.a.scale = module.b.detach()[:2]
    made = memory_aware_deepcopy(module)
    assert overlaps(made.a.scale, made.b)
    assert not overlaps(made.a.scale, module.b)


def test_non_persistent_buffers_and_none_entries_kept() -> None:
    module = torch.nn.Module()
    module.register_buffer("passing", torch.ones(2), persistent=False)
    module.register_buffer("nothing", None)
    module.register_parameter("none", None)
    made = memory_aware_deepcopy(module)
    assert structure_of(made) == structure_of(module)
    assert list(made.state_dict()) == []
    assert dict(made.named_buffers()).keys() == {"passing"}


def test_hooks_of_tensors_are_dropped_unless_asked_for() -> None:
    calls = []
    module = two_views()
    module.a.register_hook(lambda grad: calls.append("grad"))
    module.a.register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))
    memory_aware_deepcopy(module).a.sum().backward()
    assert calls == []
    memory_aware_deepcopy(module, hooks=True).a.sum().backward()
    assert calls == ["grad", "accumulated"]


def test_hooks_of_modules_are_copied_along() -> None:
    calls = []
    module = torch.nn.Linear(2, 2)
    module.register_forward_hook(lambda *_: calls.append("forward"))
    memory_aware_deepcopy(module)(torch.zeros(2))
    assert calls == ["forward"]


def test_non_leaf_tensors_raise_naming_the_path() -> None:
    layer = Copier(weight=torch.nn.Parameter(torch.ones(2)))
    layer.seen = {"last": [layer.weight * 2]}
    module = torch.nn.Sequential(layer)
    with pytest.raises(NonLeafError, match=r"0\.seen\['last'\]\[0\]: a tensor .* must be a leaf"):
        memory_aware_deepcopy(module)


def test_non_leaf_tensors_are_detached_when_asked() -> None:
    module = torch.nn.Linear(2, 2)
    module.half = module.weight[:1]  # type: ignore[assignment]
    made = memory_aware_deepcopy(module, detach=True)
    half = made.half
    assert isinstance(half, torch.Tensor)
    assert half.is_leaf
    assert overlaps(half, made.weight)
    assert torch.equal(half, module.weight[:1])


def test_meta_topology_without_data() -> None:
    flat = torch.empty(10, device="meta")
    module = Copier(a=torch.nn.Parameter(flat[:6]), b=flat[4:], c=torch.empty(2, device="meta"))
    made = memory_aware_deepcopy(module)
    before, after = ([t for _, t in tensors_of(m)] for m in (module, made))
    assert [looks_of(t) for t in after] == [looks_of(t) for t in before]
    assert sharing_of(after) == sharing_of(before)
    assert storages_of(before).keys().isdisjoint(storages_of(after))
    assert nbytes_of(made) == 48


def test_fake_topology_without_data() -> None:
    with FakeTensorMode():
        flat = torch.empty(10)
        module = Copier(a=torch.nn.Parameter(flat[:6]), b=flat[4:])
    made = memory_aware_deepcopy(module)
    assert overlaps(made.a, made.b)
    assert isinstance(made.b, FakeTensor) and made.b.device.type == "cpu"
    assert not overlaps(made.a, module.a)


def sparse_of(values: torch.Tensor) -> torch.Tensor:
    indices = torch.arange(len(values))[None]
    return torch.sparse_coo_tensor(indices, values, (9,), check_invariants=True)


def compressed_of(values: torch.Tensor) -> torch.Tensor:
    columns = torch.arange(len(values))
    return torch.sparse_csr_tensor(
        torch.tensor([0, len(values)]), columns, values, (1, 9), check_invariants=True
    )


def compressed_columns_of(values: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(len(values))
    return torch.sparse_csc_tensor(
        torch.tensor([0, len(values)]), rows, values, (9, 1), check_invariants=True
    )


def jagged_of(values: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 1, len(values)]))


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


@BETA
@pytest.mark.parametrize("make", [sparse_of, compressed_of, compressed_columns_of, jagged_of])
def test_sparse_and_nested_tensors_recurse_into_components(
    make: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    flat = torch.arange(6.0)
    module = Copier(whole=make(flat[1:5]), flat=flat)
    made = memory_aware_deepcopy(module)
    assert overlaps(values_of(made.whole), made.flat)
    assert not overlaps(values_of(made.whole), flat)
    assert torch.equal(values_of(made.whole), flat[1:5])
    assert made.whole.layout == module.whole.layout
    assert made.whole.shape[0] == module.whole.shape[0]
    made.flat[1] = 9
    assert values_of(made.whole)[0] == 9


@BETA
def test_jagged_tensors_with_the_same_offsets_can_still_be_added() -> None:
    offsets = torch.tensor([0, 1, 4])
    first, second = (
        torch.nested.nested_tensor_from_jagged(values, offsets)
        for values in (torch.ones(4), torch.zeros(4))
    )
    made = memory_aware_deepcopy(Copier(first=first, second=second))
    total = made.first + made.second + made.first * 2
    assert total.values().tolist() == [3, 3, 3, 3]


@BETA
def test_jagged_parameters_that_were_used_can_be_copied() -> None:
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    module = Holder(w=torch.nn.Parameter(jagged))
    assert module.w.values().sum() == 5  # torch keeps the sizes in a C pointer now
    made = memory_aware_deepcopy(module)
    (made.w * 2).values().sum().backward()
    assert made.w.grad.values().tolist() == [2] * 5 and module.w.grad is None


@BETA
def test_strided_nested_tensors_recurse_into_components() -> None:
    module = Copier(n=torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]))
    made = memory_aware_deepcopy(module)
    assert [part.tolist() for part in made.n.unbind()] == [[1, 1], [0, 0, 0]]
    assert not overlaps(made.n.values(), module.n.values())


@pytest.mark.filterwarnings("ignore:.*quantized.*:UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_quantized_tensors_keep_scale_and_zero_point() -> None:
    x = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 3, torch.quint8)
    made = memory_aware_deepcopy(Copier(x=x))
    assert (made.x.q_scale(), made.x.q_zero_point()) == (0.5, 3)
    assert torch.equal(made.x.dequantize(), x.dequantize())


def test_empty_and_0_dim_keep_the_group_if_the_offset_lies_in_the_span() -> None:
    flat = torch.arange(10.0)
    module = Copier(a=flat[2:8], inside=flat[4:4], scalar=flat[5], outside=torch.empty(0, 3))
    made = memory_aware_deepcopy(module)
    assert made.inside.untyped_storage()._cdata == made.a.untyped_storage()._cdata
    assert overlaps(made.scalar, made.a) and made.scalar == 5
    assert made.outside.shape == (0, 3)
    assert nbytes_of(made) == 32


def test_an_empty_tensor_alone_takes_no_bytes() -> None:
    flat = torch.zeros(1000)
    made = memory_aware_deepcopy(Copier(a=flat[500:500], b=flat[:4]))
    assert nbytes_of(made) == 16


def flattened_lstm() -> torch.nn.LSTM:
    lstm = torch.nn.LSTM(3, 4, 2)
    flat = torch.cat([p.detach().ravel() for p in lstm.parameters()])
    start = 0
    for parameter in lstm.parameters():
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return lstm


def test_rnn_weights_stay_flat() -> None:
    lstm = flattened_lstm()
    made = memory_aware_deepcopy(lstm)
    assert len(storages_of(made.parameters())) == 1
    assert all(a is b for a, b in zip(made._flat_weights, made.parameters(), strict=True))
    x = torch.randn(5, 1, 3)
    assert torch.equal(made(x)[0], lstm(x)[0])


def test_subclasses_of_tensors_and_their_attributes() -> None:
    class Tagged(torch.nn.Parameter):
        tag: str

    class Slotted(torch.Tensor):
        __slots__ = ("unit",)
        unit: str

    flat = torch.zeros(6)
    module = Copier(a=Tagged(flat[:4]))
    module.a.tag = "weights"
    slotted = flat[2:].as_subclass(Slotted)
    slotted.unit = "mm"
    module.s = slotted
    made = memory_aware_deepcopy(module)
    assert type(made.a) is Tagged and made.a.tag == "weights"
    assert type(made.s) is Slotted and made.s.unit == "mm"
    assert overlaps(made.a, made.s)


def test_objects_with_a_deepcopy_of_their_own_stay_related() -> None:
    class Own:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

        def __deepcopy__(self, memo: dict[int, Any]) -> "Own":
            return Own(copy.deepcopy(self.tensor, memo))

    flat = torch.zeros(10)
    module = Copier(a=torch.nn.Parameter(flat[:6]))
    module.own = Own(flat[4:])
    made = memory_aware_deepcopy(module)
    assert overlaps(made.own.tensor, made.a)
    assert not overlaps(made.own.tensor, flat)


def test_the_state_that_a_module_drops_is_not_copied() -> None:
    class Caching(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.cache: torch.Tensor | None = self.weight * 2

        def __getstate__(self) -> dict[str, Any]:
            return {**self.__dict__, "cache": None}

    made = memory_aware_deepcopy(Caching())
    assert made.cache is None
    assert torch.equal(made.weight, torch.ones(2))


def test_containers_of_modules() -> None:
    flat = torch.arange(8.0)
    a, b = torch.nn.Parameter(flat[:5]), torch.nn.Parameter(flat[3:])
    for container in (
        torch.nn.ParameterList([a, b, a]),
        torch.nn.ParameterDict({"a": a, "b": b}),
        torch.nn.ModuleList([Copier(a=a), Copier(b=b)]),
    ):
        made = memory_aware_deepcopy(container)
        assert type(made) is type(container)
        assert_copied([t for _, t in tensors_of(container)], [t for _, t in tensors_of(made)])


def test_a_copy_of_a_parametrized_module_shares_no_memory() -> None:
    module = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
    made = memory_aware_deepcopy(module)
    x = torch.eye(3)
    assert torch.equal(made(x), module(x))
    assert not overlapping_pairs([*made.parameters(), *module.parameters()])


def test_a_copy_can_be_saved_and_loaded() -> None:
    made = memory_aware_deepcopy(two_views())
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    assert overlaps(state["a"], state["b"])
    assert file.getbuffer().nbytes < 4000


def test_a_copy_keeps_nothing_of_the_source_alive() -> None:
    module = two_views()
    gone = weakref.ref(module.a)
    made = memory_aware_deepcopy(module)
    del module
    gc.collect()
    assert gone() is None
    assert made.a[3] == 3


def test_a_lazy_clone_is_copied_and_stays_lazy() -> None:
    base = torch.arange(4.0)
    lazy = torch._lazy_clone(base)
    made = memory_aware_deepcopy(Copier(base=base, lazy=lazy))
    assert not overlaps(made.base, made.lazy)
    assert torch.equal(made.lazy, base)
    assert torch._C._is_cow_tensor(lazy)  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_lazy_parameters_and_elements_that_share_a_byte_are_left_to_torch() -> None:
    module: Any = torch.nn.LazyLinear(3)
    x, scales, zeros = torch.eye(2), torch.ones(2), torch.zeros(2)
    module.small = torch.quantize_per_channel(x, scales, zeros, 0, torch.quint4x2)
    made = memory_aware_deepcopy(module)
    assert isinstance(made.weight, torch.nn.UninitializedParameter)
    assert made.weight is not module.weight
    assert made.small is not module.small and torch.equal(made.small.dequantize(), x)


@pytest.mark.parametrize(
    "change",
    [
        memory_aware_deepcopy,
        copy.deepcopy,
        lambda m: memory_aware_to(m, "meta"),
        lambda m: ModuleMemoryMap().copy_to(m, "cpu"),
    ],
)
def test_numbers_of_few_bits_share_memory(change: Any) -> None:
    """torch has no arithmetic for them, not even copies."""
    flat = torch.arange(10, dtype=torch.uint8).view(vars(torch)["uint4"])
    module = Copier(a=flat[:6], b=flat[4:], alone=torch.ones(3, dtype=torch.int8).view(flat.dtype))
    made = change(module)
    assert overlaps(made.a, made.b) and made.alone.dtype == flat.dtype
    assert made.a.is_meta or [*content_of(made.b), *content_of(made.alone)] == [
        *range(4, 10),
        1,
        1,
        1,
    ]


def test_copies_of_parametrized_modules_need_no_pickling_as_the_root() -> None:
    module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    made = memory_aware_deepcopy(module)
    assert torch.equal(made.weight, module.weight)
    assert not overlaps(
        made.parametrizations.weight.original1, module.parametrizations.weight.original1
    )


def test_inside_a_larger_copy_parameters_met_before_their_module_stay_tied() -> None:
    module = Copier(w=torch.nn.Parameter(torch.ones(2, 2)), other=torch.nn.Parameter(torch.ones(2)))
    module.w.grad = torch.full((2, 2), 3.0)
    for larger in ([module.w, module], [module, module.w], {"a": [module.w], "b": (module,)}):
        made: Any = copy.deepcopy(larger)
        first, second = made if isinstance(made, list) else (made["a"][0], made["b"][0])
        weight, holder = (first, second) if isinstance(second, Holder) else (second, first)
        assert holder.w is weight
        assert torch.equal(weight.grad, module.w.grad)
        assert type(weight) is torch.nn.Parameter and weight.requires_grad


def test_inside_a_larger_copy_an_optimizer_met_first_holds_the_parameters_of_the_copy() -> None:
    class Trainer:
        def __init__(self) -> None:
            model = Copier(w=torch.nn.Parameter(torch.ones(2)))
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
            self.model = model

    made = copy.deepcopy(Trainer())
    made.model.w.sum().backward()
    made.optimizer.step()
    assert made.model.w.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("whole", [True, False])
def test_inside_a_larger_copy_views_of_parameters_met_before_stay_views(whole: bool) -> None:
    flat = torch.arange(8.0)
    module = Copier(w=torch.nn.Parameter(flat if whole else flat[2:6]), view=flat[1:4])
    weight, made = copy.deepcopy([module.w, module])
    assert made.w is weight
    assert_copied([module.w, module.view], [made.w, made.view])
    module.v2 = torch.nn.Parameter(flat[3:7])
    weight, second, made = copy.deepcopy([module.w, module.v2, module])
    assert made.w is weight and made.v2 is second
    assert_copied([module.w, module.view, module.v2], [made.w, made.view, made.v2])


def test_inside_a_larger_copy_parameters_that_overlap_and_were_met_before_do_so_again() -> None:
    flat = torch.arange(8.0)
    module = Copier(p=torch.nn.Parameter(flat[:5]), q=torch.nn.Parameter(flat[3:]))
    first, second, made = copy.deepcopy([module.p, module.q, module])
    assert made.p is first and made.q is second
    assert_copied([module.p, module.q], [made.p, made.q])


@pytest.mark.parametrize("size", [3, 5])
def test_inside_a_larger_copy_hooks_of_parameters_met_before_are_copied_once(size: int) -> None:
    class Hooked(Holder):
        def __deepcopy__(self, memo: dict[int, Any]) -> "Hooked":
            return memory_aware_deepcopy(self, memo, hooks=True)

    calls = []
    weight: Any = torch.nn.Parameter(torch.ones(size)[:3])
    weight.register_hook(lambda gradient: calls.append("hook"))
    made, *holders = copy.deepcopy([weight, Hooked(w=weight), Hooked(w=weight)])
    assert all(holder.w is made for holder in holders)
    made.sum().backward()
    assert calls == ["hook"]


def test_parts_of_unknown_layout_are_copied_with_their_whole() -> None:
    from torch.testing._internal.logging_tensor import LoggingTensor
    from torch.testing._internal.two_tensor import TwoTensor

    halves = [LoggingTensor(torch.ones(4)) for _ in range(2)]
    module = Copier(two=TwoTensor(*halves))
    made = memory_aware_deepcopy(module)
    assert type(made.two) is TwoTensor and type(made.two.a) is LoggingTensor
    assert made.two.a is not halves[0] and not overlaps(made.two.a.elem, halves[0].elem)
    memory_aware_to(module, "meta")
    assert module.two.a.is_meta and module.two.device.type == "meta"


def test_memo_what_somebody_put_there_stands_as_it_is() -> None:
    flat = torch.zeros(4)
    module = Copier(w=torch.nn.Parameter(flat[:3]), view=flat[1:])
    other = torch.nn.Parameter(torch.full((3,), 7.0))
    made = memory_aware_deepcopy(module, {id(module.w): other})
    assert made.w is other and other.tolist() == [7, 7, 7]
    assert not overlaps(made.view, other)


def is_refused_backward(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether autograd notices a write to the second between forward and backward of the first."""
    loss = (first.detach().requires_grad_() ** 2).sum()
    with torch.no_grad():
        second.add_(1)
    try:
        loss.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return True
    return False


def flat_pair() -> Holder:
    flat = torch.zeros(4)
    return Copier(a=torch.nn.Parameter(flat[:3]), b=torch.nn.Parameter(flat[1:]), c=flat[2:])


def counters_of(tensors: list[torch.Tensor]) -> list[list[bool]]:
    related = []
    for tensor in tensors:
        before = [other._version for other in tensors]
        with torch.no_grad():
            tensor.add_(0)
        related.append([o._version != v for o, v in zip(tensors, before, strict=True)])
    return related


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": memory_aware_deepcopy,
    "packed": lambda module: memory_aware_deepcopy(module, pack=True),
    "inner": lambda module: copy.deepcopy([module])[0],
    "placed": lambda module: ModuleMemoryMap(module).copy_to(module, "cpu"),
    "moved": lambda module: memory_aware_to(module, dtype=torch.float64),
    "slowly": lambda module: memory_aware_to(module, dtype=torch.float64, low_memory=True),
    "away": lambda module: ModuleMemoryMap(module).memory_aware_to(module, "cpu"),
}


@pytest.mark.parametrize("name", COPIES)
def test_autograd_notices_writes_through_other_tensors_of_a_copy(name: str) -> None:
    made = COPIES[name](flat_pair())
    for first in (made.a, made.b, made.c):
        for second in (made.a, made.b, made.c):
            assert is_refused_backward(first, second)


@pytest.mark.parametrize("name", COPIES)
def test_writes_are_counted_together_in_a_copy_as_in_the_source(name: str) -> None:
    def module() -> Holder:
        flat = torch.zeros(12)
        parts = {"p": torch.nn.Parameter(flat[:3]), "q": flat[2:5], "r": flat.data[4:8]}
        made = Copier(**parts, s=flat[3:], alone=torch.zeros(3), m=made_twice(flat))
        made.t = torch.nn.Parameter(made.r[1:])
        return made

    def made_twice(flat: torch.Tensor) -> torch.Tensor:
        other = flat.data
        return other[5:]

    source = module()
    before = [source._version for source in source.state_dict(keep_vars=True).values()]
    made = COPIES[name](source)
    if made is not source:
        after = [tensor._version for tensor in source.state_dict(keep_vars=True).values()]
        assert after == before
    expected = counters_of(list(module().state_dict(keep_vars=True).values()))
    assert counters_of(list(made.state_dict(keep_vars=True).values())) == expected


def test_writes_are_counted_together_across_the_modules_of_a_larger_copy_and_of_a_map() -> None:
    flat = torch.zeros(6)
    parts = [
        Copier(a=torch.nn.Parameter(flat)),
        Copier(b=flat[2:]),
        Copier(c=flat.data[1:]),
    ]
    memory_map = ModuleMemoryMap()
    for part in parts:
        memory_map.register_module(part)
    for made in (copy.deepcopy(parts), [memory_map.copy_to(part, "cpu") for part in parts]):
        tensors = [made[0].a, made[1].b, made[2].c]
        assert counters_of(tensors) == [[True, True, False]] * 2 + [[False, False, True]]
    memory_map.release("cpu")


@pytest.mark.parametrize("name", sorted(COPIES.keys() - {"inner"}))  # a layer does not copy itself
def test_what_is_copied_or_moved_in_inference_mode_can_be_trained(name: str) -> None:
    layer = torch.nn.Linear(2, 2)
    with torch.inference_mode():
        made = COPIES[name](layer)
        assert torch.is_inference_mode_enabled()
    made(torch.ones(1, 2, dtype=made.weight.dtype)).sum().backward()
    assert made.weight.grad is not None


def test_copies_of_tensors_of_inference_mode_share_memory() -> None:
    with torch.inference_mode():
        module = Copier(a=(flat := torch.zeros(4))[:3], b=flat[1:])
    made = memory_aware_deepcopy(module)
    assert overlaps(made.a, made.b)


def test_copies_can_be_resized() -> None:
    flat = torch.zeros(4)
    made = memory_aware_deepcopy(Copier(a=flat[:3], b=flat[1:]))
    assert made.b.resize_(2).shape == (2,)


@pytest.mark.parametrize("name", ["copy", "packed", "inner", "placed"])
def test_cycles_through_attributes_of_tensors_lead_to_the_copy(name: str) -> None:
    module: Any = torch.nn.Sequential(torch.nn.Linear(2, 2), Copier(b=torch.zeros(2)))
    for tensor in (module[0].weight, module[1].b):
        tensor.owner = module
    module[0].weight.grad = torch.ones(2, 2)
    module[0].weight.grad.owners = [module, module[0]]
    made = COPIES[name](module)
    assert made[0].weight.owner is made and made[1].b.owner is made
    assert made[0].weight.grad.owners[0] is made and made[0].weight.grad.owners[1] is made[0]


def test_cycles_through_attributes_of_tensors_of_modules_with_a_reduce_of_their_own() -> None:
    class Stateful(torch.nn.Linear):
        seen: Any

        def __getstate__(self) -> dict[str, Any]:
            return self.__dict__.copy()

        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state)  # type: ignore[no-untyped-call]
            self.seen = vars(self.weight)["tag"]

    module = Stateful(2, 2)
    vars(module.weight).update(owner=module, tag="tag")
    made = memory_aware_deepcopy(module)
    assert vars(made.weight)["owner"] is made and made.seen == "tag"


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("nest", [lambda m: m, torch.nn.Sequential, lambda m: Holder(parts=[m])])
def test_a_copy_of_a_scripted_module_is_trained_without_its_source(nest: Any) -> None:
    layer = torch.nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    source = torch.jit.script(layer)

    def scripted(holder: Any) -> Any:
        return holder.parts[0] if isinstance(holder, Holder) else [*holder.modules()][-1]

    made = scripted(memory_aware_deepcopy(nest(source)))
    made(torch.ones(1, 2)).sum().backward()
    assert made.weight.is_leaf and made.weight.grad.tolist() == [[1, 1], [1, 1]]
    assert source.weight.grad is None and not made.bias.requires_grad


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_modules_that_torch_copies_in_its_own_way_are_copied_so_as_the_root() -> None:
    source = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    graph = torch.fx.symbolic_trace(source)
    graph.meta["note"] = ["kept"]
    weight = graph.get_parameter("weight")
    vars(weight)["owner"] = graph
    exported = torch.export.export(torch.nn.Linear(2, 2), (x,)).module()
    for module in (torch.jit.script(source), graph, exported):
        made = memory_aware_deepcopy(module)
        assert type(made).__bases__[0] in type(module).__mro__ and made is not module
        assert torch.equal(made(x), module(x))
        assert not overlapping_pairs([*made.parameters(), *module.parameters()])
    made = memory_aware_deepcopy(graph)
    assert made.meta == {"note": ["kept"]} and made.meta["note"] is not graph.meta["note"]
    assert vars(made.get_parameter("weight"))["owner"] is made


def test_graphs_keep_their_views_alone_and_inside_of_a_module() -> None:
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            flat = torch.arange(4.0)
            self.a, self.b = torch.nn.Parameter(flat[:3]), torch.nn.Parameter(flat[1:])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.a + self.b

    graph = torch.fx.symbolic_trace(Sum())
    for made in (
        memory_aware_deepcopy(graph),
        memory_aware_deepcopy(Copier(graph=graph)).graph,
    ):
        assert isinstance(made, torch.fx.GraphModule)
        before, after = ([t for _, t in tensors_of(m)] for m in (graph, made))
        assert_copied(before, after)
        assert torch.equal(made(torch.ones(3)), graph(torch.ones(3)))


def test_hooks_of_tensors_that_are_methods_of_the_module_are_bound_to_the_copy() -> None:
    class Counting(torch.nn.Linear):
        calls = 0

        def count(self, gradient: torch.Tensor) -> None:
            self.calls += 1

    module = Counting(2, 2)
    weight: Any = module.weight
    bias: Any = module.bias
    weight.register_hook(module.count)
    bias.register_post_accumulate_grad_hook(module.count)
    made = memory_aware_deepcopy(module, hooks=True)
    made(torch.ones(1, 2)).sum().backward()
    assert (module.calls, made.calls) == (0, 2)


@pytest.mark.parametrize("value", [None, torch.zeros(2), [torch.nn.Linear(1, 1)]])
def test_what_is_no_module_is_refused(value: Any) -> None:
    for copied in (memory_aware_deepcopy, ModuleMemoryMap().memory_aware_deepcopy):
        with pytest.raises(TypeError, match=r"memory_aware_deepcopy: module must be a torch\.nn\."):
            copied(value)


def test_a_memo_that_is_no_dictionary_is_refused() -> None:
    with pytest.raises(TypeError, match="memo must be the dict of a deep copy, got 3"):
        memory_aware_deepcopy(torch.nn.Linear(1, 1), 3)  # type: ignore[arg-type]


class _Called:
    def __call__(self, module: torch.nn.Module) -> torch.nn.Module:
        return module


@pytest.mark.parametrize("function", [functools.partial(lambda module: module), _Called()])
def test_a_bound_method_over_any_callable_is_bound_to_the_copy(function: Any) -> None:
    module = Copier(w=torch.nn.Parameter(torch.zeros(2)))
    module.act = types.MethodType(function, module)
    made: Any = memory_aware_deepcopy(module)
    assert made.act.__func__ is function and made.act() is made


class _Irreducible:
    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("not this one")


def test_an_object_that_cannot_be_copied_does_not_hinder_a_move() -> None:
    module = Copier(w=torch.nn.Parameter(torch.zeros(2)))
    module.thing = _Irreducible()
    memory_aware_to(module, "meta", attributes=True)
    with pytest.raises(RuntimeError, match="not this one"):
        memory_aware_deepcopy(module)
