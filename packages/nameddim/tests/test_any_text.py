"""Whatever text comes, it is read and written again as it was, or refused by a rule of ours."""

import pickle
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nameddim import (
    K2N,
    N2K,
    ND,
    NS,
    Dim,
    NamedDimension,
    iscompatible,
    isequal,
    max_shape,
    resolve_wildcards,
)

# What names are made of, and what looks like it: digits of full width, a combining accent, a
# ligature, a digit that is no decimal, half of a surrogate pair, NUL.
SIGNS = ["...", "()", "(2)", "é", "名", "\uff11", "\u0301", "\ufb01", "²", "\ud800", "\0"]
PIECES = [*"ANKxz01_()., ->*", *SIGNS]
TEXTS = (
    st.text(st.characters(), max_size=8)
    | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
    | st.builds(str.__mul__, st.sampled_from(PIECES), st.integers(500, 5000))
    | st.builds(lambda digit, n: "N" + digit * n, st.sampled_from("019"), st.integers(598, 5000))
)
OURS = re.compile(r"(NamedDimension|NamedShape|Dim|N2K|K2N|resolve_wildcards|max_shape): .* must ")


def read(reader: Callable[[], object]) -> object:
    """What a reader makes of a text; None if it refuses it."""
    try:
        return reader()
    except ValueError as error:
        assert OURS.match(str(error)), error
        return None


def is_written_as(dim: object, text: str) -> bool:
    return (
        type(dim) is NamedDimension
        and str(dim) == text
        and ND(text) == ND(dim.name, dim.i) == dim
        and (ND(text).name, ND(text).i) == (dim.name, dim.i)
    )


@given(TEXTS)
@example("N" + "9" * 601)
@example("(" + "9" * 601 + ")")
@example("N1" + "1" * 5000 + "x")
def test_one_dimension(text: str) -> None:
    dim = read(lambda: ND(text))
    assert dim is None or is_written_as(dim, text)
    assert read(lambda: ND.infer(text)) == dim
    assert read(lambda: ND.infer([text])) == (None if dim is None else (dim,))


@given(TEXTS)
def test_several_dimensions_in_one_text(text: str) -> None:
    dims = read(lambda: Dim(text))
    if isinstance(dims, tuple):
        assert "".join(dims) == text and Dim("".join(dims)) == dims
        assert all(is_written_as(dim, str(dim)) for dim in dims)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=3))
def test_shapes(text: str, ishape: list[str], oshape: list[str]) -> None:
    for given_ishape in (text, ishape):
        shape = read(lambda given=given_ishape: NS(given, oshape, batch_shape=oshape))  # type: ignore[misc]
        if isinstance(shape, NS):
            assert NS(shape.ishape, shape.oshape, **shape.other_shapes) == shape
            assert pickle.loads(pickle.dumps(shape)) == shape
            assert shape.H.H == shape and read(lambda s=shape: s.N) is not None  # type: ignore[misc]
            read(lambda s=shape: s.resolve(text))  # type: ignore[misc]


@pytest.mark.parametrize("function", [iscompatible, isequal, resolve_wildcards])
@given(TEXTS | st.lists(TEXTS, max_size=3), TEXTS | st.lists(TEXTS, max_size=3))
def test_two_patterns(
    function: Callable[[object, object], object], a: str | list[str], b: str | list[str]
) -> None:
    read(lambda: function(a, b))


@pytest.mark.parametrize("function", [N2K, K2N, lambda dims: max_shape([dims, dims])])
@given(TEXTS | st.lists(TEXTS, max_size=3))
def test_one_pattern(function: Callable[[object], object], dims: str | list[str]) -> None:
    result = read(lambda: function(dims))
    assert result is None or function(result) == result
