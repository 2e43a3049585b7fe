from collections.abc import Callable, Iterable
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nameddim import ELLIPSES, NamedDimension, is_any, iscompatible, isequal
from nameddim.testing import patterns, words

Pattern = tuple[NamedDimension, ...]

# Z is in no pattern: it is every name that a wildcard stands for and a pattern does not say.
ALPHABET = "ABZ"


def substituted(pattern: Pattern, mapping: dict[NamedDimension, Pattern]) -> Pattern:
    return tuple(dim for one in pattern for dim in mapping.get(one, (one,)))


def alignments(pattern: tuple[str, ...], word: tuple[str, ...]) -> list[tuple[Pattern, ...]]:
    """All ways to cut `word` into the runs that the elements of `pattern` stand for.

    Ellipses side by side are no more than one: the last has the run.
    """
    if not pattern:
        return [] if word else [()]
    lengths: Iterable[int]
    if pattern[0] == ELLIPSES:
        lengths = [0] if pattern[1:2] == (ELLIPSES,) else range(len(word) + 1)
    else:
        lengths = [1] if word and (is_any(pattern[0]) or pattern[0] == word[0]) else []
    return [
        (tuple(map(NamedDimension, word[:n])), *rest)
        for n in lengths
        for rest in alignments(pattern[1:], word[n:])
    ]


def test_matches_exactly_if_there_is_a_common_word_for_all_small_patterns() -> None:
    small = [p for n in range(4) for p in product(["A", "B", "()", "..."], repeat=n)]
    for a, b in product(small, repeat=2):
        # Where two match, they match in a word that has no run longer than the other pattern.
        common = words(a, ALPHABET, 5) & words(b, ALPHABET, 5)
        assert iscompatible(a, b) == bool(common), (a, b)


@given(patterns(), patterns())
@example((), ())
def test_matches_exactly_if_there_is_a_common_word(a: Pattern, b: Pattern) -> None:
    common = words(a, ALPHABET, 7) & words(b, ALPHABET, 7)
    assert iscompatible(a, b) == isequal(a, b)[0] == bool(common)


@given(patterns("ABC", 12), patterns("ABC", 12))
def test_matching_is_symmetric_and_reflexive(a: Pattern, b: Pattern) -> None:
    assert iscompatible(a, b) == iscompatible(b, a)
    assert iscompatible(a, a)


@given(patterns(), st.lists(st.sampled_from("AB"), max_size=4), patterns())
def test_matching_is_transitive_through_a_shape_without_wildcards(
    a: Pattern, middle: list[str], c: Pattern
) -> None:
    if iscompatible(a, middle) and iscompatible(middle, c):
        assert iscompatible(a, c)


def test_matching_is_not_transitive_through_a_wildcard() -> None:
    assert iscompatible("A", "...")
    assert iscompatible("...", "B")
    assert not iscompatible("A", "B")


def test_ellipsis_may_be_empty() -> None:
    assert iscompatible(("K", "..."), ("K",))
    assert iscompatible((), ("...", "..."))


@given(patterns("AB", 5), st.lists(st.sampled_from("ABC"), max_size=5))
def test_mapping_makes_the_pattern_the_word_it_matches(pattern: Pattern, word: list[str]) -> None:
    result = alignments(pattern, tuple(word))
    matches, mapping = isequal(pattern, word)
    assert matches == bool(result)
    if len(result) != 1:
        assert mapping == {}
        return
    stood_for: dict[str, set[Pattern]] = {}
    for dim, run in zip(pattern, result[0], strict=True):
        if dim == ELLIPSES or is_any(dim):
            stood_for.setdefault(dim, set()).add(run)
    assert mapping == {dim: runs.pop() for dim, runs in stood_for.items() if len(runs) == 1}


@given(patterns("AB", 3), patterns("AB", 3))
def test_mapping_loses_no_common_word(a: Pattern, b: Pattern) -> None:
    matches, mapping = isequal(a, b)
    if matches:
        resolved = words(substituted(a, mapping), ALPHABET, 6)
        assert resolved >= words(a, ALPHABET, 6) & words(b, ALPHABET, 6)
    else:
        assert mapping == {}


def test_mapping_keeps_the_wildcard_where_the_other_has_one_too() -> None:
    assert isequal(("...", "()"), ("C", "...", "(1)")) == (
        True,
        {"...": ("C", "..."), "()": ("()",)},
    )


def test_mapping_leaves_out_what_stands_for_different_runs() -> None:
    assert isequal(("()", "()", "(1)"), "ABC") == (True, {"(1)": ("C",)})
    assert isequal(("()", "()", "(1)"), "AAC") == (True, {"()": ("A",), "(1)": ("C",)})


def test_mapping_takes_ellipses_side_by_side_for_one() -> None:
    assert isequal(("...", "...", "()"), ("A", "B")) == (True, {"()": ("B",)})


def test_mapping_is_empty_if_there_are_several_ways() -> None:
    assert isequal(("...", "A", "...", "()"), ("A", "A", "B")) == (True, {})


def test_many_ellipses_take_no_more_than_their_product() -> None:
    a = ("...", "A") * 150
    b = ("...", "A", "B", "...") * 100
    assert iscompatible(a, b)
    assert isequal(a, b) == (True, {})
    assert not iscompatible(a, "A" * 149)
    assert not iscompatible(("...", "A", "A", "...") * 100, "AB" * 300)


def test_plain_string_is_read_as_dimensions() -> None:
    assert iscompatible("...Ny", "NxNy")
    assert not iscompatible(NamedDimension("NxNy"), "NxNy")


@pytest.mark.parametrize("function", [iscompatible, isequal])
def test_what_is_no_pattern_is_refused(function: Callable[[object, object], object]) -> None:
    with pytest.raises(ValueError, match="a name must be an identifier"):
        function(("N x",), ("N x",))
    with pytest.raises(TypeError, match="or an iterable of strings, got 3"):
        function(("A",), 3)
