"""An answer is about the functions of its class."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from linops_core import FFT, Diagonal, NamedLinop, Scalar
from linops_core._algebra._slice_by_slice import gains_by_slices
from linops_core._base._question import Question
from linops_core.siblings import factor_along, without_fftshift
from nameddim import ND


class Twice(FFT):
    @staticmethod
    def fn(linop: FFT, x: Tensor, /) -> Tensor:
        return 2 * FFT.fn(linop, x)


class WithAdjoint(FFT):
    @staticmethod
    def adj_fn(linop: FFT, x: Tensor, /) -> Tensor:
        return 2 * FFT.adj_fn(linop, x)


class WithForward(FFT):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class BelowTwice(Twice):
    """It overrides nothing."""


class Named(FFT):
    def describe(self) -> str:
        return "a transform"


def answers(A: NamedLinop) -> list[bool]:
    grid = [ND("Nx"), ND("Kx")]
    result = without_fftshift(A, grid), factor_along(A, A.ishape[-1:], A.ishape)
    return [gains_by_slices(A), *(part is not None for part in result)]


@pytest.mark.parametrize("kind", [Twice, WithAdjoint, WithForward, BelowTwice])
def test_a_class_with_other_functions_does_not_inherit_the_answer(kind: type[FFT]) -> None:
    A = kind(1, ("C",), centered=True)
    assert answers(A) == answers(A.H) == [False] * 3


def test_a_class_with_the_same_functions_inherits_it() -> None:
    A = Named(1, ("C",), centered=True)
    assert answers(A) == answers(A.H) == [True] * 3


def test_an_answer_of_a_subclass_is_its_own() -> None:
    class Own(Diagonal):
        @staticmethod
        def fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            return linop.weight * x

    A = Own(torch.ones(2), ("N",))
    assert without_fftshift(A, [ND("N")]) is not None  # of sliceable operators of any functions
    without_fftshift.register(Own)(lambda linop, dims: linop)
    assert without_fftshift(A, [ND("N")]) is A


@pytest.mark.parametrize(("ask", "expected"), [(Question, "any"), (Question.inherited, "FFT")])
def test_answers_that_depend_on_no_function_are_inherited_by_classes_with_others(
    ask: Callable[..., Question[..., str]], expected: str
) -> None:
    kind = ask(lambda linop: "any")
    kind.register(FFT, Diagonal)(lambda linop: "FFT")
    assert [kind(A) for A in (FFT(1), Named(1), Scalar(2.0))] == ["FFT", "FFT", "any"]
    others = Twice(1), WithAdjoint(1), WithForward(1), BelowTwice(1)
    assert {kind(A) for A in others} == {expected}


def test_the_nearest_class_that_registered_decides() -> None:
    @Question
    def kind(linop: object, ending: str) -> str:
        return "any" + ending

    @kind.register(NamedLinop)
    def of_operators(linop: object, ending: str) -> str:
        return "operator" + ending

    @kind.register(Scalar)
    def of_scalars(linop: object, ending: str) -> str:
        return "scalar" + ending

    class Own(Scalar):
        pass

    assert [kind(x, "!") for x in (1, FFT(1), Own(2.0))] == ["any!", "operator!", "scalar!"]
