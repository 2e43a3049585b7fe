from functools import cache
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameddim import ND, NamedDimension, iscompatible, max_shape, resolve_wildcards
from nameddim.testing import patterns, words

Pattern = tuple[NamedDimension, ...]

# Z is in no pattern: it is every name that a wildcard stands for and a pattern does not say.
ALPHABET = "ABZ"
LONGEST = 6
SINGLES = ("A", "B", "()")


@cache
def single_patterns() -> dict[frozenset[tuple[str, ...]], tuple[str, ...]]:
    """Patterns of up to five elements by their words, one for each set of words."""
    all_patterns = (p for n in range(6) for p in product([*SINGLES, "..."], repeat=n))
    return {
        words(p, ALPHABET, LONGEST): p
        for p in all_patterns
        if not {("...", "..."), ("...", "()")} & set(pairwise(p))  # others say the same
    }


def common_words(*shapes: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset.intersection(*(words(p, ALPHABET, LONGEST) for p in shapes))


def check_common(result: Pattern | None, *shapes: tuple[str, ...]) -> None:
    """Check that `result` has the words that `shapes` have in common, or that no pattern has."""
    common = common_words(*shapes)
    if result is None:
        assert common not in single_patterns(), shapes
    else:
        assert words(result, ALPHABET, LONGEST) == common, (shapes, result)


def resolved(shape: tuple[str, ...], target: tuple[str, ...]) -> Pattern | None:
    try:
        return resolve_wildcards(shape, target)
    except ValueError:
        return None


def best(*shapes: tuple[str, ...]) -> Pattern | None:
    try:
        return max_shape(shapes)
    except ValueError:
        return None


def test_resolution_is_all_that_is_common_for_all_small_patterns() -> None:
    small = [p for n in range(3) for p in product([*SINGLES, "..."], repeat=n)]
    small += [p for p in product([*SINGLES, "..."], repeat=3) if "..." in p]
    for a, b in product(small, repeat=2):
        check_common(resolved(a, b), a, b)


@given(patterns("AB", 4), patterns("AB", 4))
def test_resolution_is_all_that_is_common(a: Pattern, b: Pattern) -> None:
    result = resolved(a, b)
    if result is not None:
        assert words(result, ALPHABET, 7) == words(a, ALPHABET, 7) & words(b, ALPHABET, 7)
    elif not iscompatible(a, b):
        with pytest.raises(ValueError, match="resolve_wildcards: shape and target must match"):
            resolve_wildcards(a, b)
    else:
        with pytest.raises(ValueError, match=r"must be one pattern, got .* which can be .* or "):
            resolve_wildcards(a, b)


@given(patterns("AB", 5), st.lists(st.sampled_from("ABC").map(ND), max_size=5).map(tuple))
def test_resolution_with_a_shape_without_wildcards_is_that_shape(a: Pattern, word: Pattern) -> None:
    expected = word if iscompatible(a, word) else None
    assert resolved(a, word) == resolved(word, a) == expected


@given(patterns("AB", 4))
def test_resolution_with_anything_changes_nothing(a: Pattern) -> None:
    assert resolve_wildcards(a, a) == a
    for result in (resolve_wildcards(a, ("...",)), resolve_wildcards(("...",), a)):
        assert words(result, ALPHABET, 6) == words(a, ALPHABET, 6)
        assert result == a or ("...", "...") in pairwise(map(str, a))


@given(patterns("AB", 4), patterns("AB", 4))
def test_resolution_is_the_same_from_both_sides(a: Pattern, b: Pattern) -> None:
    one, other = resolved(a, b), resolved(b, a)
    if one is None or other is None:
        assert one is other
    else:
        assert words(one, ALPHABET, 6) == words(other, ALPHABET, 6)


def test_resolution_keeps_the_wildcard_where_the_target_has_one_too() -> None:
    assert resolve_wildcards(("(1)", "...", "A"), ("()", "C", "...")) == ("(1)", "C", "...", "A")


def test_resolution_of_several_ways_has_its_ellipses_after_the_wildcards() -> None:
    result = resolve_wildcards(("...", "()", "()", "A"), ("()", "...", "()", "A", "..."))
    assert result == ("()", "()", "...", "A")


@given(st.lists(patterns("AB", 3), max_size=4))
def test_best_common_shape_is_all_that_is_common(shapes: list[Pattern]) -> None:
    check_common(best(*shapes), ("...",), *shapes)


@given(st.lists(patterns("AB", 3), min_size=2, max_size=3))
def test_best_common_shape_does_not_depend_on_the_order(shapes: list[Pattern]) -> None:
    results = [best(*order) for order in permutations(shapes)]
    languages = {None if one is None else words(one, ALPHABET, LONGEST) for one in results}
    assert len(languages) == 1


def test_best_common_shape_may_need_more_than_two_shapes() -> None:
    # The first two alone are A, or A ... A.
    assert max_shape([("...", "A"), ("A", "..."), ("()", "()", "...")]) == ("A", "...", "A")


def test_best_common_shape_of_none_is_any_shape() -> None:
    assert max_shape([]) == ("...",)


def test_best_common_shape_of_one_is_itself() -> None:
    assert max_shape([("...", "()")]) == ("...", "()")


def test_pair_that_does_not_match_is_named() -> None:
    with pytest.raises(ValueError, match=r"match each other, got \(A, \.\.\.\) and \(B, \.\.\.\)"):
        max_shape([("A", "..."), ("...",), ("B", "...")])


def test_shapes_that_match_in_pairs_only_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at once, got shapes that reduce to .*\(A, \.\.\., B\)"):
        max_shape([("A", "..."), ("...", "B"), ("()",)])


def test_several_candidates_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"one pattern, got .* which can be \(A, \.\.\., A\) or \(A\)"
    ):
        max_shape([("...", "A"), ("A", "...")])
    with pytest.raises(ValueError, match=r"one pattern, got .* which can be \(A, \.\.\., A\)"):
        resolve_wildcards(("...", "A"), ("A", "..."))


def test_many_ellipses_do_not_take_for_ever() -> None:
    many = ("...", "A") * 20
    assert resolve_wildcards(many, ("...", *many)) == many
    with pytest.raises(ValueError, match="must be one pattern"):
        resolve_wildcards((*many, "..."), ("...", "B", "...") * 20)


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="a name must be an identifier"):
        resolve_wildcards(("N x",), ("...",))
    with pytest.raises(TypeError, match="or an iterable of strings, got 3"):
        max_shape([("A",), 3])  # type: ignore[list-item]
    for shapes in ("AB", 3):
        with pytest.raises(TypeError, match=f"must be an iterable of shapes, got {shapes!r}"):
            max_shape(shapes)  # type: ignore[arg-type]
