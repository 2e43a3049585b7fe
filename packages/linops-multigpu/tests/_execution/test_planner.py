"""Plans as data: what must hold of any, whatever the tiles, devices and windows are.

Shapes: M rows, N columns, X and Y a grid.
"""

from collections import Counter, defaultdict

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from linops_core import Add, Concat, Convolution, Dense, Diagonal, NamedLinop
from linops_multigpu import Action, Kind, Plan
from linops_multigpu._execution._planner import _are_disjoint, planned
from linops_split import Tiled, Tiling, batch_linop
from nameddim import ND

BASES = [torch.device("cuda", 0), torch.device("cpu")]
DEVICES = [*BASES, torch.device("cuda", 1), torch.device("cuda", 2)]


@st.composite
def tilings(draw: st.DrawFn) -> Tiling:
    """Draw the tiles of a matrix, of a convolution, which overlap, or of a sum of both kinds."""
    kind = draw(st.sampled_from(["matrix", "convolution", "sum"]))
    if kind == "sum":
        return Tiling(draw(sums_with_a_row()))
    if kind == "matrix":
        A: NamedLinop = Dense(torch.rand(4, 5), ("M", "N"))
        dims = ["M", "N"]
    else:
        A = Convolution(torch.rand(3), (), ("X",), ("Y",), grid_size=[6])
        dims = [draw(st.sampled_from(["X", "Y"]))]
    sizes = {dim: draw(st.integers(1, 6)) for dim in draw(st.permutations(dims))}
    B = batch_linop(draw(st.sampled_from([A, A.H])), sizes)
    return Tiling(B.whole if isinstance(B, Tiled) else B)


@st.composite
def sums_with_a_row(draw: st.DrawFn) -> NamedLinop:
    """Draw a sum of blocks side by side and of terms that read and write all, in any order."""
    blocks = [Diagonal(torch.rand(n), ("N",)) for n in (2, 1, 3)]
    terms: list[NamedLinop] = [Concat(*blocks, idim="N", odim="N")]
    terms += [Diagonal(torch.rand(6), ("N",)) for _ in range(draw(st.integers(0, 2)))]
    return Add(*draw(st.permutations(terms))) if len(terms) > 1 else terms[0]


@st.composite
def plans(draw: st.DrawFn) -> tuple[Tiling, list[torch.device], Plan]:
    tiling = draw(tilings())
    n = len(tiling.parts)
    devices = draw(st.lists(st.sampled_from(DEVICES), min_size=n, max_size=n))
    plan = planned(tiling, devices, draw(st.sampled_from(BASES)), draw(st.integers(1, 3)))
    return tiling, devices, plan


def stream(action: Action, base: torch.device) -> tuple[str, torch.device]:
    """Return the stream on which an action is, those of one doing one thing after the other."""
    if action.kind is Kind.SEND:
        return "in", action.device
    if action.kind is Kind.COLLECT:
        return "out", action.device
    return "compute", base if action.kind is Kind.ADD else action.device


def earlier(plan: Plan) -> list[set[int]]:
    """Return of each action all that are done before it starts: by waits and by its stream."""
    found: list[set[int]] = []
    last: dict[tuple[str, torch.device], int] = {}
    for number, action in enumerate(plan.actions):
        direct = {*action.after}
        if (before := last.get(stream(action, plan.base))) is not None:
            direct.add(before)
        last[stream(action, plan.base)] = number
        found.append(direct.union(*(found[other] for other in direct)))
    return found


def key(window: object) -> str:
    return repr(window)


@given(plans())
def test_each_tile_is_computed_once_where_it_is(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    tiling, devices, plan = drawn
    computed = [action for action in plan.actions if action.kind is Kind.COMPUTE]
    assert sorted(action.tile for action in computed) == list(range(len(tiling.parts)))
    for action in computed:
        assert action.device == devices[action.tile]
        assert action.window == tiling.parts[action.tile].reads


@given(plans())
def test_actions_wait_for_earlier_ones_and_use_what_is_there(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    plan = drawn[2]
    before = earlier(plan)
    for number, action in enumerate(plan.actions):
        assert all(other < number for other in action.after)
        for other in action.uses:
            assert other in before[number]
            used = plan.actions[other]
            wanted = {Kind.COMPUTE: Kind.SEND, Kind.COLLECT: Kind.COMPUTE, Kind.ADD: Kind.COLLECT}
            assert (used.kind, used.device) == (wanted[action.kind], action.device)
        if action.onto is not None:
            assert action.onto in before[number]
            assert plan.actions[action.onto].device == action.device


@given(plans())
def test_what_is_dropped_is_dropped_once_and_after_all_who_use_it(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    plan = drawn[2]
    before = earlier(plan)
    dropped = [number for action in plan.actions for number in action.drops]
    assert len(dropped) == len({*dropped})
    for number, action in enumerate(plan.actions):
        for gone in action.drops:
            users = {n for n, other in enumerate(plan.actions) if gone in (*other.uses, other.onto)}
            # What is added on the base device is in a buffer of the base, not of this tensor.
            users -= {n for n in users if plan.actions[n].kind is Kind.ADD}
            assert users <= before[number]


@given(plans())
def test_inputs_are_sent_and_results_collected_once_for_a_device(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    tiling, devices, plan = drawn
    away = [(d, part) for d, part in zip(devices, tiling.parts, strict=True) if d != plan.base]
    sent = Counter((a.device, key(a.window)) for a in plan.actions if a.kind is Kind.SEND)
    assert sent == Counter({(device, key(part.reads)) for device, part in away})
    collected = Counter((a.device, key(a.window)) for a in plan.actions if a.kind is Kind.COLLECT)
    assert collected == Counter({(device, key(part.writes)) for device, part in away})


def plan_of_a_matrix(*dims: str, there: set[int]) -> tuple[Tiling, list[torch.device], Plan]:
    """Return the plan of the nine elements of a matrix, some of them on a device."""
    B = batch_linop(Dense(torch.rand(3, 3), ("M", "N")), dict.fromkeys(dims, 1))
    assert isinstance(B, Tiled)
    tiling, (base, device) = Tiling(B.whole), BASES[::-1]
    devices = [device if tile in there else base for tile in range(9)]
    return tiling, devices, planned(tiling, devices, base, max_in_flight=1)


@given(plans())
# Several that were shared are done with before the next one comes: of inputs, and of results.
@example(plan_of_a_matrix("M", "N", there={0, 1, 3, 4, 5}))
@example(plan_of_a_matrix("N", "M", there={*range(9)}))
def test_a_window_of_inputs_and_results_is_on_a_device(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    tiling, devices, plan = drawn
    last = {
        (d, key(p.reads)): t for t, (d, p) in enumerate(zip(devices, tiling.parts, strict=True))
    }
    inputs, computed = defaultdict[torch.device, set[int]](set), set[int]()
    for number, action in enumerate(plan.actions):
        if action.kind is Kind.SEND:
            own = inputs[action.device]
            own -= {*action.drops}
            own.add(number)
            shared = {
                n
                for n in own - {number}
                if last[action.device, key(plan.actions[n].window)] not in computed
            }
            assert len(own - shared) <= plan.max_in_flight
        elif action.kind is Kind.COMPUTE:
            computed.add(action.tile)
    results = defaultdict[torch.device, set[int]](set)
    collected = set[int]()
    for number, action in enumerate(plan.actions):
        if action.kind is Kind.COMPUTE and action.device != plan.base:
            own = results[action.device]
            own -= {*action.drops, action.onto}
            own.add(number)
            done = {n for n in own if n in collected}
            assert len(done) + (action.onto is None) <= plan.max_in_flight
        elif action.kind is Kind.COLLECT:
            collected |= {*action.uses}


@given(plans())
def test_writes_to_the_output_that_overlap_are_in_order(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    tiling, _, plan = drawn
    before = earlier(plan)
    y = torch.zeros(tiling.output_shape([6]))
    writers = [
        number
        for number, action in enumerate(plan.actions)
        if action.kind is Kind.ADD
        or (action.kind is Kind.COLLECT and action.slot is None)
        or (action.kind is Kind.COMPUTE and action.device == plan.base)
    ]
    places = tiling.outputs(torch.arange(y.numel()).reshape(y.shape))
    written = dict[int, set[int]]()
    for number in writers:
        action = plan.actions[number]
        own = {*places[action.tile].flatten().tolist()}
        for other, theirs in written.items():
            if own & theirs:
                assert other in before[number]
        # What comes first is written, what comes later is added.
        own_places = {frozenset(place.flatten().tolist()) for place in places}
        overlap = sum(map(len, own_places)) > len(frozenset().union(*own_places))
        is_first = not overlap and not any(own & theirs for theirs in written.values())
        assert action.adds is not is_first
        written[number] = own


@given(plans())
def test_a_buffer_is_used_again_when_it_was_added(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    plan = drawn[2]
    before = earlier(plan)
    held = dict[int, int]()
    for number, action in enumerate(plan.actions):
        if action.slot is None:
            continue
        assert 0 <= action.slot < plan.n_slots <= plan.max_in_flight
        if action.kind is Kind.COLLECT:
            if action.slot in held:
                assert held[action.slot] in before[number]
            held[action.slot] = number + 1
        else:
            assert held[action.slot] == number


@given(plans())
def test_each_device_that_is_sent_something_is_a_lane(
    drawn: tuple[Tiling, list[torch.device], Plan],
) -> None:
    _, devices, plan = drawn
    assert plan.n_lanes == len({*devices} - {plan.base})


def test_a_device_counts_as_often_as_it_has_streams() -> None:
    B = batch_linop(Dense(torch.rand(4, 5), ("M", "N")), {"M": 1})
    assert isinstance(B, Tiled)
    devices = [DEVICES[2]] * 4
    assert planned(B.tiling(), devices, BASES[1], 2).n_lanes == 1
    assert planned(B.tiling(), devices, BASES[1], 2, [0, 1, 2, 0]).n_lanes == 3


@given(plans(), st.integers(1, 3))
def test_the_same_tiles_give_the_same_plan(
    drawn: tuple[Tiling, list[torch.device], Plan], max_in_flight: int
) -> None:
    tiling, devices, plan = drawn
    assert planned(tiling, devices, plan.base, plan.max_in_flight) == plan
    other = planned(tiling, devices, plan.base, max_in_flight)
    # The order of sums does not depend on the window.
    order = [(a.kind, a.tile) for a in plan.actions if a.kind is not Kind.SEND]
    assert order == [(a.kind, a.tile) for a in other.actions if a.kind is not Kind.SEND]


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 4), max_size=6))
@example([(0, 6, 0, 1), (1, 1, 1, 1), (3, 1, 0, 1)])
@example([(0, 1, 0, 6), (1, 1, 1, 1), (0, 1, 3, 1)])
@example([(0, 2, 0, 2), (0, 1, 1, 2), (3, 2, 0, 1)])
def test_windows_that_are_told_apart_have_nothing_in_common(
    corners: list[tuple[int, int, int, int]],
) -> None:
    windows = [
        {ND("X"): slice(i, i + max(m, 1)), ND("Y"): slice(j, j + max(n, 1))}
        for i, m, j, n in corners
    ]
    counts = torch.zeros(12, 12)
    for window in windows:
        counts[window[ND("X")], window[ND("Y")]] += 1
    if _are_disjoint(windows):
        assert counts.max() <= 1
