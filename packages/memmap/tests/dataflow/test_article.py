"""The two examples of the article on tensor views and data dependencies, with its edges."""

import pytest

from memmap.dataflow import (
    BinaryOperation,
    FillOperation,
    Operation,
    Tensor,
    TensorView,
    TransformOperation,
    analyze_dependencies,
    check_memory_overlap,
    compute_view_footprint,
)


def simple_example() -> tuple[Tensor, list[TensorView], list[Operation]]:
    tensor = Tensor(name="Tensor_A", shape=(4, 4))
    first = TensorView(name="viewA1", tensor=tensor, offset=0, shape=(2, 2), stride=(4, 1))
    second = TensorView(name="viewA2", tensor=tensor, offset=8, shape=(2, 2), stride=(4, 1))
    read = TransformOperation(name="read_op").set_inputs(first)
    write = FillOperation(name="write_op", fill_value=2.0).set_outputs(second)
    return tensor, [first, second], [read, write]


def complex_example() -> tuple[dict[str, TensorView], list[Operation]]:
    a, b, c = Tensor("Tensor_A", (4, 4)), Tensor("Tensor_B", (3, 3)), Tensor("Tensor_C", (2, 2))
    views = {
        "viewA1": TensorView("viewA1", a, 0, (3, 3), (4, 1)),
        "viewA2": TensorView("viewA2", a, 5, (2, 2), (4, 1)),
        "viewA3": TensorView("viewA3", a, 10, (2, 2), (4, 1)),
        "viewB1": TensorView("viewB1", b, 0, (2, 2), (3, 1)),
        "viewC1": TensorView("viewC1", c, 0, (2, 2), (2, 1)),
    }
    operations: list[Operation] = [
        FillOperation("fill_op_a", 1.0).set_outputs(views["viewA1"]),
        TransformOperation("transform_op_a")
        .set_inputs(views["viewA2"])
        .set_outputs(views["viewA3"]),
        TransformOperation("transform2_op_a").set_inputs(views["viewA3"]),
        BinaryOperation("add_op_ab")
        .set_inputs(views["viewA1"], views["viewB1"])
        .set_outputs(views["viewC1"]),
    ]
    return views, operations


def test_the_simple_example_has_the_footprints_of_the_article() -> None:
    _, (first, second), _ = simple_example()
    assert compute_view_footprint(first) == [0, 1, 4, 5]
    assert compute_view_footprint(second) == [8, 9, 12, 13]
    assert not check_memory_overlap(first, second)


def test_the_operations_of_the_simple_example_are_independent() -> None:
    _, _, operations = simple_example()
    graph = analyze_dependencies(operations)
    assert graph.as_dict() == {"read_op": [], "write_op": []}
    assert graph.waves() == [operations]


def test_the_simple_example_executes() -> None:
    tensor, _, operations = simple_example()
    for operation in operations:
        operation.execute()
    assert tensor.data.tolist() == [[0] * 4, [0] * 4, [2, 2, 0, 0], [2, 2, 0, 0]]


def test_the_complex_example_has_the_footprints_of_the_article() -> None:
    views, _ = complex_example()
    assert compute_view_footprint(views["viewA1"]) == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert compute_view_footprint(views["viewA2"]) == [5, 6, 9, 10]
    common = set(compute_view_footprint(views["viewA1"])) & set(
        compute_view_footprint(views["viewA2"])
    )
    assert sorted(common) == [5, 6, 9, 10]


@pytest.mark.parametrize(
    ("earlier", "later", "explicit"),
    [
        ("fill_op_a", "transform_op_a", False),
        ("fill_op_a", "add_op_ab", True),
        ("transform_op_a", "transform2_op_a", True),
    ],
)
def test_the_complex_example_has_the_edges_of_the_article(
    earlier: str, later: str, explicit: bool
) -> None:
    graph = analyze_dependencies(complex_example()[1])
    (edge,) = (
        e for e in graph.edges if (e.earlier.name, e.later.name, e.kind) == (earlier, later, "RAW")
    )
    assert edge.explicit == explicit
    assert edge.implicit != explicit


def test_the_complex_example_gives_the_dictionary_of_the_code_of_the_article() -> None:
    # The text lists three edges and lets transform_op_a and add_op_ab run at once. Its code, run
    # as printed, finds a fourth: element 10 is in viewA3, which the one writes, and in viewA1,
    # which the other reads.
    graph = analyze_dependencies(complex_example()[1])
    assert graph.as_dict() == {
        "fill_op_a": [],
        "transform_op_a": ["fill_op_a"],
        "transform2_op_a": ["transform_op_a"],
        "add_op_ab": ["fill_op_a", "transform_op_a"],
    }
    assert [[op.name for op in wave] for wave in graph.waves()] == [
        ["fill_op_a"],
        ["transform_op_a"],
        ["transform2_op_a", "add_op_ab"],
    ]


def test_the_kinds_of_all_edges_of_the_complex_example() -> None:
    graph = analyze_dependencies(complex_example()[1])
    assert [str(edge) for edge in graph.edges] == [
        "fill_op_a -> transform_op_a (RAW, implicit)",
        "fill_op_a -> transform_op_a (WAW, implicit)",
        "transform_op_a -> transform2_op_a (RAW, explicit)",
        "fill_op_a -> add_op_ab (RAW, explicit)",
        "transform_op_a -> add_op_ab (RAW, implicit)",
    ]


def test_the_order_that_the_text_of_the_article_allows_changes_the_result() -> None:
    results = []
    for order in ([0, 1, 2, 3], [0, 3, 1, 2]):
        views, operations = complex_example()
        # The shapes of the article do not fit its addition: 3x3 and 2x2 go to 2x2. Take the
        # four corners of viewA1, element 10 among them.
        add = BinaryOperation("add", lambda a1, b1: a1[::2, ::2] + b1)
        add.set_inputs(views["viewA1"], views["viewB1"]).set_outputs(views["viewC1"])
        operations[1] = (
            TransformOperation("transform_op_a", lambda x: 5 * x)
            .set_inputs(views["viewA2"])
            .set_outputs(views["viewA3"])
        )
        operations[3] = add
        for index in order:
            operations[index].execute()
        results.append(views["viewC1"].numpy().tolist())
    assert results == [[[1, 1], [1, 5]], [[1, 1], [1, 1]]]
