"""What operators take and return has the dimensions and sizes that they say."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Chain, Identity, NamedLinop, SimpleLinop, SliceableLinop
from linops_core._base._dimensions import unused_names
from nameddim import ND, NS, NamedDimension


class Free(NamedLinop):
    """An operator on 3 N to 2 M, of a function that may be wrong; NamedLinop's own checks."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__(NS(("N",), ("M",)))
        self.function = function

    def size(self, dim: NamedDimension | str) -> int | None:
        return 3 if dim in self.ishape else 2 if dim in self.oshape else None

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return linop.function(x)  # type: ignore[no-any-return]

    normal_fn = fn


class Remembering(Free, SliceableLinop):
    """The same, which remembers what it checked."""


KINDS = st.sampled_from([Free, Remembering])
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(KINDS, shapes, st.booleans())
def test_an_output_of_another_shape_is_refused_each_time(
    kind: type[Free], shape: tuple[int, ...], in_a_chain: bool
) -> None:
    A: NamedLinop = kind(lambda x: x.new_zeros(shape))
    if in_a_chain:
        A = Chain(A, SimpleLinop(lambda x: x, None, ishape=("M",)))
    for _ in range(2):
        if shape == (2,):
            assert A(torch.ones(3)).shape == (2,)
        else:
            with pytest.raises(ValueError, match=r"(output must have 1 dim|M must have size 2)"):
                A(torch.ones(3))


@pytest.mark.parametrize("kind", [Free, Remembering])
def test_the_message_says_what_came(kind: type[Free]) -> None:
    with pytest.raises(ValueError, match=r"M must have size 2, got 4 in an output of shape \(4,\)"):
        kind(lambda x: torch.ones(4))(torch.ones(3))
    with pytest.raises(ValueError, match=r"output must have 1 dimensions for \(N\) -> \(M\), g"):
        kind(lambda x: torch.ones(2, 2))(torch.ones(3))
    with pytest.raises(TypeError, match=r"the output must be a torch.Tensor, got <class 'list'>"):
        kind(lambda x: [1.0, 2.0])(torch.ones(3))


def test_functions_are_checked_for_what_their_names_say() -> None:
    A = SimpleLinop(lambda x: x.sum(-1), lambda y: y, ishape=("C", "N"), oshape=("C", "M"))
    with pytest.raises(ValueError, match=r"SimpleLinop: the output must have 2 dimensions"):
        A(torch.ones(2, 3))
    assert A.H(torch.ones(2, 3)).shape == (2, 3)
    B = SimpleLinop(lambda x: x.sum(), lambda y: y, ishape=("...", "N"))
    with pytest.raises(ValueError, match=r"SimpleLinop: the output must have at least 1 dim"):
        B(torch.ones(3))


@pytest.mark.parametrize("kind", [Free, Remembering])
def test_a_closed_form_of_the_normal_is_checked_and_says_nothing_of_the_operator(
    kind: type[Free],
) -> None:
    A = kind(lambda x: x)
    assert A.N(torch.ones(3)).shape == (3,)
    with pytest.raises(ValueError, match="M must have size 2, got 3 in an output"):
        A(torch.ones(3))
    wrong = kind(lambda x: x[:2])
    assert wrong(torch.ones(3)).shape == (2,)
    with pytest.raises(ValueError, match=r"N1? must have size 3, got 2 in an output"):
        wrong.N(torch.ones(3))


@pytest.mark.parametrize("kind", [Free, Remembering])
def test_each_shape_is_checked_once(kind: type[Free], monkeypatch: pytest.MonkeyPatch) -> None:
    A = kind(lambda x: torch.ones(2))
    seen: list[torch.Size] = []

    def see(linop: NamedLinop, y: Tensor, side: str) -> None:
        if side == "output":
            seen.append(y.shape)

    monkeypatch.setattr(kind, "_check_vector", see)
    for _ in range(3):
        A(torch.ones(3))
    assert len(seen) == 1
    A.function = torch.zeros_like  # it may be another now
    A(torch.ones(3))
    assert len(seen) == 2


def test_a_function_is_not_trusted_after_an_error() -> None:
    results = [torch.ones(3), torch.ones(2), torch.ones(2)]
    A = Remembering(lambda x: results.pop(0))
    with pytest.raises(ValueError, match="M must have size 2, got 3"):
        A(torch.ones(3))
    assert A(torch.ones(3)).shape == (2,)


@pytest.mark.parametrize("kind", [Free, Remembering])
def test_compiled_operators_are_checked(kind: type[Free]) -> None:
    right, wrong = kind(lambda x: x[:2]), kind(lambda x: x)
    compiled = torch.compile(right, backend="eager", fullgraph=True)
    assert compiled(torch.ones(3)).shape == (2,)
    with pytest.raises(Exception, match="M must have size 2, got 3"):
        torch.compile(wrong, backend="eager", fullgraph=True)(torch.ones(3))


def test_the_identity_of_any_shape_returns_any() -> None:
    for shape in ((), (2, 3)):
        assert Identity()(torch.ones(shape)).shape == shape


def test_a_normal_asks_its_operator_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    N = Free(torch.clone).N
    N(torch.ones(3))
    monkeypatch.setattr(Free, "size", lambda *_: 4)
    with pytest.raises(ValueError, match="N must have size 4, got 3"):
        N(torch.ones(3))


NAMES = st.builds(ND, st.sampled_from("NM"), st.integers(0, 6)) | st.just(ND("()"))


@given(st.sets(NAMES), st.lists(NAMES))
def test_each_name_is_the_next_that_is_in_no_other_place(
    used: set[NamedDimension], asked: list[NamedDimension]
) -> None:
    for dim, result in zip(asked, unused_names(asked, [*used]), strict=True):
        smaller = [dim + k for k in range(20)]
        assert result == next(each for each in smaller if each not in used)
        used.add(result)
