"""Each operator of the package against a matrix from explicit loops, whole and in tiles."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linops_core import SplitError
from linops_core.testing import dottest
from linops_core.testing.strategies import LEAVES, Known, check, leaves
from nameddim import NamedDimension

Leaf = Callable[..., st.SearchStrategy[Known]]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
@settings(max_examples=settings().max_examples // 3)  # each is cut into many tiles
@given(data=st.data())
def test_every_operator_is_its_matrix_whole_and_in_tiles(leaf: Leaf, data: st.DataObject) -> None:
    known = data.draw(leaf())
    spaces = known.spaces
    named = known.linop.resolved(ishape=dims(spaces.ishape), oshape=dims(spaces.oshape))
    check(Known(named, known.matrix, spaces, known.opaque, known.inner, known.side_by_side))


@given(leaves())
def test_every_operator_passes_the_dot_test(known: Known) -> None:
    hidden = len(known.spaces.ishape) - len(known.linop.ishape) + 1
    if "..." not in known.linop.ishape or hidden == 1:
        sizes = dict(known.spaces.sizes)
        if "..." in known.linop.ishape:
            sizes["..."] = sizes[known.spaces.ishape[known.linop.ishape.index(dims(["..."])[0])]]
        dottest(known.linop, sizes, trials=1)


@given(leaves())
def test_an_opaque_dimension_is_refused_and_the_message_says_why(known: Known) -> None:
    linop, sizes = known.linop, {**known.spaces.sizes, **known.inner}
    for dim in linop.dims:
        if (reason := linop.why_opaque(dim)) is not None and sizes.get(dim, 1) > 1:
            with pytest.raises(SplitError, match=r"cannot be split: .+") as caught:
                linop.split(linop, {dim: slice(0, 1)})
            assert reason in str(caught.value)
            assert linop.signature in str(caught.value)


def dims(names: Sequence[str]) -> tuple[NamedDimension, ...]:
    return tuple(map(NamedDimension, names))
