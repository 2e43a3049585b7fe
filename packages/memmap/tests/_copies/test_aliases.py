import copy
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import (
    AliasError,
    AliasWarning,
    ModuleMemoryMap,
    memory_aware_deepcopy,
    memory_aware_to,
    overlaps,
)
from memmap.testing import Holder, modules, tensors_of

BETA = pytest.mark.filterwarnings("ignore:.*(prototype|beta).*:UserWarning")


class Copier(Holder):
    def __deepcopy__(self, memo: dict[int, Any]) -> "Copier":
        return memory_aware_deepcopy(self, memo)


def test_a_copy_tells_of_memory_that_is_held_outside() -> None:
    flat = torch.zeros(10)
    module = Copier(a=flat[:6], b=torch.zeros(3))
    with pytest.warns(
        AliasWarning, match=r"does not share it .*; got other holders for a \(by 1\)$"
    ):
        made = memory_aware_deepcopy(module)
    assert not overlaps(made.a, flat)
    del flat
    memory_aware_deepcopy(module)


def test_a_copy_tells_of_tensors_that_fill_their_storage_and_are_held_outside() -> None:
    kept = torch.zeros(3)
    module = Copier(a=torch.nn.Parameter(kept), b=torch.zeros(3))
    with pytest.warns(AliasWarning, match=r"other holders for a \(by 1\)$"):
        memory_aware_deepcopy(module)
    del kept
    memory_aware_deepcopy(module)
    memory_aware_deepcopy(Copier(whole=torch.zeros(2, 3).view(6)))


def test_the_copies_of_a_map_tell_of_it_too() -> None:
    flat = torch.zeros(10)
    module = Copier(a=flat[:6])
    with pytest.warns(AliasWarning, match=r"other holders for a \(by 1\)$"):
        ModuleMemoryMap(module).memory_aware_deepcopy(module)


def test_the_warning_can_be_silenced_and_names_the_line_of_the_caller() -> None:
    flat = torch.zeros(10)
    module = Copier(a=flat[:6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AliasWarning)
        memory_aware_deepcopy(module)
    for copied in (memory_aware_deepcopy, ModuleMemoryMap().memory_aware_deepcopy):
        with pytest.warns(AliasWarning) as caught:
            copied(module)
        assert caught[0].filename == __file__


def test_code_without_a_module_name_is_warned_too() -> None:
    flat = torch.zeros(10)
    names = {"copied": memory_aware_deepcopy, "module": Copier(a=flat[:6])}
    with pytest.warns(AliasWarning, match="the copy does not share it"):
        exec(compile("copied(module)", "<cell>", "exec"), names)


def test_a_warning_that_is_an_error_leaves_nothing_behind() -> None:
    flat = torch.zeros(10)
    module = Copier(a=flat[:6])
    with pytest.raises(AliasWarning, match="the copy does not share it"):
        memory_aware_deepcopy(module)
    assert overlaps(module.a, flat)


def test_what_a_larger_copy_holds_is_not_outside_of_it() -> None:
    flat = torch.zeros(10)
    made: list[Any] = copy.deepcopy([flat, Copier(a=flat[:6])])
    assert overlaps(made[0], made[1].a) and not overlaps(made[0], flat)
    made = copy.deepcopy([Copier(a=flat[:6]), flat])
    assert overlaps(made[1], made[0].a) and not overlaps(made[1], flat)


def test_gradients_attributes_and_containers_of_the_module_are_not_outside() -> None:
    flat = torch.zeros(12)
    module = Copier(a=torch.nn.Parameter(flat[:4]))
    module.a.grad = flat[4:8].data
    module.listed = [flat[2:6].data]
    module.a.tag = flat[9:].data
    del flat
    memory_aware_deepcopy(module)


@BETA
def test_tensors_made_of_tensors_have_holders_too() -> None:
    flat = torch.arange(4.0)
    values = flat.data
    sparse = torch.sparse_coo_tensor(
        torch.arange(4)[None], values, (4,), is_coalesced=True, check_invariants=False
    )
    compressed = torch.eye(3).to_sparse_csr()
    nested = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)])
    module = Copier(s=sparse, c=compressed, n=nested)
    del values, sparse, compressed, nested
    with pytest.raises(AliasError, match=r"got other holders for s\.values \(by 1\)$"):
        memory_aware_to(module, dtype=torch.float64, strict=True)
    del flat
    memory_aware_deepcopy(module)
    memory_aware_to(module, dtype=torch.float64, strict=True)


def test_tensors_that_a_module_reads_differently_are_no_strangers() -> None:
    x = torch.zeros(4, dtype=torch.complex64)
    module = Copier(x=x, minus=x.conj().imag, real=torch.view_as_real(x))
    del x
    memory_aware_deepcopy(module)
    memory_aware_to(module, "meta", strict=True)


def test_a_view_of_numbers_of_few_bits_is_no_stranger_to_a_copy() -> None:
    bytes_ = torch.arange(4, dtype=torch.uint8)
    small = bytes_.view(vars(torch)["uint4"])
    module = Copier(u=bytes_, s=small)
    made = memory_aware_deepcopy(module)
    assert made.s.untyped_storage()._cdata == made.u.untyped_storage()._cdata
    module.register_buffer("part", bytes_[1:])
    memory_aware_deepcopy(module)
    del module
    with pytest.warns(AliasWarning, match=r"other holders for u"):
        memory_aware_deepcopy(Copier(u=bytes_))
    other = bytes_[2:].data
    with pytest.warns(AliasWarning, match=r"other holders for u, s \(by 1\)"):
        memory_aware_deepcopy(Copier(u=bytes_, s=small))
    assert other.tolist() == [2, 3]


def two_views_of(base: torch.Tensor) -> Copier:
    return Copier(a=base[:6], b=base[4:])


def stays_unexpectedly(module: torch.nn.Module) -> bool:
    """Whether a move tells of memory that stays; a strict one refuses whatever stays."""
    before = [tensor.device for tensor in module.buffers()]
    try:
        memory_aware_to(module, dtype=torch.float64, strict=True)
        strict = False
        memory_aware_to(module, dtype=torch.float32)
    except AliasError:
        strict = True
        assert [tensor.device for tensor in module.buffers()] == before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        memory_aware_to(module, "meta")
    told = [warning for warning in caught if warning.category is AliasWarning]
    assert len(told) <= int(strict)
    return bool(told)


def test_a_move_does_not_tell_of_a_base_that_the_caller_holds() -> None:
    base = torch.arange(10.0)
    assert not stays_unexpectedly(two_views_of(base))
    assert not stays_unexpectedly(Copier(rows=base.view(2, 5).t()[1:]))
    # What else the caller has of it costs nothing more.
    module, others = two_views_of(base), [base[3:], base.detach(), base.numpy()]
    assert not stays_unexpectedly(module)
    assert len(others) == 3 and base.device.type == "cpu"
    module = two_views_of(base)
    with pytest.raises(AliasError, match=r"leave out strict=True.* other holders for a, b \(by"):
        memory_aware_to(module, "meta", strict=True)


def test_a_move_tells_of_a_base_that_an_attribute_of_the_module_holds() -> None:
    base = torch.arange(10.0)
    module = two_views_of(base)
    module.plain = [base]
    with pytest.warns(AliasWarning, match=r"attributes=True .* ignore AliasWarning\); got other"):
        memory_aware_to(module, "meta")
    assert base.device.type == "cpu"
    module = two_views_of(base)
    module.plain = [base]
    del base
    memory_aware_to(module, "meta", strict=True, attributes=True)
    assert module.plain[0].is_meta


@pytest.mark.parametrize(
    "hold",
    [
        lambda base: base[2:],
        lambda base: base.view(2, 5)[1],
        lambda base: base.numpy(),
        lambda base: base.detach(),
        lambda base: two_views_of(base),
        lambda base: (base * torch.ones(10, requires_grad=True)).sum(),
    ],
)
def test_a_move_tells_of_memory_that_stays_without_its_base(hold: Any) -> None:
    base = torch.arange(10.0)
    module, held = two_views_of(base), hold(base)
    del base
    assert stays_unexpectedly(module)
    assert held is not None


def test_a_move_tells_of_a_held_tensor_that_is_a_part_of_its_storage() -> None:
    base = torch.arange(1000.0).data[:10].data
    assert stays_unexpectedly(two_views_of(base))
    assert base.tolist() == list(range(10))


def test_nothing_stays_of_a_base_that_nobody_holds() -> None:
    assert not stays_unexpectedly(two_views_of(torch.arange(10.0)))
    base = torch.arange(10.0)
    module = Copier(base=base, a=base[:6])
    del base
    assert not stays_unexpectedly(module)


def test_long_lists_are_cut() -> None:
    flat = torch.zeros(40)
    module = Copier(**{f"t{i}": flat[i : i + 2] for i in range(20)})
    others = [torch.zeros(2) for _ in range(20)]
    alone = Copier(**{f"t{i}": other.data for i, other in enumerate(others)})
    with pytest.warns(AliasWarning, match=r"t6, t7, 12 more \(by 1\)$"):
        memory_aware_deepcopy(module)
    with pytest.warns(AliasWarning, match=r"t7 \(by 1\); 12 more$"):
        memory_aware_deepcopy(alone)


@given(modules(), st.data())
def test_random_modules_are_told_of_exactly_if_something_outside_shares_their_memory(
    module: torch.nn.Module, data: st.DataObject
) -> None:
    tensors = [tensor for _, tensor in tensors_of(module)]
    # Not drawn as a tensor: hypothesis keeps what it has drawn.
    chosen = data.draw(st.none() | st.integers(0, len(tensors) - 1))
    outside = None if chosen is None else tensors[chosen].data
    del tensors
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        memory_aware_deepcopy(module)
    told = [warning for warning in caught if warning.category is AliasWarning]
    assert len(told) == (outside is not None)


def flat_gradients() -> torch.nn.Module:
    """Gradients that autograd makes as views of one buffer; nobody else holds it."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    torch.nn.utils.parameters_to_vector(module.parameters()).pow(2).sum().backward()
    return module


def jagged(lengths: bool) -> torch.nn.Module:
    if not lengths:
        values, offsets = torch.ones(5, 2), torch.tensor([0, 2, 5])
        return Holder(j=torch.nested.nested_tensor_from_jagged(values, offsets))
    parts = [torch.ones(2, 2), torch.ones(1, 2)]
    return Holder(j=torch.nested.nested_tensor(parts, layout=torch.jagged))


def views_through_jagged() -> torch.nn.Module:
    nested = torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(1, 2)], layout=torch.jagged)
    return Holder(v=nested.values()[:2], j=nested)


def trained_sparse() -> torch.nn.Module:
    module = Holder(w=torch.nn.Parameter(torch.eye(2).to_sparse_csr()))
    (module.w @ torch.ones(2, 1)).sum().backward()
    return module


@BETA
@pytest.mark.parametrize(
    "make",
    [
        flat_gradients,
        lambda: jagged(True),
        lambda: jagged(False),
        views_through_jagged,
        trained_sparse,
    ],
)
def test_memory_that_torch_holds_for_the_module_itself_is_no_alias(
    make: Callable[[], torch.nn.Module],
) -> None:
    memory_aware_deepcopy(make())  # a warning is an error here
    memory_aware_to(make(), dtype=torch.float64, strict=True)
    memory_aware_to(make(), "meta", strict=True)


def test_a_thread_that_copies_the_same_module_is_no_alias() -> None:
    flat, small = torch.zeros(50_000), torch.zeros(6)
    module = Holder(a=torch.nn.Parameter(flat[:30_000]), b=torch.nn.Parameter(flat[20_000:]))
    module.x, module.y = torch.nn.Buffer(small[:4]), torch.nn.Buffer(small[2:])
    del flat, small
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as pool:
            for made in [pool.submit(memory_aware_deepcopy, module) for _ in range(60)]:
                made.result()  # raises the warning of the thread
    finally:
        sys.setswitchinterval(before)
