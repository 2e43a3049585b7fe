import pytest

from memmap.dataflow import (
    DependencyGraph,
    FillOperation,
    Operation,
    Tensor,
    TensorView,
    TransformOperation,
    analyze_dependencies,
)


def graph_of_three() -> DependencyGraph:
    tensor = Tensor("A", (4,))
    all_, left = TensorView("all", tensor), TensorView("left", tensor, 0, (2,))
    right = TensorView("right", tensor, 1, (2,))
    return analyze_dependencies(
        [
            FillOperation("clear", 0).set_outputs(all_),
            TransformOperation("shift").set_inputs(left).set_outputs(right),
            TransformOperation("read").set_inputs(all_),
        ]
    )


def test_the_table_shows_waves_reasons_self_hazards_and_totals() -> None:
    assert str(graph_of_three()).splitlines() == [
        "wave  operation  waits for",
        "1     clear",
        "2     shift      clear (RAW implicit, WAW implicit)",
        "3     read       clear (RAW explicit); shift (RAW implicit)",
        "self-hazard: shift: writes right, which overlaps left that it reads",
        "3 operations, 4 hazards, 3 waves",
    ]
    assert repr(graph_of_three()) == "DependencyGraph(3 operations, 4 hazards)"


def test_the_dictionary_and_the_reduction_agree_with_the_edges() -> None:
    graph = graph_of_three()
    assert graph.as_dict() == {"clear": [], "shift": ["clear"], "read": ["clear", "shift"]}
    assert [str(edge) for edge in graph.transitive_reduction()] == [
        "clear -> shift (RAW, implicit)",
        "clear -> shift (WAW, implicit)",
        "shift -> read (RAW, implicit)",
    ]


def test_an_empty_program_has_no_wave() -> None:
    graph = analyze_dependencies([])
    assert (graph.waves(), graph.as_dict(), graph.edges) == ([], {}, ())
    assert str(graph) == "wave  operation  waits for\n0 operations, 0 hazards, 0 waves"


def test_a_dictionary_of_operations_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="every operation must have its own name, got 'op' m"):
        analyze_dependencies([Operation("op"), Operation("op")]).as_dict()
