"""Numbers, names and shape of a report, against counting byte by byte."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import memmap
from memmap import MemoryReport, StorageError, View
from memmap._bytes_text import bytes_text
from memmap._reports._numbers import Numbers
from memmap.testing import touched_bytes, views

NAMED_VIEWS = st.lists(views(), min_size=1, max_size=5).map(
    lambda listed: {f"view {index}": view for index, view in enumerate(listed)}
)
EMPTY = View("RAM", 0, 64, sizes=(0,), strides=(1,))


def total(report: MemoryReport) -> dict[str, int]:
    return report.totals._asdict()


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3, bias=False)
        self.second = torch.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.again = self.first
        self.register_buffer("row", self.first.weight.detach()[1])
        self.register_parameter("none", None)


@given(NAMED_VIEWS)
@example({"full": View("RAM", 0, 64, sizes=(64,), strides=(1,)), "empty": EMPTY})
@example({"twice": View("RAM", 0, 64, sizes=(9, 2), strides=(0, 1)), "empty": EMPTY})
def test_the_numbers_are_those_of_counting_byte_by_byte(named: dict[str, View]) -> None:
    touched = {name: set(touched_bytes(view)) for name, view in named.items()}
    counts = Counter(byte for part in touched.values() for byte in part)
    report = MemoryReport(named)
    (storage,) = report.storages
    assert report.totals == storage.numbers == report.devices["RAM"]
    assert total(report) == {
        "allocated": 64,
        "spanned": max(counts) + 1 - min(counts) if counts else 0,
        "touched": len(counts),
        "shared": sum(count >= 2 for count in counts.values()),
        "wasted": 64 - len(counts),
        "separate": sum(len(touched_bytes(view)) for view in named.values()),
    }
    for tensor in storage.tensors:
        (name,) = tensor.entry.names
        own = touched[name]
        others = {other: part for other, part in touched.items() if other != name}
        assert tensor.touched == len(own)
        assert tensor.spanned == (max(own) + 1 - min(own) if own else 0)
        assert tensor.separate == len(touched_bytes(named[name]))
        assert tensor.shared == sum(counts[byte] >= 2 for byte in own)
        assert set(tensor.shares_with) == {n for n, part in others.items() if part & own}
        assert not own or tensor.offset == min(own)


@given(NAMED_VIEWS, st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_storages_with_common_bytes_count_as_one_and_others_apart(
    named: dict[str, View], places: list[int]
) -> None:
    """Storages of 64 bytes at multiples of 40: neighbours meet, the next but one do not."""
    moved = {
        name: View("RAM", 40 * place, 64, *view[3:])
        for (name, view), place in zip(named.items(), places, strict=False)
    }
    covered: set[int] = set()
    n_groups = 0
    for place in sorted(set(places[: len(moved)])):
        block = set(range(40 * place, 40 * place + 64))
        n_groups += not covered & block
        covered |= block
    report = MemoryReport(moved)
    assert len(report.storages) == n_groups
    assert total(report)["allocated"] == len(covered)
    assert total(report)["touched"] == len({b for v in moved.values() for b in touched_bytes(v)})
    sizes = [storage.numbers.allocated for storage in report.storages]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("spans", "allocated"),
    [
        ([(0, 64), (64, 128)], [64, 64]),
        ([(0, 200), (10, 20), (50, 60)], [200]),
        ([(0, 64), (63, 128)], [128]),
    ],
)
def test_storages_are_one_only_if_they_have_a_byte_in_common(
    spans: list[tuple[int, int]], allocated: list[int]
) -> None:
    report = MemoryReport(
        {str(span): View("RAM", span[0], span[1] - span[0]) for span in reversed(spans)}
    )
    assert [storage.numbers.allocated for storage in report.storages] == allocated


def test_two_names_of_one_tensor_share_all_of_it() -> None:
    x = torch.zeros(4)[1:]
    assert MemoryReport({"a": x, "b": x}).totals == Numbers(16, 12, 12, 12, 4, 24)


def test_a_tied_tensor_is_listed_with_all_names_and_a_shared_submodule_once() -> None:
    report = MemoryReport(Tied())
    (storage,) = report.storages
    weight, row = storage.tensors
    assert weight.entry.names == ["first.weight", "second.weight"]
    assert weight.shares_with == ("second.weight", "row")
    assert row.entry.names == ["row"] and row.shares_with == ("first.weight", "second.weight")
    assert total(report) == {
        "allocated": 36,
        "spanned": 36,
        "touched": 36,
        "shared": 36,
        "wasted": 0,
        "separate": 36 + 36 + 12,
    }


def test_gradients_are_listed_after_their_parameters() -> None:
    layer = torch.nn.Linear(2, 1)
    layer(torch.ones(2)).backward()
    names = {
        name for s in MemoryReport(layer).storages for t in s.tensors for name in t.entry.names
    }
    assert names == {"weight", "weight.grad", "bias", "bias.grad"}


def test_meta_and_fake_tensors_arrays_and_empty_ones_are_reported() -> None:
    meta = torch.zeros(1 << 40, device="meta")
    report = MemoryReport(
        {"meta": meta, "half": meta[: 1 << 39], "array": np.zeros((2, 3)), "empty": torch.zeros(0)}
    )
    assert report.devices["meta"].allocated == 4 << 40
    assert report.devices["meta"].shared == 2 << 40
    assert report.devices["cpu"].touched == 48
    assert len(report.storages) == 3


def test_sparse_tensors_are_reported_by_their_components() -> None:
    report = MemoryReport({"eye": torch.eye(3).to_sparse()})
    names = {t.entry.names[0] for s in report.storages for t in s.tensors}
    assert names == {"eye.indices", "eye.values"}
    assert total(report)["touched"] == 2 * 3 * 8 + 3 * 4


def test_tensors_without_known_memory_are_named_and_not_counted() -> None:
    report = MemoryReport(torch.nn.LazyLinear(3, bias=False))
    assert report.unplaced == ("weight",) and report.storages == ()
    assert "weight: memory unknown, not counted" in str(report)
    assert total(report)["allocated"] == 0


def test_a_report_is_made_of_modules_and_mappings_only() -> None:
    wrong: Any = [torch.zeros(1)]
    with pytest.raises(
        TypeError, match=r"a module or a mapping.* got list .attributes=True.*from_file"
    ):
        MemoryReport(wrong)


def test_a_value_must_be_a_tensor() -> None:
    with pytest.raises(TypeError, match=r"options: a value must be a tensor.* got object"):
        MemoryReport({"epoch": 3, "options": object()})


def test_a_tensor_outside_its_storage_is_refused_by_name() -> None:
    weight = torch.zeros(4)
    weight.untyped_storage().resize_(8)
    with pytest.raises(StorageError, match="weight: view: every element must lie in its storage"):
        MemoryReport({"weight": weight})


@given(NAMED_VIEWS)
def test_the_dictionary_survives_json_and_has_the_numbers(named: dict[str, View]) -> None:
    report = MemoryReport(named)
    listed = report.to_dict()
    assert json.loads(json.dumps(listed)) == listed
    assert listed["totals"] == total(report)
    (storage,) = json.loads(json.dumps(listed["storages"]))
    assert {name for tensor in storage["tensors"] for name in tensor["names"]} == set(named)
    assert storage["touched"] == total(report)["touched"]


def test_the_table_is_aligned_and_sorted_by_size() -> None:
    flat = torch.zeros(1000)
    lines = str(
        MemoryReport({"b": torch.zeros(2), "w": flat[:600].view(20, 30), "v": flat[500:900]})
    ).splitlines()
    assert lines == [
        "allocated  spanned  touched  shared  wasted  separate  tensor",
        "  3.9 KiB  3.5 KiB  3.5 KiB   400 B   400 B   3.9 KiB  storage of 2 tensors on cpu:",
        "           2.3 KiB  2.3 KiB   400 B           2.3 KiB    w: float32 20x30, shares with v",
        "           1.6 KiB  1.6 KiB   400 B           1.6 KiB    v: float32 400, shares with w",
        "      8 B      8 B      8 B     0 B     0 B       8 B  b: float32 2",
        "  3.9 KiB  3.5 KiB  3.5 KiB   400 B   400 B   3.9 KiB  total on cpu",
    ]


def test_the_numbers_of_the_table_leave_room_in_80_columns() -> None:
    huge = View("RAM", 0, 1000 << 50, sizes=(999 << 50,), strides=(1,))
    lines = str(MemoryReport({"a" * 100: huge, "b": huge._replace(offset=1 << 50)})).splitlines()
    assert "1000.0 PiB" in lines[1] and "2.0 EiB" in lines[1]
    assert lines[0].index("tensor") == lines[1].index("storage of") < 70


def test_many_partners_are_counted_instead_of_listed() -> None:
    x = torch.zeros(4)
    text = str(MemoryReport({name: x[:] for name in "abcdef"}))
    assert "b, c, d and 2 more" in text


def test_names_cannot_command_the_terminal() -> None:
    text = str(MemoryReport({"evil\x1b[2J\r\nname\ud800": torch.zeros(1)}))
    assert "\x1b" not in text and "\r" not in text and len(text.splitlines()) == 3
    assert r"evil\x1b[2J\r\nname\ud800" in text


@given(st.integers(0, 70).flatmap(lambda bits: st.integers(0, 1 << bits)))
@example((1 << 20) - 1)
@example(1 << 60)
def test_a_human_number_is_the_number_in_a_unit_of_which_there_is_one(nbytes: int) -> None:
    number, unit = bytes_text(nbytes).split()
    power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].index(unit)
    scale = 1024**power
    assert power == 0 or float(number) >= 1
    assert power == 6 or float(number) < 1024
    assert abs(float(number) * scale - nbytes) <= 0.05 * scale * 1.001


def test_the_old_name_and_the_representation() -> None:
    assert memmap.MemReporter is MemoryReport
    assert repr(MemoryReport({"x": torch.zeros(1)})).startswith("MemoryReport(1 storages, Numbers(")
