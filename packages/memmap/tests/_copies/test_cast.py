import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from memmap import AliasWarning, CastError, memory_aware_deepcopy, memory_aware_to, overlaps
from memmap._copies._cast import is_exact, new_type
from memmap.testing import Holder, allocated_nbytes, modules, sharing_of, state_of, tensors_of


def snapshot(module: torch.nn.Module) -> list[tuple[object, ...]]:
    return [
        (path, id(t), t.dtype, t.untyped_storage()._cdata, t.storage_offset(), t.stride())
        for path, t in tensors_of(module)
    ]


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
@given(
    st.one_of(
        modules(dtypes=[torch.float32], attributes=False),
        modules(dtypes=[torch.float32, torch.complex64], attributes=False),
    )
)
def test_a_cast_keeps_what_is_shared(module: torch.nn.Module) -> None:
    tensors = [tensor for _, tensor in state_of(module)]
    expected = [t.detach().to(t.dtype.to_complex() if t.is_complex() else t.dtype) for t in tensors]
    values = [
        t.resolve_conj().resolve_neg().to(torch.complex128 if t.is_complex() else torch.float64)
        for t in expected
    ]
    sharing, strides = sharing_of(tensors, scale=2), [t.stride() for t in tensors]
    memory_aware_to(module, dtype=torch.float64)
    after = [tensor for _, tensor in state_of(module)]
    assert [t.dtype for t in after] == [value.dtype for value in values]
    assert sharing_of(after) == sharing
    assert [t.stride() for t in after] == strides
    for made, value in zip(after, values, strict=True):
        assert torch.equal(made.detach().resolve_conj().resolve_neg(), value)


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")
@pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")  # torch, of its own type
@given(modules(), st.sampled_from([torch.float64, torch.float16, torch.complex64]))
def test_a_cast_is_done_or_refused_without_a_trace(
    module: torch.nn.Module, dtype: torch.dtype
) -> None:
    before = snapshot(module)
    tensors = [tensor for _, tensor in state_of(module)]
    touched = sharing_of(tensors)
    types = [t.dtype for t in tensors]
    try:
        memory_aware_to(module, dtype=dtype)
    except CastError:
        assert snapshot(module) == before
        return
    after = [tensor for _, tensor in state_of(module)]
    assert [t.dtype for t in after] == [new_type(torch.empty(0, dtype=t), dtype) for t in types]
    met = [[bool(set(a) & set(b)) for b in touched] for a in touched]
    assert [[overlaps(a, b) for b in after] for a in after] == met


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_real_stays_real_and_complex_stays_complex(dtype: torch.dtype) -> None:
    module = Holder(r=torch.ones(2), c=torch.ones(2, dtype=torch.complex64), i=torch.ones(2).int())
    memory_aware_to(module, dtype=dtype)
    assert module.r.dtype == torch.float64
    assert module.c.dtype == torch.complex128
    assert module.i.dtype == torch.int32


def test_complex_numbers_and_their_reals_are_cast_together() -> None:
    c = torch.tensor([1 + 2j, 3 + 4j])
    module = Holder(c=c, r=torch.view_as_real(c).data, conj=c.conj().data, minus=c.conj().imag.data)
    del c
    memory_aware_to(module, dtype=torch.float64)
    assert module.conj.is_conj() and module.minus.is_neg()
    assert module.c.tolist() == [1 + 2j, 3 + 4j] and module.r.tolist() == [[1, 2], [3, 4]]
    assert module.conj.tolist() == [1 - 2j, 3 - 4j] and module.minus.tolist() == [-2, -4]
    assert allocated_nbytes(tensor for _, tensor in state_of(module)) == 32


def test_types_of_one_width_apart_from_one_another_are_cast_each_in_its_own_way() -> None:
    memory = torch.zeros(4)
    memory[2:].view(torch.int32)[:] = torch.tensor([7, 8])
    half = torch.empty(0, dtype=torch.float16).set_(memory.untyped_storage(), 0, (2,), (1,))
    half.fill_(1.5)
    other = torch.empty(0, dtype=torch.bfloat16).set_(memory.untyped_storage(), 4, (3,), (1,))
    other.fill_(-2.5)
    module = Holder(first=half, other=other)
    del memory, half, other
    memory_aware_to(module, dtype=torch.float32)
    assert module.first.tolist() == [1.5, 1.5] and module.other.tolist() == [-2.5] * 3
    assert module.first.untyped_storage()._cdata == module.other.untyped_storage()._cdata


def test_types_of_one_width_that_overlap_are_refused() -> None:
    half = torch.ones(4, dtype=torch.float16)
    module = Holder(first=half, other=half[2:].view(torch.bfloat16).data)
    del half
    before = snapshot(module)
    with pytest.raises(
        CastError, match="first, other: elements of tensors that share memory must all"
    ):
        memory_aware_to(module, dtype=torch.float32)
    assert snapshot(module) == before


def test_numbers_and_integers_in_one_storage_are_refused() -> None:
    x = torch.ones(4)
    module = Holder(lone=torch.ones(3), x=x, bits=x[1:2].view(torch.int32).data)
    del x
    before = snapshot(module)
    with pytest.raises(CastError, match=r"x, bits: .* got .*float32 to torch.float64"):
        memory_aware_to(module, dtype=torch.float64)
    assert snapshot(module) == before
    assert module.lone.dtype == torch.float32


def test_a_precision_without_complex_numbers_is_refused_for_complex_tensors() -> None:
    module = Holder(lone=torch.ones(3), c=torch.ones(2, dtype=torch.complex64))
    before = snapshot(module)
    with pytest.raises(CastError, match=r"a precision of complex types, got torch\.float8_e5m2"):
        memory_aware_to(module, dtype=torch.float8_e5m2)
    assert snapshot(module) == before


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.uint8])
def test_a_cast_to_integers_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match="dtype must be a floating or complex type, got torch"):
        memory_aware_to(Holder(a=torch.ones(2)), dtype=dtype)


def test_same_type_is_a_0_byte_no_op_with_the_same_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(nbytes: int, device: torch.device) -> torch.Tensor:
        raise AssertionError("nothing should be allocated")

    monkeypatch.setattr("memmap._copies._buffers.empty_bytes", refused)
    module = Holder(a=torch.ones(2), b=torch.ones(3).long(), c=torch.ones(2, dtype=torch.complex64))
    before = snapshot(module)
    memory_aware_to(module, "cpu", torch.float32)
    memory_aware_to(module, dtype=torch.complex64)
    assert snapshot(module) == before


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_failure_midway_changes_nothing(allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from memmap._copies._allocate import empty_bytes

    left = allowed

    def allocate(nbytes: int, device: torch.device) -> torch.Tensor:
        nonlocal left
        if left == 0:
            raise torch.OutOfMemoryError("no memory left")
        left -= 1
        return empty_bytes(nbytes, device)

    monkeypatch.setattr("memmap._copies._buffers.empty_bytes", allocate)
    module = Holder(a=torch.ones(2), b=torch.ones(3), c=torch.ones(4))
    before = snapshot(module)
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        memory_aware_to(module, dtype=torch.float64)
    assert snapshot(module) == before


def test_a_cast_on_the_way_to_another_device() -> None:
    flat = torch.zeros(10)
    module = Holder(a=flat[:6].data, b=flat[4:].data)
    del flat
    memory_aware_to(module, "meta", torch.float16)
    assert module.a.is_meta and module.a.dtype == torch.float16
    assert overlaps(module.a, module.b)
    assert allocated_nbytes([module.a, module.b]) == 20


def test_large_spans_are_converted_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memmap._copies._buffers.UNDER_WAY", 64)
    module = Holder(a=torch.arange(100.0))
    memory_aware_to(module, dtype=torch.float64)
    assert torch.equal(module.a, torch.arange(100, dtype=torch.float64))


def test_a_cast_warns_of_memory_that_is_also_held_outside() -> None:
    flat = torch.zeros(10)
    with pytest.warns(AliasWarning, match="held only by the tensors that move"):
        memory_aware_to(Holder(a=flat[:6].data), dtype=torch.float64)
    assert flat.dtype == torch.float32


def test_gradients_are_cast_with_their_parameters() -> None:
    module = torch.nn.Linear(2, 2)
    module.weight.grad = torch.ones(2, 2)
    memory_aware_to(module, dtype=torch.float64)
    assert module.weight.grad.dtype == torch.float64
    module.weight.grad += module.weight.detach()


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_steps_of_an_optimizer_keep_their_type_as_in_torch(
    dtype: torch.dtype, low_memory: bool
) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    before = {id(tensor) for tensor in optimizer.state[parameter].values()}
    for source in (optimizer.state_dict(), {"nested": [optimizer.state_dict()]}):
        made = memory_aware_deepcopy(source)
        memory_aware_to(made, dtype=dtype, low_memory=low_memory)
        state = made.get("state") or made["nested"][0]["state"]
        types = {name: value.dtype for name, value in state[0].items()}
        assert types == {"step": torch.float32, "exp_avg": dtype, "exp_avg_sq": dtype}
    holder = torch.nn.Module()
    holder.optimizer = optimizer  # type: ignore[assignment]  # any object may be an attribute
    memory_aware_to(holder, dtype=dtype, attributes=True, low_memory=low_memory)
    assert {id(tensor) for tensor in optimizer.state[parameter].values()} == before
    assert parameter.dtype == optimizer.state[parameter]["exp_avg"].dtype == dtype
    assert optimizer.state[parameter]["step"].dtype == torch.float32


def test_a_step_that_shares_memory_with_a_tensor_to_cast_is_refused() -> None:
    flat = torch.ones(2)
    state = {"state": {0: {"step": flat[0], "average": flat[1:]}}}
    with pytest.raises(CastError, match="share no memory with one that keeps its type"):
        memory_aware_to(state, dtype=torch.float64)


def test_fake_tensors_are_cast_on_the_way_to_another_device() -> None:
    with FakeTensorMode():
        flat = torch.zeros(10)
        module = Holder(a=flat[:6], b=flat[4:])
    del flat
    memory_aware_to(module, "cuda:1", torch.float64)
    assert isinstance(module.a, FakeTensor) and module.a.device == torch.device("cuda:1")
    assert module.a.dtype == torch.float64 and overlaps(module.a, module.b)
    assert (module.a + module.b).device == torch.device("cuda:1")


FLOATS = [torch.float8_e5m2, torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("new", [*FLOATS, torch.float64])
@pytest.mark.parametrize("old", FLOATS[:-1])
def test_a_cast_is_exact_if_every_number_comes_back(old: torch.dtype, new: torch.dtype) -> None:
    bits = {1: torch.uint8, 2: torch.uint16}[old.itemsize]
    numbers = torch.arange(1 << 8 * old.itemsize, dtype=torch.int32).to(bits).view(old)
    numbers = numbers[torch.isfinite(numbers.float())]
    back = numbers.to(new).to(old)
    assert is_exact(old, new) == torch.equal(back.float(), numbers.float())


def test_wide_casts_are_exact_in_one_direction() -> None:
    for few, many in (
        (torch.float32, torch.float64),
        (torch.complex64, torch.complex128),
        (torch.bfloat16, torch.float32),
    ):
        assert is_exact(few, many) and not is_exact(many, few) and is_exact(many, many)
    assert is_exact(torch.int32, torch.int32) and not is_exact(torch.int32, torch.int64)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="torch without float4")
def test_numbers_that_share_a_byte_are_refused_by_path() -> None:
    module = torch.nn.Module()
    module.register_buffer("a", torch.ones(2))
    module.register_buffer("f", torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    with pytest.raises(CastError, match=r"^f: a cast must be from and to types of whole bytes"):
        memory_aware_to(module, dtype=torch.float64)
    with pytest.raises(CastError, match=r"^a: a cast must be from and to types of whole bytes"):
        memory_aware_to(module, dtype=torch.float4_e2m1fn_x2)
    assert module.a.dtype == torch.float32
