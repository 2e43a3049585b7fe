import pytest
import torch

from linops_core._kernels._pattern import RUN, parsed_pattern, rearranged


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
    assert parsed_pattern(pattern) == items


@pytest.mark.parametrize(
    "pattern",
    ["a a", "a (b a)", "... a ...", "(a", "a)", "((a) b)", "(... a)", "a -> b", "2", "1a", ". a"],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(
        ValueError, match=r"^Rearrange: a pattern must be .*, each name once, got '"
    ):
        parsed_pattern(pattern)


@pytest.mark.parametrize("run", [(), (5,), (5, 6, 7)])
def test_a_run_has_any_number_of_axes_that_stay_together(run: tuple[int, ...]) -> None:
    x = torch.randn(2, *run, 12)
    result = rearranged(x, parsed_pattern("a ... (b c)"), parsed_pattern("c ... (a b)"), {"b": 3})
    expected = x.reshape(2, *run, 3, 4).movedim(-1, 0).movedim(1, -2)
    assert torch.equal(result, expected.reshape(4, *run, 6))


def test_nothing_is_copied_where_nothing_is_merged() -> None:
    x = torch.randn(6, 4)
    for before, after in (("(a b) c", "c b 1 a"), ("(a b) c", "a (b c)")):
        result = rearranged(x, parsed_pattern(before), parsed_pattern(after), {"a": 2})
        assert result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
