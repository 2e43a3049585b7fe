"""State dicts and nested mappings are taken wherever modules are; reports follow attributes."""

import io
import tempfile
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing._internal.two_tensor import TwoTensor

from memmap import (
    AliasError,
    MemoryReport,
    ModuleMemoryMap,
    MoveError,
    memory_aware_deepcopy,
    memory_aware_to,
    overlapping_pairs,
    overlaps,
)
from memmap._modules._named import named_values

KEYS = st.text("abc.", max_size=3) | st.integers(-2, 3) | st.booleans()


@st.composite
def nested(draw: st.DrawFn) -> dict[str, Any]:
    """Mappings and lists of any depth; their tensors are slices of two storages."""
    flats = [torch.arange(8.0), torch.arange(6.0)]
    slices = st.builds(
        lambda flat, low, n: flats[flat][low : low + n],
        st.integers(0, 1), st.integers(0, 5), st.integers(0, 3),
    )  # fmt: skip
    known = draw(st.lists(slices, min_size=1, max_size=3))
    leaves = st.sampled_from(known) | st.none() | st.integers(-2, 2) | st.just("text")
    inner = st.recursive(
        leaves,
        lambda parts: (
            st.lists(parts, max_size=3)
            | st.tuples(parts)
            | st.dictionaries(KEYS, parts, max_size=3)
            | st.dictionaries(KEYS, parts, max_size=3).map(OrderedDict)
        ),
        max_leaves=6,
    )
    return draw(st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3))


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [v for _, v in named_values(value) if isinstance(v, torch.Tensor)]


@given(nested())
def test_the_report_on_a_mapping_is_that_on_its_file(source: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.pt")
        torch.save(source, path)
        saved = MemoryReport.from_file(path)
    assert MemoryReport(source).to_dict()["totals"] == saved.to_dict()["totals"]
    names = [
        sorted(name for s in report.storages for t in s.tensors for name in t.entry.names)
        for report in (MemoryReport(source), saved)
    ]
    assert names[0] == names[1]


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")  # hypothesis holds the tensors
@given(nested())
def test_a_copy_of_a_mapping_is_equal_and_shares_as_the_source(source: dict[str, Any]) -> None:
    made = memory_aware_deepcopy(source)
    old, new = tensors_in(source), tensors_in(made)
    assert str(made) == str(source) and made is not source
    for (a, b), (c, d) in zip(combinations(old, 2), combinations(new, 2), strict=True):
        assert overlaps(a, b) == overlaps(c, d) and (a is b) == (c is d)
    assert not any(overlaps(a, b) for a in old for b in new)


@pytest.mark.filterwarnings("ignore::memmap.AliasWarning")  # hypothesis holds the tensors
@given(nested())
def test_a_mapping_moves_and_casts_in_place(source: dict[str, Any]) -> None:
    old = tensors_in(source)
    pairs = [overlaps(a, b) for a, b in combinations(old, 2)]
    numbers = [tensor.tolist() for tensor in old]
    assert memory_aware_to(source, dtype=torch.float64) is source
    new = tensors_in(source)
    assert all(a is b for a, b in zip(old, new, strict=True))
    assert [tensor.tolist() for tensor in new] == numbers
    assert {tensor.dtype for tensor in new} <= {torch.float64}
    assert [overlaps(a, b) for a, b in combinations(new, 2)] == pairs
    memory_aware_to(source, "meta")
    assert [overlaps(a, b) for a, b in combinations(new, 2)] == pairs


@given(nested())
def test_pairs_of_a_mapping_have_its_names(source: dict[str, Any]) -> None:
    report = MemoryReport(source)
    named = [(n, t.entry.view) for s in report.storages for t in s.tensors for n in t.entry.names]
    expected = sorted(sorted((a, b)) for (a, v), (b, w) in combinations(named, 2) if overlaps(v, w))
    assert sorted(map(sorted, overlapping_pairs(source))) == expected


def test_pairs_of_a_module_have_its_names_and_take_sparse_tensors_apart() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight
    module.register_buffer("sparse", torch.eye(2).to_sparse())
    assert overlapping_pairs(module) == [("0.weight", "1.weight")]
    lazy = torch.nn.LazyLinear(3)
    with pytest.raises(TypeError, match="overlapping_pairs: weight: a tensor must have a known"):
        overlapping_pairs(lazy)


def test_the_state_of_an_optimizer_is_reported() -> None:
    layer = torch.nn.Linear(2, 3)
    layer(torch.ones(2)).sum().backward()
    optimizer = torch.optim.Adam(layer.parameters())
    optimizer.step()
    totals = MemoryReport(optimizer.state_dict()).totals
    assert totals.touched == 2 * (24 + 12) + 2 * 4
    everything = MemoryReport(optimizer, attributes=True).totals
    assert everything.touched == 4 * (24 + 12) + 2 * 4


def test_a_state_dict_keeps_its_metadata_and_other_mappings_their_class() -> None:
    state = torch.nn.BatchNorm1d(2).state_dict()
    made = memory_aware_deepcopy(state)
    assert type(made) is OrderedDict and made._metadata == state._metadata  # type: ignore[attr-defined]
    others: list[Any] = [defaultdict(list, x=[torch.ones(2)]), UserDict(x=[torch.ones(2)])]
    for mapping in others:
        copied = memory_aware_deepcopy(mapping)
        assert type(copied) is type(mapping) and torch.equal(copied["x"][0], torch.ones(2))


def test_a_mapping_shares_placed_memory_with_modules() -> None:
    layer = torch.nn.Linear(4, 4)
    state: dict[str, Any] = {"model": layer.state_dict(), "epoch": 3}
    memory_map = ModuleMemoryMap(layer)
    memory_map.register_module(state)
    there, module = memory_map.copy_to(state, "meta"), memory_map.copy_to(layer, "meta")
    assert overlaps(there["model"]["weight"], module.weight) and there["epoch"] == 3
    assert "1['model']['weight']" in str(memory_map.report())


def test_memory_that_is_held_outside_of_a_mapping_is_seen() -> None:
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(AliasError, match="got other holders for weight"):
        memory_aware_to(layer.state_dict(), "meta", strict=True)


def test_modules_in_a_mapping_move_too_and_are_checked() -> None:
    models: dict[str, Any] = {"gru": torch.nn.GRU(2, 3), "list": [torch.nn.Linear(2, 2)]}
    memory_aware_to(models, dtype=torch.float64)
    assert models["gru"](torch.ones(1, 2, dtype=torch.float64))[0].dtype == torch.float64
    traced = torch.jit.ScriptModule()
    with pytest.raises(MoveError, match=r"deep\['er'\]: a module that moves must hold"):
        memory_aware_to({"deep": {"er": traced}}, dtype=torch.float64)


def test_other_sources_are_refused_by_name() -> None:
    wrong: Any = [torch.ones(2)]
    with pytest.raises(TypeError, match=r"copy: module must be a torch\.nn\.Module or a mapping"):
        memory_aware_deepcopy(wrong)
    with pytest.raises(TypeError, match=r"to: module must be a torch\.nn\.Module or a mapping"):
        memory_aware_to(wrong, "meta")
    with pytest.raises(TypeError, match=r"a\['b'\]: a value must be a tensor"):
        memory_aware_to({"a": {"b": SimpleNamespace()}}, "meta")


def names_of(report: MemoryReport) -> dict[str, int]:
    return {n: t.touched for s in report.storages for t in s.tensors for n in t.entry.names}


def test_attributes_of_live_modules_are_reported() -> None:
    """A cache, the state of a quantised weight, arrays, bound arguments, cycles."""
    layer: Any = torch.nn.Linear(2, 2, bias=False)
    layer.cache = SimpleNamespace(layers=[SimpleNamespace(keys=torch.zeros(3, 4))], owner=layer)
    layer.weight.quant_state = SimpleNamespace(absmax=torch.zeros(5), code=np.zeros(3))
    layer.rows = layer.weight.detach()[0]
    result = names_of(MemoryReport(layer, attributes=True))
    assert result == {
        "weight": 16,
        "rows": 8,
        "cache.layers[0].keys": 48,
        "weight.quant_state.absmax": 20,
        "weight.quant_state.code": 24,
    }
    assert names_of(MemoryReport(layer)) == {"weight": 16}
    assert names_of(MemoryReport(layer.cache, attributes=True)).keys() >= {"owner.weight"}


def test_keys_that_are_tensors_are_reported_and_never_printed() -> None:
    key = torch.ones(2)
    assert names_of(MemoryReport({"state": {key: torch.ones(3)}})) == {
        "state.key(0)": 8,
        "state[key 0]": 12,
    }


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_packed_weights_have_the_size_that_their_class_tells() -> None:
    packed = torch.ao.nn.quantized.dynamic.Linear(30, 40)
    (storage,) = MemoryReport(packed, attributes=True).storages
    assert storage.numbers.touched == 30 * 40 + 4 * 40
    assert "_packed_params._packed_params: packed 1360" in str(
        MemoryReport(packed, attributes=True)
    )
    if torch.backends.mkldnn.is_available():
        report = MemoryReport({"x": torch.zeros(3, 3).to_mkldnn()})
        assert "x: float32 3x3" in str(report) and report.totals.touched == 36


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_the_scales_of_quantized_channels_take_memory() -> None:
    scales, zeros = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    tensor = torch.quantize_per_channel(torch.ones(3, 5), scales, zeros, 0, torch.qint8)
    report = MemoryReport({"w": tensor})
    assert names_of(report) == {"w": 15, "w.scales": 24, "w.zero_points": 24}


def test_the_parts_of_a_wrapper_are_listed_once() -> None:
    two: Any = TwoTensor(torch.zeros(3), torch.zeros(3))
    two.more = torch.zeros(1)
    report = MemoryReport({"two": two}, attributes=True)
    assert names_of(report) == {"two.a": 12, "two.b": 12, "two.more": 4}
    assert report.totals.shared == 0


def test_a_report_on_a_mapping_opens_no_lazy_stream() -> None:
    with pytest.raises(TypeError, match="file: a value must be a tensor"):
        MemoryReport({"file": io.BytesIO()})


class Chain(Mapping[str, Any]):
    """A chain of mappings; the parts of each are made when they are asked for."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return 1 + (self.n > 1)

    def __iter__(self) -> Iterator[str]:
        return iter(["here", "next"][: len(self)])

    def __getitem__(self, key: str) -> Any:
        return {"x": torch.ones(self.n)} if key == "here" else Chain(self.n - 1)


def test_containers_that_exist_only_for_a_moment_are_all_opened() -> None:
    """Their ids may be used again, so the walk keeps them."""
    assert sorted(names_of(MemoryReport(Chain(30))).values()) == [4 * n for n in range(1, 31)]
