from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameddim import ANY, ELLIPSES, ND, NS, NamedDimension, NamedShape, is_any
from nameddim.testing import shapes, sides, words

Dims = tuple[NamedDimension, ...]
Instance = tuple[tuple[str, ...], ...]

# Names that shapes and targets have, and further ones that only wildcards stand for.
NAMES, MORE = "AB", "WXYZ"
LONGEST = 3
RUNS = [run for n in range(LONGEST + 1) for run in permutations(NAMES + MORE, n)]

SHAPES = shapes(NAMES)
TARGETS = sides(NAMES, 3)


def tuples_of(shape: NamedShape) -> list[Dims]:
    return [shape.ishape, shape.oshape, *shape.other_shapes.values()]


def instances(shape: NamedShape) -> set[Instance]:
    """All that `shape` can be, with tuples up to the longest, found by trying each."""
    dims = [[(dim, one[:at].count(dim)) for at, dim in enumerate(one)] for one in tuples_of(shape)]
    variables = sorted({v for one in dims for v in one if v[0] == ELLIPSES or is_any(v[0])})

    def fill(known: dict[tuple[str, int], tuple[str, ...]]) -> set[Instance]:
        if len(known) < len(variables):
            variable = variables[len(known)]
            runs = RUNS if variable[0] == ELLIPSES else [r for r in RUNS if len(r) == 1]
            return {one for run in runs for one in fill({**known, variable: run})}
        filled = tuple(
            tuple(name for v in one for name in known.get(v, (str(v[0]),))) for one in dims
        )
        right = all(len(set(one)) == len(one) <= LONGEST for one in filled)
        return {filled} if right else set()

    return fill({})


def stands_for(target: Dims, dims: tuple[str, ...]) -> bool:
    return dims in words(target, NAMES + MORE, LONGEST)


def pairs_are_known(shape: NamedShape) -> bool:
    return len({dims.count(ND(ANY)) for dims in tuples_of(shape)} - {0}) <= 1


@given(SHAPES, st.none() | TARGETS, st.none() | TARGETS)
def test_resolved_shape_is_all_that_the_shape_can_be(
    shape: NamedShape, ishape: Dims | None, oshape: Dims | None
) -> None:
    expected = {
        one
        for one in instances(shape)
        if (ishape is None or stands_for(ishape, one[0]))
        and (oshape is None or stands_for(oshape, one[1]))
    }
    try:
        result = shape.resolve(ishape, oshape)
    except ValueError as error:
        if "the same number of them" in str(error):
            assert not pairs_are_known(shape)
        elif "in one way" in str(error):
            assert ELLIPSES in (ishape or ()) + (oshape or ())
        else:
            assert "and cannot be matched" in str(error)
            assert not (expected and pairs_are_known(shape))
        return
    if pairs_are_known(shape):
        assert instances(result) == expected


@given(st.data(), SHAPES)
def test_resolves_to_each_of_what_it_can_be(data: st.DataObject, shape: NamedShape) -> None:
    can_be = sorted(instances(shape))
    if not can_be or not pairs_are_known(shape):
        return
    ishape, oshape, *_ = data.draw(st.sampled_from(can_be))
    result = shape.resolve(ishape, oshape)
    assert (result.ishape, result.oshape) == (ishape, oshape)
    assert result == shape.resolve(ishape=ishape).resolve(oshape=oshape)
    assert result == shape.resolve(oshape=oshape).resolve(ishape=ishape)
    assert result == shape.H.resolve(oshape, ishape).H
    assert result.resolve(ishape, oshape) is result


@given(SHAPES)
def test_resolution_with_itself_or_with_anything_changes_nothing(shape: NamedShape) -> None:
    assert shape.resolve() is shape
    assert shape.resolve(shape.ishape, shape.oshape) is shape
    assert shape.resolve(("...",), ("...",)) == shape


@given(SHAPES, TARGETS)
def test_resolution_never_makes_a_shape_less_specific(shape: NamedShape, target: Dims) -> None:
    try:
        result = shape.resolve(target)
    except ValueError:
        return
    assert result.dims >= shape.dims
    if not shape.has_wildcards:
        assert result is shape


def test_runs_are_replaced_in_all_tuples() -> None:
    fft = NS(("...", "Nx", "Ny"), ("...", "Kx", "Ky"), batch_shape=("...",))
    resolved = NS(("C", "Nx", "Ny"), ("C", "Kx", "Ky"), batch_shape=("C",))
    assert fft.resolve(ishape=("C", "Nx", "Ny")) == resolved
    assert fft.resolve(oshape=("C", "Kx", "Ky")) == resolved
    assert fft.resolve(("C", "...", "Ny"), ("...", "T", "Kx", "Ky")) == NS(
        ("C", "...", "T", "Nx", "Ny"),
        ("C", "...", "T", "Kx", "Ky"),
        batch_shape=("C", "...", "T"),
    )


def test_numbered_wildcards_are_the_same_dimension_everywhere() -> None:
    assert NS(("(1)", "(2)"), ("(2)", "(1)")).resolve("AB") == NS("AB", "BA")


def test_wildcards_without_number_are_paired_in_their_order() -> None:
    assert NS(("()", "A", "()"), ("()", "()")).resolve("BAC") == NS("BAC", "BC")
    assert NS(("()", "()"), ("A",)).resolve("BC") == NS("BC", "A")


def test_wildcards_without_number_that_have_no_pair_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the same number of them, .* 2 in ishape \(\(\), \(\)\) and 1 in"
    ):
        NS(("()", "()"), ("()",)).resolve("AB")
    assert NS(("()", "()"), ("()",)).resolve(("()", "...")) == NS(("()", "()"), ("()",))


def test_wildcards_that_come_in_do_not_become_those_of_the_shape() -> None:
    transpose = NS(("(1)", "()"), ("()", "(1)"))
    assert transpose.resolve(("()", "(1)")) == transpose
    assert NS(("...", "(1)"), ("(1)", "...")).resolve(("(1)", "()", "A")) == NS(
        ("(2)", "()", "A"), ("A", "(2)", "()")
    )
    assert NS(("...", "()"), ("()", "...")).resolve(("()", "()", "(1)", "A")) == NS(
        ("(2)", "(3)", "(1)", "A"), ("A", "(2)", "(3)", "(1)")
    )


def test_ellipsis_beside_a_wildcard_says_the_same_on_either_side() -> None:
    assert NS(("()", "...")).resolve(("...", "()")) == NS(("()", "..."))
    assert NS(("...",)).resolve(("()", "..."), ("A", "...")) == NS(("A", "..."))
    assert NS(("()", "...", "()")).resolve(("...", "()", "(1)")) == NS(("()", "...", "()"))


def test_what_would_name_two_dimensions_alike_is_no_way() -> None:
    assert NS(("...", "Nx"), ("...", "Kx")).resolve(("Nx", "...")) == NS("Nx", "Kx")
    with pytest.raises(
        ValueError, match=r"and cannot be matched; .* different .* second 'Kx' at pos"
    ):
        NS(("...", "Nx"), ("...", "Kx")).resolve(("Kx", "Nx"))


def test_mismatch_prints_both_shapes() -> None:
    with pytest.raises(
        ValueError,
        match=r"\(A\) -> \(B\) must match ishape \(C\) and oshape \(B\), and cannot be matched$",
    ):
        NS("A", "B").resolve("C", "B")


def test_ambiguity_prints_the_candidates() -> None:
    with pytest.raises(
        ValueError,
        match=r"match ishape \(\.\.\., A\) in one way, got "
        r"\(\(\), \.\.\., A\) -> \(\.\.\., A\) or \(A\) -> \(\)$",
    ):
        NS(("()", "..."), ("...",)).resolve(("...", "A"))


def test_what_is_no_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="ishape must have different dimensions"):
        NS("A").resolve("AA")
    with pytest.raises(ValueError, match="oshape must have at most one ellipsis"):
        NS("A").resolve(oshape=("...", "A", "..."))
    with pytest.raises(TypeError, match="or an iterable of strings, got 3"):
        NS("A").resolve(3)  # type: ignore[arg-type]
