"""Plans as data: what must hold of any, whatever the tiles, devices and windows are.

Shapes: M rows, N columns, X and Y a grid.
"""

from collections import Counter, defaultdict

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from linops_core import Convolution, Dense, Diagonal, NamedLinop
from linops_multigpu import Action, Kind, Plan
from linops_multigpu._execution._planner import planned
from linops_split import Part, Tiled, Tiles, batch_linop
from linops_split.siblings import Forward, Work
from nameddim import ND

BASES = [torch.device("cuda", 0), torch.device("cpu")]
DEVICES = [*BASES, torch.device("cuda", 1), torch.device("cuda", 2)]


@st.composite
def tables(draw: st.DrawFn) -> Tiles:
    """Draw the tiles of a matrix, of a convolution, which overlap, or of a sum of both kinds."""
    kind = draw(st.sampled_from(["matrix", "convolution", "sum"]))
    if kind == "sum":
        return draw(sums_with_a_row())
    if kind == "matrix":
        A: NamedLinop = Dense(torch.rand(4, 5), ("M", "N"))
        dims = ["M", "N"]
    else:
        A = Convolution(torch.rand(3), (), ("X",), ("Y",), grid_size=[6])
        dims = [draw(st.sampled_from(["X", "Y"]))]
    sizes = {dim: draw(st.integers(1, 6)) for dim in draw(st.permutations(dims))}
    return table_of(batch_linop(draw(st.sampled_from([A, A.H])), sizes))


def table_of(B: NamedLinop) -> Tiles:
    return B.tiles if isinstance(B, Tiled) else Tiles(B.shape, [Part(B)], {})


@st.composite
def sums_with_a_row(draw: st.DrawFn) -> Tiles:
    """Draw a sum of blocks side by side and of terms that read and write all, in any order."""
    pieces = [slice(0, 2), slice(2, 3), slice(3, 6)]
    parts = [Part(Diagonal(torch.rand(p.stop - p.start), ("N",)), {ND("N"): p}) for p in pieces]
    n_whole = draw(st.integers(0, 2))
    parts += [Part(Diagonal(torch.rand(6), ("N",))) for _ in range(n_whole)]
    return Tiles(parts[0].linop.shape, draw(st.permutations(parts)), {ND("N"): 6})


def work_of(tiles: Tiles) -> Work:
    return Forward(tiles, torch.empty(0))


@st.composite
def plans(draw: st.DrawFn) -> tuple[Tiles, list[torch.device], Plan]:
    tiles = draw(tables())
    n = len(tiles.parts)
    devices = draw(st.lists(st.sampled_from(DEVICES), min_size=n, max_size=n))
    plan = planned(work_of(tiles), devices, draw(st.sampled_from(BASES)), draw(st.integers(1, 3)))
    return tiles, devices, plan


def stream(action: Action, base: torch.device) -> tuple[str, torch.device]:
    """Return the stream on which an action is, those of one doing one thing after the other."""
    if action.kind is Kind.SEND:
        return "in", action.device
    if action.kind is Kind.COLLECT:
        return "out", action.device
    return "compute", base if action.kind is Kind.ADD else action.device


def earlier(plan: Plan) -> list[set[int]]:
    """Return of each action all that are done before it starts: by waits and by its stream."""
    results: list[set[int]] = []
    last: dict[tuple[str, torch.device], int] = {}
    for number, action in enumerate(plan.actions):
        direct = {*action.after}
        if (before := last.get(stream(action, plan.base))) is not None:
            direct.add(before)
        last[stream(action, plan.base)] = number
        results.append(direct.union(*(results[other] for other in direct)))
    return results


def key(window: object) -> str:
    return repr(window)


@given(plans())
def test_each_tile_is_computed_once_where_it_is(
    drawn: tuple[Tiles, list[torch.device], Plan],
) -> None:
    tiles, devices, plan = drawn
    computed = [action for action in plan.actions if action.kind is Kind.COMPUTE]
    assert sorted(action.tile for action in computed) == list(range(len(tiles.parts)))
    for action in computed:
        assert action.device == devices[action.tile]
        assert action.window == tiles.parts[action.tile].reads


@given(plans())
def test_actions_wait_for_earlier_ones_and_use_what_is_there(
    drawn: tuple[Tiles, list[torch.device], Plan],
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
    drawn: tuple[Tiles, list[torch.device], Plan],
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
    drawn: tuple[Tiles, list[torch.device], Plan],
) -> None:
    tiles, devices, plan = drawn
    away = [(d, part) for d, part in zip(devices, tiles.parts, strict=True) if d != plan.base]
    sent = Counter((a.device, key(a.window)) for a in plan.actions if a.kind is Kind.SEND)
    assert sent == Counter({(device, key(part.reads)) for device, part in away})
    collected = Counter((a.device, key(a.window)) for a in plan.actions if a.kind is Kind.COLLECT)
    assert collected == Counter({(device, key(part.writes)) for device, part in away})


def plan_of_a_matrix(*dims: str, there: set[int]) -> tuple[Tiles, list[torch.device], Plan]:
    """Return the plan of the nine elements of a matrix, some of them on a device."""
    B = batch_linop(Dense(torch.rand(3, 3), ("M", "N")), dict.fromkeys(dims, 1))
    assert isinstance(B, Tiled)
    tiles, (base, device) = B.tiles, BASES[::-1]
    devices = [device if tile in there else base for tile in range(9)]
    return tiles, devices, planned(work_of(tiles), devices, base, max_in_flight=1)


@given(plans())
# Several that were shared are done with before the next one comes: of inputs, and of results.
@example(plan_of_a_matrix("M", "N", there={0, 1, 3, 4, 5}))
@example(plan_of_a_matrix("N", "M", there={*range(9)}))
def test_a_window_of_inputs_and_results_is_on_a_device(
    drawn: tuple[Tiles, list[torch.device], Plan],
) -> None:
    tiles, devices, plan = drawn
    last = {(d, key(p.reads)): t for t, (d, p) in enumerate(zip(devices, tiles.parts, strict=True))}
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
    drawn: tuple[Tiles, list[torch.device], Plan],
) -> None:
    tiles, _, plan = drawn
    before = earlier(plan)
    y = torch.zeros(tiles.output.shape([6]))
    writers = [
        number
        for number, action in enumerate(plan.actions)
        if action.kind is Kind.ADD
        or (action.kind is Kind.COLLECT and action.slot is None)
        or (action.kind is Kind.COMPUTE and action.device == plan.base)
    ]
    places = tiles.output.views(torch.arange(y.numel()).reshape(y.shape))
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
    drawn: tuple[Tiles, list[torch.device], Plan],
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
    drawn: tuple[Tiles, list[torch.device], Plan],
) -> None:
    _, devices, plan = drawn
    assert plan.n_lanes == len({*devices} - {plan.base})


def test_a_device_counts_as_often_as_it_has_streams() -> None:
    B = batch_linop(Dense(torch.rand(4, 5), ("M", "N")), {"M": 1})
    assert isinstance(B, Tiled)
    devices = [DEVICES[2]] * 4
    assert planned(work_of(B.tiles), devices, BASES[1], 2).n_lanes == 1
    assert planned(work_of(B.tiles), devices, BASES[1], 2, [0, 1, 2, 0]).n_lanes == 3


@given(plans(), st.integers(1, 3))
def test_the_same_tiles_give_the_same_plan(
    drawn: tuple[Tiles, list[torch.device], Plan], max_in_flight: int
) -> None:
    tiles, devices, plan = drawn
    assert planned(work_of(tiles), devices, plan.base, plan.max_in_flight) == plan
    other = planned(work_of(tiles), devices, plan.base, max_in_flight)
    # The order of sums does not depend on the window.
    order = [(a.kind, a.tile) for a in plan.actions if a.kind is not Kind.SEND]
    assert order == [(a.kind, a.tile) for a in other.actions if a.kind is not Kind.SEND]
