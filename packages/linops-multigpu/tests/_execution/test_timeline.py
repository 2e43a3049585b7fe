"""When the actions of a plan would run, against what simulated devices take."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Diagonal
from linops_multigpu import BatchedLinop, BatchSpec, Kind, Span, Timeline, create_batched_linop
from linops_multigpu.testing import simulated


def batched(n_tiles: int, devices: list[str], base: str, max_in_flight: int) -> BatchedLinop:
    A = Diagonal(torch.rand(n_tiles), ("N",))
    spec = BatchSpec({"N": 1}, devices, base)
    return create_batched_linop(A, spec, max_in_flight=max_in_flight)


@given(st.integers(1, 7), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_it_is_what_simulated_devices_take(
    n_tiles: int, n_devices: int, max_in_flight: int, compute: int
) -> None:
    devices = [f"sim:{k}" for k in range(1, n_devices + 1)]
    with simulated() as world:
        B = batched(n_tiles, devices, "sim:0", max_in_flight)
        x = torch.rand(n_tiles).to("sim:0")
        B(x)  # which tests the way from device to device
        world.synchronize()
        world.set_cost(copy=1.0, kernel=float(compute))
        B(x)
        result = B.timeline(compute=compute)
        assert result.makespan == pytest.approx(world.timeline().makespan)
        assert max(result.busy.values()) == pytest.approx(max(world.timeline().busy.values()))


@pytest.mark.parametrize("n_devices", [1, 2, 3])
def test_only_the_first_input_and_the_last_result_are_waited_for(n_devices: int) -> None:
    B = batched(8 * n_devices, ["meta"] * n_devices, "cpu", 2)
    assert B.timeline(compute=2.0).makespan == 1 + 2 * 8 * n_devices + 1


def test_no_engine_does_two_things_at_a_time() -> None:
    spans = batched(6, ["meta", "cpu"], "cpu", 1).timeline(compute=1.5).spans
    for engine in {span.engine for span in spans}:
        own = sorted((span.start, span.end) for span in spans if span.engine == engine)
        assert all(before[1] <= after[0] for before, after in pairwise(own))


def test_the_picture_has_a_bar_for_each_action() -> None:
    B = batched(3, ["meta"], "cpu", 2)
    drawn = ET.fromstring(B.timeline(compute=2.0).to_svg())
    titles = [result.text for result in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[:3] == ["send tile 0: 0 to 1", "compute tile 0: 1 to 3", "collect tile 0: 3 to 4"]
    assert len(titles) == len(B.plan().actions)
    assert B.timeline()._repr_svg_() == B.timeline().to_svg()


@pytest.mark.parametrize(("n_tiles", "more"), [(3, False), (40, True)])
def test_a_plan_is_a_table_of_its_first_steps(n_tiles: int, more: bool) -> None:
    plan = batched(n_tiles, ["meta"], "cpu", 2).plan()
    table = ET.fromstring(plan._repr_html_())
    rows = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
    assert rows[0] == ["step", "what", "tile", "device", "part", "after"]
    assert rows[1][:4] == ["0", "send", "0", "meta"] and rows[2][5] == "0"
    assert len(rows) == 1 + min(len(plan.actions), 100)
    assert ("more steps: print the plan" in "".join(table.itertext())) is more


@pytest.mark.parametrize("duration", [-1.0, float("nan")])
def test_no_time_is_negative(duration: float) -> None:
    with pytest.raises(ValueError, match="send must not take negative time, got"):
        batched(2, ["meta"], "cpu", 2).timeline(send=duration)


def test_nothing_takes_no_time() -> None:
    assert Timeline(()).makespan == 0 and not Timeline(()).busy
    (span,) = batched(1, ["cpu"], "cpu", 2).timeline(compute=3.0).spans
    assert isinstance(span, Span)
    assert (span.engine, span.kind, span.start, span.end) == ("cpu", Kind.COMPUTE, 0, 3)
