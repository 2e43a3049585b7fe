"""Moves. Tests of the rows of the semantics table carry the name of the row."""

import copy
import gc
import itertools
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import (
    AliasError,
    AliasWarning,
    CastError,
    ModuleMemoryMap,
    MoveError,
    NonLeafError,
    StorageError,
    memory_aware_deepcopy,
    memory_aware_to,
    overlaps,
)
from memmap._copies._allocate import empty_bytes
from memmap._torch import swap_memory
from memmap.testing import Holder, allocated_nbytes, modules, sharing_of, state_of, tensors_of

BETA = pytest.mark.filterwarnings("ignore:.*(prototype|beta).*:UserWarning")
STATE = [torch.float32, torch.int64, torch.complex64, torch.uint8, torch.complex128, torch.bool]


def two_views(size: int = 10) -> Holder:
    flat = torch.arange(float(size))
    return Holder(a=torch.nn.Parameter(flat[: size - 4]), b=torch.nn.Parameter(flat[4:]))


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
@given(modules(dtypes=STATE))
def test_what_shared_memory_still_does_and_objects_stay(module: torch.nn.Module) -> None:
    before = state_of(module)
    tensors = [tensor for _, tensor in before]
    sharing = sharing_of(tensors)
    looks = [(type(t), t.dtype, t.shape, t.stride(), t.is_conj(), t.is_neg(), t.requires_grad)
             for t in tensors]  # fmt: skip
    spanned = allocated_nbytes(tensors)
    assert memory_aware_to(module, "meta") is module
    after = state_of(module)
    assert [path for path, _ in after] == [path for path, _ in before]
    for (path, old), (_, new) in zip(before, after, strict=True):
        assert old is new, path
    moved = [tensor for _, tensor in after]
    assert all(tensor.is_meta for tensor in moved)
    assert sharing_of(moved) == sharing
    assert looks == [
        (type(t), t.dtype, t.shape, t.stride(), t.is_conj(), t.is_neg(), t.requires_grad)
        for t in moved
    ]
    assert allocated_nbytes(moved) <= spanned


@given(modules())
def test_same_device_is_a_0_byte_no_op_with_the_same_objects(module: torch.nn.Module) -> None:
    before = snapshot(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memmap._copies._buffers.empty_bytes", refused)
        memory_aware_to(module, "cpu")
        memory_aware_to(module, "cpu:0")
        memory_aware_to(module)
    assert snapshot(module) == before


def refused(nbytes: int, device: torch.device) -> torch.Tensor:
    raise AssertionError("nothing should be allocated")


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
@given(modules(dtypes=STATE))
def test_failure_midway_changes_nothing(module: torch.nn.Module) -> None:
    for allowed in range(len(state_of(module)) + 1):
        before = snapshot(module)
        left = allowed

        def allocate(nbytes: int, device: torch.device) -> torch.Tensor:
            nonlocal left
            if left == 0:
                raise torch.OutOfMemoryError("no memory left")
            left -= 1
            return empty_bytes(nbytes, device)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("memmap._copies._buffers.empty_bytes", allocate)
            try:
                memory_aware_to(module, "meta")
                assert all(tensor.is_meta for _, tensor in state_of(module))
                return
            except torch.OutOfMemoryError:
                assert snapshot(module) == before
    raise AssertionError("as many allocations as there are tensors are enough")


def snapshot(module: torch.nn.Module) -> list[tuple[object, ...]]:
    return [
        (path, id(t), t.device, t.dtype, t.untyped_storage()._cdata, t.storage_offset(), t.stride())
        for path, t in tensors_of(module)
    ]


@pytest.mark.parametrize("good", [0, 1, 2])
def test_failure_of_the_commit_is_taken_back(good: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Holder(a=torch.nn.Parameter(torch.ones(3)), b=torch.ones(4), c=torch.ones(5))
    module.a.grad = torch.zeros(3)
    before = snapshot(module)
    calls = []

    def swap_or_fail(first: torch.Tensor, second: torch.Tensor) -> None:
        calls.append(1)
        if len(calls) == good + 1:
            raise RuntimeError("planted")
        swap_memory(first, second)

    monkeypatch.setattr("memmap._modules._commit.swap_memory", swap_or_fail)
    with pytest.raises(RuntimeError, match="planted"):
        memory_aware_to(module, "meta")
    assert snapshot(module) == before
    assert len(calls) == 2 * good + 1, "what was exchanged is exchanged back"


def test_failure_of_a_cast_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    lstm = torch.nn.LSTM(2, 2)
    view = torch.ones(4)[1:]  # has a base, so that it is exchanged, after the others were pointed
    lstm.register_buffer("view", view)
    del view
    before = snapshot(lstm)

    def fail(first: torch.Tensor, second: torch.Tensor) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("memmap._modules._commit.swap_memory", fail)
    with pytest.raises(RuntimeError, match="planted"):
        memory_aware_to(lstm, dtype=torch.float64)
    assert snapshot(lstm) == before
    assert all(a is b for a, b in zip(lstm._flat_weights, lstm.parameters(), strict=False))
    lstm(torch.zeros(1, 1, 2))


# Rows of the table.


def test_parameter_identity_an_optimizer_made_before_the_move_holds_the_right_objects() -> None:
    module = two_views()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    memory_aware_to(module, dtype=torch.float64)
    module.a.sum().backward()
    optimizer.step()
    assert module.a.dtype == torch.float64
    assert module.a.tolist() == [-1, 0, 1, 2, 3, 4]
    assert module.b.tolist() == [3, 4, 6, 7, 8, 9], "b shares its first two numbers with a"


def test_tied_parameters_and_shared_submodules_stay_one() -> None:
    shared = torch.nn.Linear(3, 3)
    module = torch.nn.Sequential(shared, torch.nn.Linear(3, 3), shared)
    module[1].weight = shared.weight
    memory_aware_to(module, "meta")
    assert module[0] is module[2]
    assert module[1].weight is module[0].weight
    assert module[1].weight.is_meta


def test_module_cycles_are_visited_once() -> None:
    inner = Holder(w=torch.zeros(2))
    outer = Holder(inner=inner)
    inner.back = outer
    assert memory_aware_to(outer, "meta").inner.w.is_meta


def test_plain_attributes_are_opt_in() -> None:
    module = Holder(a=torch.zeros(2))
    module.plain, module.listed = torch.zeros(3), [torch.zeros(1)]
    memory_aware_to(module, "meta")
    assert not module.plain.is_meta and not module.listed[0].is_meta
    plain = module.plain
    memory_aware_to(module, "meta", attributes=True)
    assert module.plain is plain and plain.is_meta and module.listed[0].is_meta


def test_gradients_requires_grad_attributes_non_persistent_buffers_and_none_entries() -> None:
    module = two_views()
    module.b.requires_grad_(False)
    module.a.grad = torch.ones(6)
    module.a.note = "trained"
    module.register_buffer("passing", torch.ones(2), persistent=False)
    module.register_buffer("nothing", None)
    memory_aware_to(module, "meta")
    assert module.a.grad.is_meta and module.a.requires_grad and not module.b.requires_grad
    assert module.a.note == "trained"
    assert module.passing.is_meta and module.nothing is None
    assert "passing" not in module.state_dict()


def test_hooks_are_kept() -> None:
    calls = []
    module = two_views()
    module.a.register_hook(lambda grad: calls.append("grad"))
    module.a.register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))
    module.register_forward_pre_hook(lambda *_: None)
    memory_aware_to(module, dtype=torch.float64)
    module.a.sum().backward()
    assert calls == ["grad", "accumulated"]
    assert len(module._forward_pre_hooks) == 1


def test_hooks_are_kept_when_the_tensor_is_exchanged() -> None:
    calls = []
    whole = torch.zeros(6)
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.data = whole[:2]
    module = Holder(p=parameter, buffer=whole[1:])
    del whole, parameter
    module.p.register_hook(lambda grad: calls.append("grad"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliasWarning)
        memory_aware_to(module, "meta")
    module.p.sum().backward()
    assert calls == ["grad"]
    assert overlaps(module.p, module.buffer)


def test_gaps_one_buffer_or_packed() -> None:
    for pack, expected in ((False, 4 * 510 - 384), (True, 60 + 40 + 48)):
        flat = torch.arange(1000.0)
        module = Holder(a=flat[96:111], b=flat[500:510])
        del flat
        memory_aware_to(module, "meta", pack=pack)
        assert allocated_nbytes([module.a, module.b]) == expected - (0 if not pack else 32)


def test_stride_0_and_internal_overlap() -> None:
    module = Holder(p=torch.nn.Parameter(torch.ones(1, 8).expand(1000, 8)))
    module.w = torch.nn.Parameter(torch.arange(20.0).unfold(0, 5, 1))
    memory_aware_to(module, "meta")
    assert module.p.stride() == (0, 1) and module.w.stride() == (1, 1)
    assert allocated_nbytes([module.p]) == 32 and allocated_nbytes([module.w]) == 80


@pytest.fixture
def flat() -> Iterator[torch.Tensor]:
    yield torch.arange(10.0)


def test_aliases_outside_the_module_warn(flat: torch.Tensor) -> None:
    module = Holder(a=torch.nn.Parameter(flat[:4]))
    with pytest.warns(AliasWarning, match=r"got other holders for a \(by 1\)"):
        memory_aware_to(module, "meta")
    assert module.a.is_meta and flat.device.type == "cpu"


def test_aliases_outside_the_module_raise_when_strict(flat: torch.Tensor) -> None:
    module = Holder(a=torch.nn.Parameter(flat[:4]), other=torch.zeros(2))
    before = snapshot(module)
    with pytest.raises(AliasError, match=r"held only by the tensors that move.* a \(by 1\)"):
        memory_aware_to(module, "meta", strict=True)
    assert snapshot(module) == before


def test_nothing_outside_no_warning_even_when_strict() -> None:
    module = two_views()
    module.a.grad = torch.zeros(6)
    memory_aware_to(module, "meta", strict=True)
    assert module.a.is_meta


def test_memory_of_the_source_is_freed() -> None:
    module = two_views()
    old = module.a.untyped_storage()
    memory_aware_to(module, "meta")
    gc.collect()
    assert torch._C._storage_Use_Count(old._cdata) == 1, "only this object still holds it"


def test_partly_moved_module_only_the_groups_that_are_elsewhere() -> None:
    there = torch.empty(6, device="meta")
    module = Holder(a=torch.zeros(2), b=there[:4], c=there[2:])
    kept = module.b.untyped_storage()._cdata
    del there
    memory_aware_to(module, "meta")
    assert module.b.untyped_storage()._cdata == kept == module.c.untyped_storage()._cdata
    assert module.a.is_meta


def test_non_leaf_tensors_raise_naming_the_path() -> None:
    layer = Holder(buffer=torch.zeros(1), w=torch.nn.Parameter(torch.ones(2)))
    module = torch.nn.Sequential(layer)
    layer._buffers["buffer"] = layer.w * 2
    before = snapshot(module)
    with pytest.raises(NonLeafError, match=r"0\.buffer: a tensor to be copied must be a leaf"):
        memory_aware_to(module, "meta")
    assert snapshot(module) == before


def test_meta_has_no_data_to_move() -> None:
    module = Holder(a=torch.zeros(2), m=torch.empty(3, device="meta"))
    before = snapshot(module)
    with pytest.raises(MoveError, match="m: a tensor that moves must have data, got a meta"):
        memory_aware_to(module, "cpu")
    assert snapshot(module) == before


@BETA
@pytest.mark.parametrize("pattern", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_recurse_into_components(pattern: str) -> None:
    module = Holder(s=getattr(torch.eye(4), pattern)())
    memory_aware_to(module, dtype=torch.float64)
    assert module.s.dtype == torch.float64
    assert torch.equal(module.s.to_dense(), torch.eye(4, dtype=torch.float64))


def test_empty_and_0_dim() -> None:
    module = Holder(e=torch.empty(0, 3), s=torch.tensor(3.0))
    memory_aware_to(module, "meta")
    assert module.e.is_meta and module.e.shape == (0, 3) and module.s.shape == ()


def test_rnn_weights_that_share_a_storage_still_do_on_meta() -> None:
    lstm = torch.nn.LSTM(3, 4, 2)
    flat = torch.cat([p.detach().ravel() for p in lstm.parameters()])
    pieces = torch.split(flat, [p.numel() for p in lstm.parameters()])
    for parameter, piece in zip(lstm.parameters(), pieces, strict=True):
        parameter.data = piece.view(parameter.shape)
    del flat, pieces, piece
    memory_aware_to(lstm, "meta", strict=True)
    assert all(a is b for a, b in zip(lstm._flat_weights, lstm.parameters(), strict=True))
    assert allocated_nbytes(list(lstm.parameters())) == sum(p.nbytes for p in lstm.parameters())
    assert len({p.untyped_storage()._cdata for p in lstm.parameters()}) == 1
    assert lstm(torch.empty(5, 1, 3, device="meta"))[0].shape == (5, 1, 4)


def test_rnn_weights_are_flattened_anew() -> None:
    lstm = torch.nn.LSTM(3, 4, 2)
    x = torch.randn(5, 1, 3, dtype=torch.float64)
    expected = lstm.double()(x)[0]
    lstm = lstm.float()
    memory_aware_to(lstm, dtype=torch.float64)
    assert all(a is b for a, b in zip(lstm._flat_weights, lstm.parameters(), strict=True))
    assert torch.allclose(lstm(x)[0], expected, atol=1e-6)


def test_scripted_modules_are_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(torch.nn.Linear(2, 2))
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), scripted)
    with pytest.raises(MoveError, match="1: a module that moves must hold its tensors itself"):
        memory_aware_to(module, "meta")
    assert not module[0].weight.is_meta


def test_scripted_modules_in_attributes_are_refused() -> None:
    """Nothing moves them, so a move that claims all attributes must say so."""
    module: Any = torch.nn.Linear(2, 2)
    module.parts = [SimpleNamespace(inner=torch.jit.ScriptModule())]
    changes: list[Callable[[], object]] = [
        lambda: memory_aware_to(module, dtype=torch.float64, attributes=True),
        lambda: ModuleMemoryMap().copy_to(module, "meta"),
    ]
    for change in changes:
        with pytest.raises(MoveError, match=r"^parts\[0\]\.inner: a module that moves must hold"):
            change()
    assert module.weight.dtype == torch.float32
    assert memory_aware_to(module, dtype=torch.float64).weight.dtype == torch.float64


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_sharded_modules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # the process group sets its own
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        inner = torch.nn.Linear(4, 4)
        fully_shard(inner, mesh=init_device_mesh("cpu", (2,)))
        before = inner.weight
        with pytest.raises(MoveError, match=r"^1: a module that moves must hold its .* FSDPLin"):
            memory_aware_to(torch.nn.Sequential(torch.nn.Linear(4, 4), inner), "meta")
        assert inner.weight is before and before.device.type == "cpu"
    finally:
        torch.distributed.destroy_process_group()


@given(st.data())
def test_views_that_know_of_their_base_move_as_those_that_do_not(data: st.DataObject) -> None:
    tensors = [torch.arange(12.0).view(3, 4)]
    ways: list[Any] = [
        lambda x: x[1:], lambda x: x[..., ::2], lambda x: x.T if x.dim() == 2 else x[None],
        lambda x: x.flatten(), lambda x: x.unfold(-1, 1, 1), lambda x: torch._neg_view(x),
        lambda x: x.expand(2, *x.shape), lambda x: x.detach(),
    ]  # fmt: skip
    for _ in range(data.draw(st.integers(1, 4))):
        source = tensors[data.draw(st.integers(0, len(tensors) - 1))]
        tensors.append(ways[data.draw(st.integers(0, len(ways) - 1))](source))
        del source
    chosen = [data.draw(st.booleans()) for _ in tensors]
    kept = [tensor for tensor, keep in zip(tensors, chosen, strict=True) if keep]
    del tensors
    module = Holder(**{f"t{i}": tensor for i, tensor in enumerate(kept)})
    sharing = sharing_of(kept)
    values = [tensor.resolve_neg().tolist() for tensor in kept]
    low_memory = data.draw(st.booleans())
    memory_aware_to(module, dtype=torch.float64, strict=True, low_memory=low_memory)
    assert sharing_of(kept) == doubled(sharing)
    assert [tensor.resolve_neg().tolist() for tensor in kept] == values
    memory_aware_to(module, "meta", strict=True)
    assert all(tensor.is_meta for tensor in kept)


def doubled(sharing: list[list[int]]) -> list[list[int]]:
    numbers: dict[tuple[int, int], int] = {}
    return [
        [numbers.setdefault((byte, part), len(numbers)) for byte in listed for part in range(2)]
        for listed in sharing
    ]


def test_weak_references_still_refer_to_the_tensor() -> None:
    module = Holder(parameter=torch.nn.Parameter(torch.zeros(3)), view=torch.zeros(6)[1:3])
    references = [weakref.ref(module.parameter), weakref.ref(module.view)]
    memory_aware_to(module, "meta")
    assert [reference() for reference in references] == [module.parameter, module.view]
    assert module.parameter.is_meta and module.view.is_meta


def test_a_parameter_that_a_graph_uses_cannot_be_moved_to_meta() -> None:
    module = Holder(first=torch.zeros(1), p=torch.nn.Parameter(torch.ones(3)))
    total = (module.p * module.p).sum()
    before = snapshot(module)
    with pytest.raises(MoveError, match=r"^p: a .* must not be used by a graph, got one .*delete"):
        memory_aware_to(module, "meta")
    assert snapshot(module) == before
    total.backward()
    assert module.p.grad.tolist() == [2, 2, 2]


def test_a_tensor_and_views_of_it_that_know_of_it_move_together() -> None:
    x = torch.arange(10.0)
    module = Holder(x=x, first=x[:6], last=x[4:], conj=x.view(torch.complex64).conj())
    del x
    memory_aware_to(module, "meta", strict=True)
    moved = [module.x, module.first, module.last, module.conj]
    assert all(tensor.is_meta for tensor in moved)
    assert overlaps(module.first, module.last) and allocated_nbytes(moved) == 40
    assert module.conj.is_conj()


def test_views_know_of_their_base_again_when_their_move_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.arange(10.0)
    module = Holder(x=x, first=x[:6], last=x[4:])
    del x
    before = snapshot(module)

    def swap_or_fail(first: torch.Tensor, second: torch.Tensor) -> None:
        if first is module.last and second.is_meta:
            raise RuntimeError("planted")
        swap_memory(first, second)

    monkeypatch.setattr("memmap._modules._commit.swap_memory", swap_or_fail)
    with pytest.raises(RuntimeError, match="planted"):
        memory_aware_to(module, "meta")
    assert snapshot(module) == before
    assert module.first._base is module.x and module.last._base is module.x
    module.x.add_(1)
    assert module.last._version == 1


def test_what_a_graph_or_dlpack_has_of_a_buffer_stays_as_it_was() -> None:
    scale = torch.ones(3, requires_grad=True)
    module = Holder(weight=torch.arange(3.0), other=torch.arange(3.0))
    total = (module.weight * scale).sum()
    array = np.from_dlpack(module.other)
    with pytest.warns(AliasWarning, match=r"weight \(by 1\); other \(by 1\)"):
        memory_aware_to(module, dtype=torch.float64)
    module.weight.zero_()
    module.other.zero_()
    total.backward()
    assert scale.grad is not None and scale.grad.tolist() == [0, 1, 2]
    assert array.tolist() == [0, 1, 2]


def test_a_graph_that_is_older_than_a_move_to_meta_refuses_to_run() -> None:
    module = torch.nn.Linear(2, 2, bias=False)
    total = module(torch.ones(2)).sum()
    memory_aware_to(Holder(weight=module.weight), "meta")
    with pytest.raises(RuntimeError, match=r"a graph must run backward before its parameters move"):
        total.backward()


def test_a_graph_still_runs_if_the_move_to_meta_was_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = torch.nn.Linear(2, 2)
    total = module(torch.ones(2)).sum()

    def swap_or_fail(first: torch.Tensor, second: torch.Tensor) -> None:
        if first is module.bias and second.is_meta:
            raise RuntimeError("planted")
        swap_memory(first, second)

    monkeypatch.setattr("memmap._modules._commit.swap_memory", swap_or_fail)
    with pytest.raises(RuntimeError, match="planted"):
        memory_aware_to(module, "meta")
    total.backward()
    assert module.weight.grad is not None and module.weight.grad.tolist() == [[1, 1], [1, 1]]


def test_wrapper_subclasses_get_new_parts() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    flat = torch.arange(6.0)
    two: Any = TwoTensor(flat[:4], flat[:4].data)
    module = Holder(two=two)
    del flat
    two.note = "kept"
    memory_aware_to(module, "meta", strict=True)
    assert module.two is two and two.note == "kept"
    assert two.a.is_meta and two.b.is_meta and two.device.type == "meta"
    assert overlaps(two.a, two.b)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.1),
    ],
)
def test_the_state_of_an_optimizer_follows_when_it_is_loaded_anew(make: Any) -> None:
    module, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    other.load_state_dict(module.state_dict())
    x = torch.randn(4, 3)
    optimizer, expected = make(module.parameters()), make(other.parameters())
    for step in range(4):
        if step == 2:
            memory_aware_to(module, dtype=torch.float64)
            optimizer.load_state_dict(optimizer.state_dict())
            state = optimizer.state[module.weight]
            assert all(
                value.dtype == torch.float64
                for name, value in state.items()
                if name != "step" and value is not None
            )
        for layer, its in ((module, optimizer), (other, expected)):
            its.zero_grad()
            layer(x.to(layer.weight.dtype)).square().sum().backward()
            its.step()
    assert torch.allclose(module.weight.float(), other.weight, atol=1e-5)


def test_data_arrive_from_memory_that_numpy_lent() -> None:
    array = np.arange(6.0)
    module = Holder(a=torch.from_numpy(array[:4]), b=torch.from_numpy(array[2:]))
    memory_aware_to(module, dtype=torch.float32)
    assert overlaps(module.a, module.b)
    assert module.b.tolist() == [2, 3, 4, 5]
    array[:] = 0
    assert module.b.tolist() == [2, 3, 4, 5]


def test_lazy_bits_survive_a_move() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    module = Holder(x=x, conj=x.conj().data, minus=x.conj().imag.data)
    del x
    memory_aware_to(module, "meta")
    assert module.conj.is_conj() and module.minus.is_neg()
    assert allocated_nbytes([module.x, module.conj, module.minus]) == 16


def test_a_lazy_parameter_is_refused_by_path() -> None:
    module = torch.nn.Sequential(torch.nn.LazyLinear(3))
    with pytest.raises(MoveError, match=r"0\.weight: a tensor that moves must be initialized"):
        memory_aware_to(module, "meta")


def of_two_roles(whole: torch.Tensor) -> Holder:
    """A buffer that is the gradient of two parameters, too."""
    module = Holder(g=whole[:3], a=torch.nn.Parameter(torch.ones(3)))
    module.b = torch.nn.Parameter(torch.ones(3))
    module.a.grad = module.b.grad = module.g
    return module


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("target", [("meta", None), (None, torch.float64)])
def test_a_gradient_that_is_a_buffer_and_that_of_two_parameters_stays_one_object(
    target: tuple[str | None, torch.dtype | None], size: int, low_memory: bool
) -> None:
    device, dtype = target
    module = of_two_roles(torch.ones(size))
    gradient = module.g
    memory_aware_to(module, device, dtype, strict=True, low_memory=low_memory)
    assert module.g is gradient and module.a.grad is gradient and module.b.grad is gradient
    assert {t.dtype for _, t in state_of(module)} == {dtype or torch.float32}
    assert {t.device.type for _, t in state_of(module)} == {device or "cpu"}


@BETA
@pytest.mark.parametrize("target", [("meta", None), (None, torch.float64)])
def test_a_sparse_gradient_of_two_parameters_stays_one_object(
    target: tuple[str | None, torch.dtype | None],
) -> None:
    gradient = torch.eye(3).to_sparse_csr()
    module = Holder(a=torch.nn.Parameter(gradient.clone()))
    module.b = torch.nn.Parameter(gradient.clone())
    module.a.grad = module.b.grad = gradient
    memory_aware_to(module, *target)
    assert module.a.grad is gradient and module.b.grad is gradient
    assert gradient.dtype == module.a.dtype and gradient.device == module.a.device


def test_gradients_of_two_roles_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    module = of_two_roles(torch.ones(5))
    before = snapshot(module)

    def swap_or_fail(first: torch.Tensor, second: torch.Tensor) -> None:
        swap_memory(first, second)
        if first is module.g and second.device != first.device:
            raise RuntimeError("planted")

    monkeypatch.setattr("memmap._modules._commit.swap_memory", swap_or_fail)
    with pytest.raises(RuntimeError, match="planted"):
        memory_aware_to(module, "meta")
    monkeypatch.undo()
    assert snapshot(module) == before
    assert module.a.grad is module.g and module.b.grad is module.g


def test_a_gradient_that_does_not_fit_its_tensor_is_refused_by_path() -> None:
    module = Holder(a=torch.nn.Parameter(torch.ones(3)))
    module.a.grad = torch.ones(3)
    module.a.data = torch.ones(3, dtype=torch.float64)
    before = snapshot(module)
    with pytest.raises(MoveError, match=r"^a\.grad: a gradient that moves must fit its tensor"):
        memory_aware_to(module, "meta")
    assert snapshot(module) == before


class Interrupt:
    """Raises `KeyboardInterrupt` before one line that is executed in some files of the package."""

    def __init__(
        self, line: int, files: tuple[str, ...] = ("_commit.py", "_move_steps.py")
    ) -> None:
        self.left = line
        self._files = files

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(self._files):
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("target", [("meta", None), (None, torch.float64)])
def test_an_interrupt_before_any_line_leaves_all_or_nothing_moved(
    target: tuple[str | None, torch.dtype | None], low_memory: bool
) -> None:
    for line in itertools.count():
        module = of_two_roles(torch.ones(5))
        module.other = torch.nn.Parameter(torch.ones(2))
        total = module.other.sum()
        module.alone = torch.nn.Buffer(torch.ones(4))
        interrupt = Interrupt(line)
        try:
            with interrupt:
                memory_aware_to(module, *target, low_memory=low_memory)
        except KeyboardInterrupt:
            # Between the body of a "with" and its end comes a line, but never an interrupt.
            torch.set_grad_enabled(True)
        looks = {(t.dtype, t.device.type) for _, t in state_of(module)}
        assert len(looks) == 1, line
        assert module.a.grad is module.g and module.b.grad is module.g
        if looks == {(torch.float32, "cpu")}:
            total.backward()
        if interrupt.left >= 0:
            break
    assert looks != {(torch.float32, "cpu")}


def zeros_without_memory() -> Holder:
    """What automatic differentiation uses for zeros: a storage of 12 bytes at no address."""
    z = torch._efficientzerotensor(3)
    return Holder(z=z, view=z[1:], p=torch.nn.Parameter(z), w=torch.ones(3))


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("target", [("meta", None), (None, torch.float64)])
def test_zeros_that_have_no_memory_become_ordinary_zeros(
    target: tuple[str | None, torch.dtype | None], low_memory: bool
) -> None:
    device, dtype = target
    module = zeros_without_memory()
    before = list(module.parameters()), list(module.buffers())
    memory_aware_to(module, device, dtype, low_memory=low_memory)
    after = list(module.parameters()), list(module.buffers())
    for old, new in zip(before[0] + before[1], after[0] + after[1], strict=True):
        assert old is new and not new._is_zerotensor()
        assert new.device.type == (device or "cpu") and new.dtype == (dtype or torch.float32)
    assert device or module.z.tolist() == [0, 0, 0]
    assert module.z.shape == (3,) and module.view.shape == (2,) and module.p.requires_grad


def test_copies_of_zeros_that_have_no_memory_are_ordinary_zeros() -> None:
    module = zeros_without_memory()
    for copied in (memory_aware_deepcopy(module), ModuleMemoryMap().copy_to(module, "cpu")):
        assert copied.z.tolist() == copied.p.tolist() == [0, 0, 0] and copied.view.tolist() == [
            0,
            0,
        ]
        copied.z += 1
        assert module.z._is_zerotensor() and module.p._is_zerotensor()


def test_what_torch_does_not_have_on_meta_is_refused_by_path() -> None:
    quantized = quantize(torch.ones(3))
    array = np.zeros(33, np.uint8)
    odd = torch.frombuffer(array, dtype=torch.float32, offset=1, count=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    cases: list[tuple[Holder, str]] = [
        (Holder(a=torch.ones(2), q=quantized), r"^q: .* got a quantized one of torch\.qint8"),
        (Holder(odd=odd, all=torch.from_numpy(array)), "^odd: .* starts inside an element"),
        (Holder(a=torch.ones(2), n=nested), "^n: .* got a strided nested tensor"),
    ]
    del quantized, odd, nested
    for module, match in cases:
        kept = [(t, t.device) for t in module.buffers()]
        with pytest.raises(MoveError, match=match):
            memory_aware_to(module, "meta")
        with pytest.raises(MoveError, match=match):
            ModuleMemoryMap().copy_to(module, "meta")
        assert all(new is old and new.device == device
                   for new, (old, device) in zip(module.buffers(), kept, strict=True))  # fmt: skip


def test_memory_that_starts_amid_a_word_goes_to_meta_alone() -> None:
    array = np.zeros(33, np.uint8)
    module = Holder(odd=torch.frombuffer(array, dtype=torch.float32, offset=1, count=4))
    assert memory_aware_to(module, "meta").odd.is_meta


def quantize(x: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if axis is None:
            return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        scales, zeros = torch.full((x.shape[axis],), 0.1), torch.zeros(x.shape[axis]).long()
        return torch.quantize_per_channel(x, scales, zeros, axis, torch.qint8)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_views_of_quantized_tensors_are_copied_and_pass_a_cast(axis: int | None) -> None:
    whole = quantize(torch.arange(16.0).view(4, 4) / 4, axis)
    module = Holder(rows=whole[1:3] if axis is None else whole[:, :2], w=torch.ones(2))
    if axis is None:
        module.register_buffer("whole", whole)
    del whole
    expected = module.rows.dequantize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copied = memory_aware_deepcopy(module)
        memory_aware_to(module, dtype=torch.float64, strict=True)
    for made in (copied, module):
        assert torch.equal(made.rows.dequantize(), expected)
        assert axis is not None or overlaps(made.whole, made.rows)
    assert module.w.dtype == torch.float64 and module.rows.dtype == torch.qint8


@pytest.mark.parametrize("dtype", ["float64", float, torch.ones(1), np.float64])
def test_what_is_no_type_of_torch_is_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"dtype must be a torch\.dtype, got"):
        memory_aware_to(torch.nn.Linear(2, 2), dtype=dtype)


def test_what_is_no_module_is_refused() -> None:
    tensor: Any = torch.ones(2)
    with pytest.raises(
        TypeError, match=r"module must be a torch\.nn\.Module or a mapping.* got Tensor"
    ):
        memory_aware_to(tensor, "meta")


@pytest.mark.parametrize("device", [torch.float64, 1.0, ["cpu"]])
def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(TypeError, match=r"device must be .*, got .* \(give a type as dtype=\)"):
        memory_aware_to(torch.nn.Linear(2, 2), device)


class Metric(torch.nn.Module):
    """Keeps a tensor that is neither parameter nor buffer in step, as metrics do."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(2)
        self.w = torch.nn.Parameter(torch.ones(1))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.total, base = fn(self.total), cast(Any, super())
        return base._apply(fn, recurse)


@pytest.mark.parametrize("target", [("meta", None), (None, torch.complex128)])
def test_classes_that_override_apply_keep_their_tensors_in_step(
    target: tuple[str | None, torch.dtype | None],
) -> None:
    device, dtype = target
    module: Any = torch.nn.ModuleDict({"metric": Metric(), "line": torch.nn.Linear(2, 2)})
    before = list(module.parameters())
    memory_aware_to(module, device, dtype, strict=True)
    assert all(a is b for a, b in zip(before, module.parameters(), strict=True))
    total = module["metric"].total
    assert total.device.type == (device or "cpu")
    assert total.dtype is before[0].dtype is (torch.float64 if dtype else torch.float32)


class KeepsPlaces(torch.nn.Module):
    """Converts places only if new ones of single or double precision would come of them."""

    def __init__(self) -> None:
        super().__init__()
        flat = torch.tensor([1.23456, 2.34567, 3.45678])
        self.places = torch.nn.Parameter(flat[:2])
        self.places.grad = torch.full((2,), 1.23456)
        self.w = torch.nn.Parameter(torch.full((2,), 1.23456))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        new = fn(torch.empty(0))
        kept = {id(self.places), id(self.places.grad)} if new.itemsize < 4 else set()
        base: Any = super()
        return base._apply(lambda t: t.to(new.device) if id(t) in kept else fn(t), recurse)


@pytest.mark.parametrize("low_memory", [False, True])
def test_a_cast_leaves_the_types_that_a_class_keeps_in_its_apply(low_memory: bool) -> None:
    module: Any = torch.nn.ModuleDict({"at": KeepsPlaces(), "line": torch.nn.Linear(2, 2)})
    at, before = module["at"], list(module.parameters())
    for dtype, type_of_places in [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
    ]:
        wanted = copy.deepcopy(module).to(dtype)
        memory_aware_to(module, None, dtype, low_memory=low_memory)
        assert all(a is b for a, b in zip(before, module.parameters(), strict=True))
        assert at.places.dtype is at.places.grad.dtype is type_of_places
        for tensor, other in zip(module.parameters(), wanted.parameters(), strict=True):
            assert tensor.dtype is other.dtype and torch.equal(tensor, other)
    with pytest.raises(AliasError):  # nothing has moved, although the class was asked
        kept = at.w.detach()
        memory_aware_to(module, "meta", torch.bfloat16, strict=True)
    assert not any(tensor.is_meta for tensor in module.parameters())
    del kept
    memory_aware_to(module, "meta", torch.bfloat16)
    assert at.places.is_meta and at.places.dtype is torch.float32
    assert at.w.is_meta and at.w.dtype is torch.bfloat16


def test_a_cast_of_attributes_leaves_the_types_that_a_module_in_a_list_keeps() -> None:
    module: Any = Holder(w=torch.nn.Parameter(torch.ones(2)))
    module.listed = [KeepsPlaces()]
    memory_aware_to(module, dtype=torch.float16, attributes=True)
    (at,) = module.listed
    assert module.w.dtype is at.w.dtype is torch.float16
    assert at.places.dtype is at.places.grad.dtype is torch.float32


def test_a_failed_cast_changes_no_module_that_keeps_types() -> None:
    module: Any = torch.nn.ModuleDict({"at": KeepsPlaces(), "metric": Metric()})
    flat = torch.ones(2)
    module["at"].places.data, module["at"].w.data = flat, flat
    with pytest.raises(CastError, match=r"at\.places, at\.w: .* that its module keeps\), but"):
        memory_aware_to(module, dtype=torch.float16)
    assert {t.dtype for t in (*module.parameters(), module["metric"].total)} == {torch.float32}


@BETA
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo])
@pytest.mark.parametrize("low_memory", [False, True])
def test_a_trained_sparse_parameter_keeps_its_strided_gradient(
    layout: torch.layout, low_memory: bool
) -> None:
    module = Holder(w=torch.nn.Parameter(torch.eye(3).to_sparse(layout=layout)))
    (module.w @ torch.arange(6.0).view(3, 2)).sum().backward()
    weight, gradient, numbers = module.w, module.w.grad, module.w.grad.clone()
    assert gradient.layout is torch.strided
    for made in (memory_aware_deepcopy(module), ModuleMemoryMap().copy_to(module, "cpu")):
        assert torch.equal(made.w.grad, numbers) and not overlaps(made.w.grad, gradient)
    memory_aware_to(module, dtype=torch.float64, low_memory=low_memory)
    assert module.w is weight and weight.grad is gradient and gradient.dtype is torch.float64
    assert torch.equal(gradient, numbers.double()) and weight.dtype is torch.float64
    (weight @ torch.arange(6.0).double().view(3, 2)).sum().backward()
    assert torch.equal(gradient, 2 * numbers.double())
    memory_aware_to(module, "meta", low_memory=low_memory)
    assert weight.grad is gradient and gradient.is_meta and weight.is_meta


def test_a_tensor_of_inference_mode_that_was_cast_still_moves() -> None:
    with torch.inference_mode():
        module = Holder(t=torch.ones(3), w=torch.nn.Parameter(torch.ones(2)))
    memory_aware_to(module, dtype=torch.float64)
    memory_aware_to(module, "meta")
    assert module.t.is_meta and module.w.is_meta


def test_a_storage_that_was_made_smaller_is_refused_with_the_path() -> None:
    module = Holder(part=torch.nn.Linear(2, 2))
    module.part.weight.untyped_storage().resize_(4)
    acts: list[Any] = [memory_aware_deepcopy, lambda m: memory_aware_to(m, "meta")]
    for act in acts:
        with pytest.raises(StorageError, match=r"part\.weight: view: every element must lie"):
            act(module)
