"""What is new, gone and changed, against comparing tensor by tensor."""

import json
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import MemoryReport, diff_reports, overlaps

FLATS = [torch.zeros(6), torch.zeros(6, dtype=torch.float64)]
SLICES = st.builds(
    lambda flat, low, n: FLATS[flat][low : low + n],
    st.integers(0, 1), st.integers(0, 5), st.integers(1, 3),
)  # fmt: skip
STATES = st.dictionaries(st.sampled_from("abcd"), SLICES)


def partners(state: dict[str, Any], name: str, among: dict[str, Any]) -> set[str]:
    return {n for n in state if n != name and n in among and overlaps(state[n], state[name])}


@given(STATES, STATES)
def test_differences_are_those_of_comparing_one_by_one(
    before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]
) -> None:
    diff = diff_reports(MemoryReport(before), MemoryReport(after))
    assert set(diff.new) == set(after) - set(before)
    assert set(diff.gone) == set(before) - set(after)
    expected = {
        name
        for name in set(before) & set(after)
        if before[name].dtype != after[name].dtype
        or before[name].shape != after[name].shape
        or partners(before, name, after) != partners(after, name, before)
    }
    assert set(diff.changed) == expected
    listed = json.loads(json.dumps(diff.to_dict()))
    assert listed["changed"].keys() == expected
    assert len(str(diff).splitlines()) == max(len(diff.new) + len(diff.gone) + len(expected), 1)


def test_a_report_does_not_differ_from_itself_and_knows_tensors_without_a_place() -> None:
    lazy = MemoryReport(torch.nn.LazyLinear(3))
    assert str(diff_reports(lazy, lazy)) == "no difference (values are not compared)"
    diff = diff_reports(lazy, MemoryReport({"weight": torch.zeros(3, 4), "bias\n": torch.zeros(3)}))
    assert str(diff).splitlines() == [
        r"new      bias\n: float32 3",
        "gone     bias: ? scalar",
        "changed  weight: ? scalar -> float32 3x4",
    ]
