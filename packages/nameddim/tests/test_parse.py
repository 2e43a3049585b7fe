from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameddim import ELLIPSES, Dim, NamedDimension
from nameddim.testing import patterns

WRITTEN = ["C", "Nx", "Ny", "A1", "B_2a", "K01"]


def has_neighbouring_ellipses(dims: tuple[NamedDimension, ...]) -> bool:
    return any(pair == (ELLIPSES, ELLIPSES) for pair in pairwise(dims))


@given(patterns(WRITTEN))
def test_parsing_and_printing_are_inverse(dims: tuple[NamedDimension, ...]) -> None:
    text = "".join(dims)
    if has_neighbouring_ellipses(dims):
        with pytest.raises(ValueError, match="two ellipses must not stand side by side"):
            Dim(text)
    else:
        assert Dim(text) == dims
        assert all(type(dim) is NamedDimension for dim in Dim(text))


@given(st.text(st.sampled_from("ANxy01_().é "), max_size=8))
def test_text_is_parsed_whole_or_refused(text: str) -> None:
    try:
        dims = Dim(text)
    except ValueError as error:
        assert f"{text!r}\n    {text}\n    " in str(error)
    else:
        assert "".join(dims) == text


def test_no_text_has_no_dimensions() -> None:
    assert Dim() == Dim(None) == ()


def test_empty_text_has_no_dimensions() -> None:
    assert Dim("") == ()


@pytest.mark.parametrize(
    ("text", "position", "found"),
    [
        ("NxnY ", 4, " "),
        ("nx", 0, "n"),
        ("Nx Ny", 2, " "),
        ("Nx,Ny", 2, ","),
        ("Nx\nNy", 2, "\n"),
        ("Nx()ny", 4, "n"),
        ("Nx(0)", 2, "("),
        ("Nx(", 2, "("),
        ("Nx..Ny", 2, "."),
        ("Né", 1, "é"),
        ("1N", 0, "1"),
    ],
)
def test_bad_text_is_refused_with_its_position(text: str, position: int, found: str) -> None:
    with pytest.raises(ValueError, match=r"begin with an upper-case letter A to Z or be") as caught:
        Dim(text)
    first, shown, caret = str(caught.value).split("\n")
    assert first.endswith(f"got {found!r} at position {position} of {text!r}")
    assert shown == "    " + text.replace("\n", "?")
    assert caret.index("^") == shown.index("?" if found == "\n" else found, len("    ") + position)


def test_second_of_two_neighbouring_ellipses_is_pointed_at() -> None:
    with pytest.raises(ValueError, match=r"the second at position 4 of 'A......B'") as caught:
        Dim("A......B")
    assert str(caught.value).endswith("\n    A......B\n        ^")


def test_text_that_is_no_string_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Dim: the dimensions must be a string, got \('A',\)"):
        Dim(("A",))  # type: ignore[arg-type]
