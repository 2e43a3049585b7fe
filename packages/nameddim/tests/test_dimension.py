import copy
import pickle
from enum import Enum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nameddim import ANY, ELLIPSES, ND, AnyDim, NamedDimension, is_any, is_wildcard
from nameddim.testing import dimension_names, dimensions, wildcards

ANYTHING = dimensions() | wildcards()


@given(dimension_names())
@example("Nx01")
@example("Nx0")
@example("Nx100")
@example("Nx0010")
def test_name_and_index_write_the_text_again(text: str) -> None:
    dim = ND(text)
    assert ND(dim.name, dim.i) == dim == text
    assert type(ND(dim.name, dim.i)) is NamedDimension
    assert ND(dim.name).name == dim.name
    assert ND(dim.name).i == 0


@given(dimension_names())
def test_index_is_the_longest_trailing_number_without_a_leading_zero(text: str) -> None:
    numbers = [
        text[at:]
        for at in range(1, len(text))
        if text[at] != "0" and set(text[at:]) <= set("0123456789")
    ]
    assert ND(text).i == int(max(numbers, key=len, default="0"))


@given(dimensions(), st.integers(0, 30))
def test_equal_texts_have_equal_names_and_indices(dim: NamedDimension, k: int) -> None:
    more = dim + k
    assert (more.name, more.i) == (dim.name, dim.i + k)
    assert (ND(str(more)).name, ND(str(more)).i) == (more.name, more.i)
    assert more + -k == dim
    assert type(more) is NamedDimension


@given(ANYTHING)
def test_is_found_by_its_text_and_the_other_way_round(dim: NamedDimension) -> None:
    text = str(dim)
    assert type(text) is str
    assert hash(dim) == hash(text)
    assert {dim: 1}[text] == {text: 1}[dim] == 1  # type: ignore[index]
    assert text in (dim,)
    assert dim in (text,)


@given(ANYTHING)
def test_copies_are_equal_dimensions(dim: NamedDimension) -> None:
    for other in (
        copy.copy(dim),
        copy.deepcopy(dim),
        *(pickle.loads(pickle.dumps(dim, protocol)) for protocol in range(6)),
    ):
        assert type(other) is NamedDimension
        assert (other, other.name, other.i) == (dim, dim.name, dim.i)


def test_is_frozen() -> None:
    dim = ND("Nx1")
    with pytest.raises(AttributeError):
        dim.i = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        dim.other = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        (" ", 0),
        ("N x", 1),
        ("Nx ", 2),
        ("Nx\n", 2),
        ("N\tx", 1),
        ("N\x00", 1),
        ("1N", 0),
        ("12", 0),
        ("A,B", 1),
        ("A->B", 1),
        ("A.B", 1),
        ("A()", 1),
        ("....", 0),
        ("..", 0),
        ("()()", 0),
        ("(0)", 0),
        ("(01)", 0),
        ("( 1)", 0),
        ("(-1)", 0),
        ("(1)\n", 0),
        ("(٣)", 0),
    ],
)
def test_bad_name_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(ValueError, match="a name must be an identifier") as caught:
        ND(text)
    first, shown, caret = str(caught.value).split("\n")
    assert f"got {text!r}" in first
    assert first.endswith(f"at position {position}")
    assert len(shown) == len("    ") + len(text)
    assert caret == "    " + " " * position + "^"


@given(st.text(max_size=6))
def test_text_is_a_name_or_refused(text: str) -> None:
    if text.isidentifier() or text in ("...", "()"):
        assert ND(text) == text
    elif not is_any(text):
        with pytest.raises(ValueError, match="at position"):
            ND(text)


@pytest.mark.parametrize("name", [None, 3, b"Nx", ("Nx",)])
def test_name_that_is_no_string_is_refused(name: object) -> None:
    with pytest.raises(TypeError, match="a name must be a string, got"):
        ND(name)  # type: ignore[arg-type]


def test_index_that_is_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be an integer, got 1\.0 \(float\) for 'Nx'"):
        ND("Nx", 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an integer, got 'y' \\(str\\)"):
        ND("Nx") + "y"  # type: ignore[operator]


def test_negative_index_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more, got -1 for 'Nx'"):
        ND("Nx", -1)
    with pytest.raises(ValueError, match="0 or more, got -2 for 'Nx1'"):
        ND("Nx1") + -3
    with pytest.raises(ValueError, match="0 or more, got -1 for '\\(\\)'"):
        AnyDim(-1)


def test_second_index_is_refused() -> None:
    with pytest.raises(ValueError, match="got a second one for 'Nx1', which already has 1"):
        ND("Nx1", 2)


def test_index_of_more_digits_than_python_converts_is_refused() -> None:
    longest = 10**600 - 1
    assert ND(f"N{longest}").i == longest and AnyDim(longest) == f"({longest})"
    too_long = "must have at most 600 digits, got more for the name"
    for name, i in (
        (f"N{longest + 1}", 0),
        (f"({longest + 1})", 0),
        ("N", longest + 1),
        ("N", -longest - 1),
    ):
        with pytest.raises(ValueError, match=too_long):
            ND(name, i)
    for k in (longest + 1, -(10**5000)):
        with pytest.raises(ValueError, match=too_long):
            _ = ND("N") + k
    assert ND("N" + "0" * 5000).i == 0


def test_string_that_prints_as_something_else_is_taken_by_its_characters() -> None:
    class Name(str, Enum):  # noqa: UP042 # a StrEnum prints as its characters
        X = "Nx"

    assert ND(Name.X) == "Nx" and str(ND(Name.X)) == "Nx"
    assert ND.infer([Name.X]) == ("Nx",)


def test_ellipsis_has_no_index() -> None:
    assert (ND(ELLIPSES).name, ND(ELLIPSES).i) == ("...", 0)
    with pytest.raises(ValueError, match="must have no index"):
        ND(ELLIPSES, 1)
    with pytest.raises(ValueError, match="must have no index"):
        ND(ELLIPSES) + 0
    with pytest.raises(ValueError, match="must have no index"):
        ND(ELLIPSES).next_unused({ELLIPSES})


@given(st.integers(0, 1000))
def test_any_is_written_with_its_index_inside(i: int) -> None:
    dim = AnyDim(i)
    assert dim == (f"({i})" if i else "()")
    assert (dim.name, dim.i) == (ANY, i)
    assert AnyDim() + i == ND(ANY, i) == ND(str(dim)) == dim
    assert is_any(dim)


def test_any_without_an_index_is_that_of_zero() -> None:
    assert AnyDim() == AnyDim(None) == AnyDim(0) == "()"


@given(dimensions())
def test_names_and_the_ellipsis_are_not_any(dim: NamedDimension) -> None:
    assert not is_any(dim)
    assert not is_any(ELLIPSES)


@given(dimensions(), wildcards())
def test_wildcards_are_the_ellipsis_and_any(dim: NamedDimension, wildcard: NamedDimension) -> None:
    assert not is_wildcard(dim)
    assert is_wildcard(wildcard)
    assert is_any(wildcard) == (wildcard != ELLIPSES)


@given(dimensions(), st.sets(st.integers(0, 6)))
def test_next_unused_is_the_first_that_is_not_taken(dim: NamedDimension, taken: set[int]) -> None:
    avoid = {str(dim + k) for k in taken}
    first = min(set(range(8)) - taken)
    assert dim.next_unused(avoid) == dim.next_unused(iter(avoid)) == dim + first


def test_next_unused_refuses_what_is_no_collection() -> None:
    with pytest.raises(TypeError, match="avoid must be a collection of dimensions, got 'NxNy'"):
        ND("N").next_unused("NxNy")
    with pytest.raises(TypeError, match="avoid must be a collection of dimensions, got 3"):
        ND("N").next_unused(3)  # type: ignore[arg-type]


@given(st.lists(ANYTHING, max_size=4))
def test_infer_makes_dimensions_of_strings(dims: list[NamedDimension]) -> None:
    made = ND.infer([str(dim) for dim in dims])
    assert made == tuple(dims) == ND.infer(iter(dims))
    assert all(type(dim) is NamedDimension for dim in made)
    for dim in dims:
        assert ND.infer(dim) is dim
        assert type(ND.infer(str(dim))) is NamedDimension


def test_infer_takes_a_string_for_one_dimension() -> None:
    assert ND.infer("Nx12") == ND("Nx", 12)
    assert ND.infer("NxNy") == ND("NxNy")


def test_infer_refuses_what_is_no_string() -> None:
    with pytest.raises(TypeError, match="or an iterable of strings, got 3 \\(int\\)"):
        ND.infer(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a name must be a string, got 3"):
        ND.infer(["A", 3])  # type: ignore[list-item]


@pytest.mark.parametrize("kind", [set, frozenset])
def test_infer_refuses_what_has_no_order(kind: type) -> None:
    with pytest.raises(TypeError, match=r"must have an order, as in a tuple, got the set .*'A'"):
        ND.infer(kind({"A"}))


def test_sorts_like_its_text() -> None:
    assert sorted([ND("Ny"), ND("Nx1"), ND("C")]) == ["C", "Nx1", "Ny"]
