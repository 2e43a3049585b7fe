from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memmap._views._coverage import FEW_RUNS
from memmap.dataflow import (
    BinaryOperation,
    DependencyGraph,
    FillOperation,
    HazardKind,
    MemoryView,
    Operation,
    Tensor,
    TensorView,
    TransformOperation,
    _analysis,
    analyze_dependencies,
    compute_view_footprint,
)
from memmap.dataflow.testing import MixOperation, programs

# Legend of the oracle: a place is one element of one tensor.
Place = tuple[Tensor, int]
Pairs = dict[tuple[int, int, HazardKind], set[tuple[MemoryView, MemoryView]]]


def places(view: MemoryView) -> list[Place]:
    assert isinstance(view, TensorView)
    return [(view.tensor, index) for index in compute_view_footprint(view)]


def hazards_element_by_element(program: Sequence[Operation]) -> Pairs:
    """The definition: every element remembers its writer and the readers since."""
    writer: dict[Place, tuple[int, MemoryView]] = {}
    readers: dict[Place, list[tuple[int, MemoryView]]] = defaultdict(list)
    result: Pairs = defaultdict(set)
    for later, operation in enumerate(program):
        for view in operation.input_views:
            for place in places(view):
                if place in writer:
                    earlier, other = writer[place]
                    result[earlier, later, HazardKind.RAW].add((other, view))
        for view in operation.output_views:
            for place in places(view):
                if place in writer:
                    earlier, other = writer[place]
                    result[earlier, later, HazardKind.WAW].add((other, view))
                for earlier, other in readers[place]:
                    result[earlier, later, HazardKind.WAR].add((other, view))
        for view in operation.input_views:
            for place in places(view):
                readers[place].append((later, view))
        for view in operation.output_views:
            for place in places(view):
                writer[place] = later, view
                readers[place] = []
    return result


def tensors_of(program: Iterable[Operation]) -> list[Tensor]:
    views = [v for op in program for v in op.input_views + op.output_views]
    return list(dict.fromkeys(v.tensor for v in views if isinstance(v, TensorView)))


def outcome(order: Sequence[MixOperation], tensors: Sequence[Tensor]) -> dict[str, bytes]:
    """What every operation read and what the memory holds at the end, from one start."""
    random = np.random.default_rng(0)
    for tensor in tensors:
        tensor.data[...] = random.integers(1 << 62, size=tensor.shape)
    for operation in order:
        operation.execute()
    seen = {operation.name: operation.seen for operation in order}
    return seen | {tensor.name: tensor.data.tobytes() for tensor in tensors}


@given(programs())
def test_the_hazards_are_those_of_the_definition_element_by_element(
    program: list[MixOperation],
) -> None:
    result = {
        (edge.earlier_index, edge.later_index, edge.kind): set(edge.views)
        for edge in analyze_dependencies(program).edges
    }
    assert result == hazards_element_by_element(program)


@pytest.fixture(params=[FEW_RUNS, 0])
def way_to_count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By runs, and by unions as if all views had too many runs."""
    monkeypatch.setattr(_analysis, "FEW_RUNS", request.param)


@given(programs(), st.randoms(use_true_random=False))
def test_the_operations_of_a_wave_may_run_in_any_order(
    program: list[MixOperation], random: Random
) -> None:
    tensors = tensors_of(program)
    order: list[MixOperation] = []
    for wave in analyze_dependencies(program).waves():
        random.shuffle(wave)
        order += [operation for operation in wave if isinstance(operation, MixOperation)]
    assert len(order) == len(program)
    assert outcome(order, tensors) == outcome(program, tensors)


@given(programs())
def test_without_any_one_edge_of_the_reduction_the_result_can_change(
    program: list[MixOperation],
) -> None:
    tensors = tensors_of(program)
    pairs = {(e.earlier_index, e.later_index) for e in analyze_dependencies(program).edges}
    for edge in analyze_dependencies(program).transitive_reduction():
        dropped = edge.earlier_index, edge.later_index
        # The program up to the later operation, which now runs as early as the other edges let
        # it; what it need not wait for follows.
        needed = ancestors(edge.later_index, pairs - {dropped})
        others = [i for i in range(edge.later_index) if i not in needed]
        assert edge.earlier_index in others
        order = [program[i] for i in [*sorted(needed), edge.later_index, *others]]
        expected = outcome(program[: edge.later_index + 1], tensors)
        assert outcome(order, tensors) != expected


def ancestors(later: int, pairs: set[tuple[int, int]]) -> set[int]:
    direct = {earlier for earlier, other in pairs if other == later}
    return direct.union(*(ancestors(earlier, pairs) for earlier in direct))


@given(programs())
def test_the_reduction_implies_every_edge_and_contains_none_that_is_implied(
    program: list[MixOperation],
) -> None:
    graph = analyze_dependencies(program)
    pairs = {(e.earlier_index, e.later_index) for e in graph.edges}
    reduced = {(e.earlier_index, e.later_index) for e in graph.transitive_reduction()}
    for later in range(len(program)):
        assert ancestors(later, reduced) == ancestors(later, pairs)
    for earlier, later in reduced:
        assert earlier not in ancestors(later, reduced - {(earlier, later)})


@given(programs())
def test_every_operation_is_in_the_first_wave_that_it_can_be_in(
    program: list[MixOperation],
) -> None:
    graph = analyze_dependencies(program)
    wave_of = {op.name: i for i, wave in enumerate(graph.waves()) for op in wave}
    for name, earlier in graph.as_dict().items():
        assert wave_of[name] == 1 + max((wave_of[other] for other in earlier), default=-1)


def row(tensor: Tensor, start: int, stop: int, name: str = "row") -> TensorView:
    return TensorView(name, tensor, start, (stop - start,), (1,))


def kinds(graph: DependencyGraph) -> list[str]:
    return [str(edge) for edge in graph.edges]


@pytest.mark.usefixtures("way_to_count")
def test_two_writes_that_cover_a_third_together_end_it() -> None:
    tensor = Tensor("A", (4,))
    all_, left, right = row(tensor, 0, 4), row(tensor, 0, 2), row(tensor, 2, 4)
    program = [
        FillOperation("all").set_outputs(all_),
        FillOperation("left").set_outputs(left),
        FillOperation("right").set_outputs(right),
        TransformOperation("read").set_inputs(all_),
    ]
    assert analyze_dependencies(program).as_dict() == {
        "all": [],
        "left": ["all"],
        "right": ["all"],
        "read": ["left", "right"],
    }


@pytest.mark.usefixtures("way_to_count")
def test_a_partly_overwritten_value_is_still_read_where_it_stands() -> None:
    tensor = Tensor("A", (4,))
    program = [
        FillOperation("all").set_outputs(row(tensor, 0, 4)),
        FillOperation("left").set_outputs(row(tensor, 0, 2)),
        TransformOperation("read right").set_inputs(row(tensor, 2, 4)),
        TransformOperation("read left").set_inputs(row(tensor, 0, 2)),
    ]
    assert kinds(analyze_dependencies(program)) == [
        "all -> left (WAW, implicit)",
        "all -> read right (RAW, implicit)",
        "left -> read left (RAW, implicit)",
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_one_element_that_was_not_overwritten_still_stands(first: int) -> None:
    tensor = Tensor("A", (4,))
    left = 3 - 3 * first
    program = [
        FillOperation("all").set_outputs(row(tensor, 0, 4)),
        FillOperation("but one").set_outputs(row(tensor, first, first + 3)),
        TransformOperation("read").set_inputs(row(tensor, left, left + 1)),
    ]
    assert kinds(analyze_dependencies(program)) == [
        "all -> but one (WAW, implicit)",
        "all -> read (RAW, implicit)",
    ]


@pytest.mark.usefixtures("way_to_count")
def test_writes_that_overlap_one_another_take_a_byte_away_only_once() -> None:
    tensor = Tensor("A", (6,))
    program = [
        FillOperation("all").set_outputs(row(tensor, 0, 6)),
        FillOperation("first").set_outputs(row(tensor, 0, 3)),
        FillOperation("second").set_outputs(row(tensor, 2, 5)),
        TransformOperation("read the rest").set_inputs(row(tensor, 5, 6)),
        TransformOperation("read across").set_inputs(row(tensor, 1, 4)),
        TransformOperation("read both").set_inputs(TensorView("v", tensor, 0, (2,), (5,))),
    ]
    assert kinds(analyze_dependencies(program)) == [
        "all -> first (WAW, implicit)",
        "all -> second (WAW, implicit)",
        "first -> second (WAW, implicit)",
        "all -> read the rest (RAW, implicit)",
        "first -> read across (RAW, implicit)",
        "second -> read across (RAW, implicit)",
        "all -> read both (RAW, implicit)",
        "first -> read both (RAW, implicit)",
    ]


def test_a_write_waits_for_the_readers_of_what_it_overwrites() -> None:
    tensor = Tensor("A", (4,))
    all_, left = row(tensor, 0, 4), row(tensor, 0, 2)
    program = [
        TransformOperation("read").set_inputs(all_),
        FillOperation("left").set_outputs(left),
        FillOperation("left again").set_outputs(left),
        FillOperation("all").set_outputs(all_),
    ]
    assert kinds(analyze_dependencies(program)) == [
        "read -> left (WAR, implicit)",
        "left -> left again (WAW, explicit)",
        "read -> all (WAR, explicit)",
        "left again -> all (WAW, implicit)",
    ]


def test_interleaved_columns_have_no_hazard() -> None:
    tensor = Tensor("A", (4, 4))
    columns = [TensorView(f"column{i}", tensor, i, (4,), (4,)) for i in range(4)]
    program = [FillOperation(f"fill{i}").set_outputs(c) for i, c in enumerate(columns)]
    graph = analyze_dependencies(program)
    assert graph.edges == ()
    assert len(graph.waves()) == 1


def test_one_operation_may_stand_in_a_program_twice() -> None:
    tensor = Tensor("A", (2,), "int64")
    view = TensorView("x", tensor)
    double = BinaryOperation("double").set_inputs(view, view).set_outputs(view)
    graph = analyze_dependencies([double, double])
    assert [(e.earlier_index, e.later_index, e.kind) for e in graph.edges] == [
        (0, 1, "RAW"),
        (0, 1, "WAW"),
    ]
    with pytest.raises(ValueError, match="every operation must have its own name, got 'dou"):
        graph.as_dict()


def test_a_program_of_other_things_is_refused() -> None:
    with pytest.raises(TypeError, match="every item must be an Operation, got str at position 0"):
        analyze_dependencies(["add"])  # type: ignore[list-item]  # what the test is about


def test_self_hazards_are_listed_beside_the_edges() -> None:
    tensor = Tensor("A", (3,))
    shift = TransformOperation("shift").set_inputs(row(tensor, 0, 2, "head"))
    graph = analyze_dependencies([shift.set_outputs(row(tensor, 1, 3, "tail"))])
    assert graph.edges == ()
    assert [str(hazard) for hazard in graph.self_hazards] == [
        "shift: writes tail, which overlaps head that it reads"
    ]


def test_slices_of_a_cleared_buffer_may_be_written_at_once() -> None:
    n = 2000
    tensor = Tensor("flat", (n,))
    order = np.random.default_rng(0).permutation(n).tolist()
    program: list[Operation] = [FillOperation("clear", 0).set_outputs(TensorView("all", tensor))]
    program += [FillOperation(f"fill{i}").set_outputs(row(tensor, i, i + 1)) for i in order]
    program += [TransformOperation("sum").set_inputs(TensorView("all", tensor))]
    graph = analyze_dependencies(program)
    assert len(graph.edges) == 2 * n
    assert [len(wave) for wave in graph.waves()] == [1, n, 1]


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(TypeError, match="analyze_dependencies: operations must be iterable, got i"):
        analyze_dependencies(3)  # type: ignore[arg-type]  # what the test is about
