"""Tensors without memory of their own: subclasses as the documentation of PyTorch shows them."""

import copy
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from memmap import (
    CastError,
    MemoryReport,
    ModuleMemoryMap,
    MoveError,
    footprint,
    memory_aware_deepcopy,
    memory_aware_to,
    overlaps,
)
from memmap._views._address import is_wrapper
from memmap.testing import Holder


class Wrapped(torch.Tensor):
    """Computes with `within`. Its storage has a size and no memory."""

    __slots__ = ("within",)

    @staticmethod
    def __new__(cls, within: torch.Tensor) -> Any:
        make: Any = torch.Tensor._make_wrapper_subclass
        return make(cls, within.shape, dtype=within.dtype, device=within.device)

    def __init__(self, within: torch.Tensor) -> None:
        self.within = within

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # the stub has no argument `types`
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        inside = [
            tree_map(lambda part: part.within if isinstance(part, Wrapped) else part, given)
            for given in (args, kwargs or {})
        ]
        made = func(*inside[0], **inside[1])
        return tree_map(lambda part: cls(part) if isinstance(part, torch.Tensor) else part, made)


class Scaled(torch.Tensor):
    """Whole numbers and a scale; a cast of the whole changes neither."""

    numbers: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(
        cls, numbers: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype = torch.float32
    ) -> Any:
        make: Any = torch.Tensor._make_wrapper_subclass
        return make(cls, numbers.shape, dtype=dtype, device=numbers.device)

    def __init__(self, numbers: torch.Tensor, scale: torch.Tensor, *rest: object) -> None:
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self) -> tuple[list[str], torch.dtype]:
        return ["numbers", "scale"], self.dtype

    @classmethod
    def __tensor_unflatten__(cls, parts: Any, dtype: torch.dtype, *shape: object) -> Any:
        return cls(parts["numbers"], parts["scale"], dtype)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # the stub has no argument `types`
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        whole, wanted = args[0], kwargs or {}
        if func is torch.ops.aten._to_copy.default:
            dtype, device = wanted.get("dtype") or whole.dtype, wanted.get("device")
            if dtype is torch.float16:
                raise NotImplementedError("no halves")
            if dtype is torch.bfloat16:
                return whole.numbers.to(dtype) * whole.scale.to(dtype)
            return cls(whole.numbers.to(device), whole.scale.to(device), dtype)
        if func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            return cls(func(whole.numbers), func(whole.scale), whole.dtype)
        return NotImplemented


class Named(torch.Tensor):
    """A subclass with memory of its own that only listens to calls."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        base: Any = super()
        return base.__torch_function__(func, types, args, kwargs or {})


def masked() -> torch.Tensor:
    made: torch.Tensor = torch.masked.masked_tensor(
        torch.arange(4.0), torch.tensor([True, False, True, False])
    )
    return made


def values_of(tensor: Any) -> list[float]:
    within: Any = tensor.within if isinstance(tensor, Wrapped) else tensor.get_data()
    numbers: list[float] = within.tolist()
    return numbers


PLACES: list[Callable[[Any], torch.nn.Module]] = [
    lambda made: Holder(t=torch.nn.Parameter(made)),
    lambda made: Holder(t=made),
    lambda made: Holder(inside=[{"t": made}]),
    lambda made: Holder(part=Holder(t=made), w=torch.nn.Parameter(torch.ones(2))),
]


def only(module: torch.nn.Module) -> Any:
    """The wrapper in a module of one of the `PLACES`."""
    attributes = vars(module)
    if "inside" in attributes:
        return attributes["inside"][0]["t"]
    return module.get_submodule("part" if "part" in attributes["_modules"] else "").t


@pytest.mark.filterwarnings("ignore:.*(prototype|Masked).*:UserWarning")
@pytest.mark.parametrize("make", [lambda: Wrapped(torch.arange(4.0)), masked])
@pytest.mark.parametrize("place", PLACES)
def test_the_class_copies_and_moves_a_wrapper_that_cannot_be_taken_apart(
    make: Callable[[], torch.Tensor], place: Callable[[Any], torch.nn.Module]
) -> None:
    module = place(make())
    whole = only(module)
    for made in (memory_aware_deepcopy(module), ModuleMemoryMap().copy_to(module, "cpu")):
        assert type(only(made)) is type(whole) and only(made) is not whole
        assert values_of(only(made)) == [0, 1, 2, 3]
    report = MemoryReport(module)
    assert report.totals.touched == (8 if "w" in dict(module.named_parameters()) else 0)
    memory_aware_to(module, dtype=torch.float64, attributes=True)
    assert only(module) is whole and whole.dtype is torch.float64
    assert values_of(whole) == [0, 1, 2, 3]
    assert type(whole) is not Wrapped or whole.within.dtype is torch.float64
    memory_aware_to(module, "meta", attributes=True)
    assert only(module) is whole and whole.device.type == "meta"
    assert type(whole) is not Wrapped or whole.within.is_meta


@pytest.mark.parametrize("ask", [footprint, lambda t: overlaps(t, t)])
def test_a_wrapper_has_no_place_in_memory(ask: Callable[[torch.Tensor], object]) -> None:
    for made in (Wrapped(torch.zeros(3)), Wrapped(torch.zeros(0))):
        with pytest.raises(TypeError, match="must have its own memory, got the wrapper a Wrapped"):
            ask(made)


def test_a_subclass_with_memory_of_its_own_is_read_by_address() -> None:
    flat = torch.arange(6.0)
    module = Holder(a=flat[:4].as_subclass(Named), b=torch.nn.Parameter(flat[2:]))
    del flat
    assert not is_wrapper(module.a)
    made = memory_aware_deepcopy(module)
    assert type(made.a) is Named and overlaps(made.a, made.b) and not overlaps(made.a, module.a)
    memory_aware_to(module, dtype=torch.float64)
    assert type(module.a) is Named and overlaps(module.a, module.b)


def scaled(scale: torch.Tensor | None = None) -> Any:
    numbers = torch.arange(4, dtype=torch.int8)
    return Scaled(numbers, torch.tensor([0.1]) if scale is None else scale)


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("device", [None, "meta"])
def test_the_class_casts_a_quantised_wrapper(device: str | None, low_memory: bool) -> None:
    module = Holder(q=torch.nn.Parameter(scaled(), requires_grad=False), w=torch.ones(2))
    module.q.note, q = "kept", module.q
    memory_aware_to(module, device, torch.float64, low_memory=low_memory, strict=True)
    assert module.q is q and q.note == "kept" and type(q) is Scaled
    assert (q.dtype, q.scale.dtype, q.numbers.dtype) == (torch.float64, torch.float32, torch.int8)
    assert q.scale.device.type == q.device.type == (device or "cpu")
    assert module.w.dtype is torch.float64


def test_a_wrapper_that_moves_without_a_cast_keeps_what_its_parts_share() -> None:
    scale = torch.ones(1)
    module = Holder(a=scaled(scale), b=scaled(scale), c=scale.view(1, 1))
    del scale
    made = memory_aware_deepcopy(module)
    assert made.a.scale is made.b.scale and overlaps(made.a.scale, made.c)
    memory_aware_to(module, "meta", strict=True)
    assert overlaps(module.a.scale, module.c) and module.a.scale is module.b.scale


@pytest.mark.parametrize(
    "dtype, text",
    [
        (torch.float16, "q: its class Scaled must move and cast it, got NotImplementedError: no h"),
        (torch.bfloat16, "q: its class Scaled must move and cast it, got a Tensor on cpu from it"),
    ],
)
def test_a_cast_that_the_class_cannot_make_is_refused_by_name(
    dtype: torch.dtype, text: str
) -> None:
    module = Holder(q=scaled(), w=torch.ones(2))
    with pytest.raises(CastError, match=text):
        memory_aware_to(module, dtype=dtype)
    assert module.w.dtype is torch.float32 and module.q.dtype is torch.float32


def test_a_cast_by_a_class_must_not_end_shared_memory() -> None:
    scale = torch.ones(1)
    for other in (scaled(scale), scale):
        module = Holder(q=scaled(scale), other=other)
        with pytest.raises(CastError, match=r"q\.scale: a part .* with other|share no memory with"):
            memory_aware_to(module, dtype=torch.float64)
        assert module.q.dtype is torch.float32


@pytest.mark.parametrize("device", ["meta", None])
def test_a_part_may_be_a_tensor_of_the_module_itself(device: str | None) -> None:
    offsets = torch.tensor([0, 2, 5])
    jagged = [torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), offsets) for _ in range(2)]
    module = Holder(offsets=offsets, a=jagged[0], b=jagged[1], q=scaled(torch.ones(1)))
    module.numbers, before = torch.nn.Buffer(module.q.numbers), module.a
    del offsets, jagged
    memory_aware_to(module, device, torch.float64 if device is None else None)
    assert module.a is before and (module.a + module.b).shape[0] == 2
    assert module.a.offsets().device == module.q.numbers.device == module.offsets.device
    assert overlaps(module.a.offsets(), module.offsets)
    assert overlaps(module.q.numbers, module.numbers)


def test_a_class_computes_with_tensors_that_have_not_moved_yet() -> None:
    flat = torch.arange(4.0)
    module = Holder(a=flat, b=Wrapped(flat))
    del flat
    memory_aware_to(module, dtype=torch.float64, low_memory=True)
    assert module.b.dtype is module.b.within.dtype is module.a.dtype is torch.float64


class InStep(torch.nn.Module):
    """Overrides ``_apply``; torch would replace its wrapper, and fail if somebody knows it."""

    def __init__(self) -> None:
        super().__init__()
        self.q = torch.nn.Parameter(scaled(), requires_grad=False)
        self.total = torch.zeros(1)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        base: Any = super()
        self.total = fn(self.total)
        return base._apply(fn, recurse)


def test_an_override_of_apply_leaves_wrappers_as_they_are() -> None:
    module: Any = InStep()
    q: Any = module.q
    q.note, known = "kept", weakref.ref(q)
    memory_aware_to(module, dtype=torch.float64)
    assert module.q is q is known() and q.note == "kept"
    assert q.dtype is module.total.dtype is torch.float64


class Stubborn(Wrapped):
    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # the stub has no argument `types`
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default):
            raise NotImplementedError("not I")
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_a_wrapper_that_its_class_cannot_copy_is_refused_by_name() -> None:
    module = Holder(part=Holder(t=Stubborn(torch.zeros(2))))
    with pytest.raises(MoveError, match=r"part\.t: its class Stubborn must move .* not I"):
        memory_aware_to(module, "meta")
    with pytest.raises(NotImplementedError, match="not I") as caught:
        memory_aware_deepcopy(module)
    assert caught.value.__notes__ == ["memory_aware_deepcopy: part.t copies itself"]


def test_attributes_of_a_wrapper_move_with_their_whole() -> None:
    module: Any = torch.nn.Module()
    module.inside = [scaled()]
    (q,) = module.inside
    memory_aware_to(module, dtype=torch.float64, attributes=True)
    assert q.dtype is torch.float64 and q.scale.dtype is torch.float32
    assert copy.deepcopy(q).scale.dtype is torch.float32


class Placed(Scaled):
    """A wrapper with a part that is no tensor, as the mesh of a distributed tensor."""

    def __tensor_flatten__(self) -> tuple[list[str], torch.dtype]:
        return ["numbers", "scale", "mesh"], self.dtype

    @classmethod
    def __tensor_unflatten__(cls, parts: Any, dtype: torch.dtype, *shape: object) -> Any:
        made = super().__tensor_unflatten__(parts, dtype)
        made.mesh = parts["mesh"]
        return made


def test_a_part_that_is_no_tensor_is_shared() -> None:
    whole: Any = Placed(torch.arange(4, dtype=torch.int8), torch.ones(1))
    whole.mesh = object()
    module = Holder(w=whole)
    names = [t.entry.names for s in MemoryReport(module).storages for t in s.tensors]
    assert sorted(names) == [["w.numbers"], ["w.scale"]]
    assert memory_aware_deepcopy(module).w.mesh is whole.mesh
    memory_aware_to(module, "meta")
    assert module.w is whole and whole.scale.is_meta
