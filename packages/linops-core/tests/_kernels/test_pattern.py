import pytest

from linops_core._kernels._pattern import RUN, parsed, route


@pytest.mark.parametrize(
    ("pattern", "items"),
    [
        ("", ()),
        ("a", (("a",),)),
        (" a  b1 ", (("a",), ("b1",))),
        ("(a b)c", (("a", "b"), ("c",))),
        ("... (x_1 y)", (RUN, ("x_1", "y"))),
        ("1 () (1) (a 1)", ((), (), (), ("a",))),
    ],
)
def test_patterns_say_what_each_axis_is_made_of(pattern: str, items: object) -> None:
    assert parsed(pattern) == items


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("a a", "a more than once"),
        ("a (b a)", "a more than once"),
        ("... a ...", r"\.\.\. more than once"),
        ("(a", "a group that is not closed"),
        ("a)", r"'\)' at 1"),
        ("((a) b)", r"'\(' at 1"),
        ("(... a)", r"'\.\.\.' at 1"),
        ("a -> b", "' -> b' at 1"),
        ("2", "'2' at 0"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(ValueError, match=rf"^Rearrange: a pattern must be .*, got .* with {what}"):
        parsed(pattern)


def test_a_run_has_any_number_of_axes_that_stay_together() -> None:
    steps = route(parsed("a ... (b c)"), parsed("c ... (a b)"))
    assert steps.permutation(-1) == [2, 0, 1]
    assert steps.permutation(0) == [3, 1, 0, 2]
    assert steps.permutation(2) == [5, 1, 2, 3, 0, 4]
    (group,), (merged,) = steps.split, steps.merged
    assert [group.axis(extra) for extra in (-1, 0, 2)] == [1, 2, 4]
    assert [merged.axis(extra) for extra in (-1, 0, 2)] == [1, 2, 4]


def test_nothing_is_permuted_that_is_in_order() -> None:
    assert route(parsed("(a b) c"), parsed("a (b c)")).order is None
