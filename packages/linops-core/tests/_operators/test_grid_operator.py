"""What an operator has from being a GridOperator, by one that is written here in a few lines."""

from typing import ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor

from linops_core import DCT, FFT, Diagonal, NamedLinop, Role, SplitError
from linops_core._operators._grid_names import GridNames, checked_dims
from linops_core._operators._grid_operator import GridOperator
from linops_core.siblings import factor_along, without_fftshift
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class EachSecond(NamedTuple):
    """Element j of the output is element 2 j + offset of the input, or zero where there is none."""

    n_input: int
    n_output: int
    offset: int = 0

    @property
    def lengths(self) -> tuple[int, int]:
        return self.n_input, self.n_output

    @property
    def supports(self) -> tuple[slice | None, slice | None]:
        return None, None

    def cut(self, of_input: slice | None, of_output: slice | None) -> "EachSecond":
        here = of_input or slice(0, self.n_input)
        there = of_output or slice(0, self.n_output)
        offset = self.offset + 2 * there.start - here.start
        return EachSecond(here.stop - here.start, there.stop - there.start, offset)

    def matrix(self, like: Tensor) -> Tensor:
        places = [2 * j + self.offset for j in range(self.n_output)]
        rows = [[float(i == place) for i in range(self.n_input)] for place in places]
        return torch.tensor(rows, dtype=like.dtype, device=like.device)


class Halved(GridOperator[EachSecond]):
    saved_with: ClassVar[tuple[type, ...]] = (EachSecond,)

    def __init__(self, size: int, dim: str = "N", out_dim: str = "M") -> None:
        here, there = (dim,), (out_dim,)
        shape = GridNames.last(None, here, there).shape(from_grid=here, to_grid=there)
        super().__init__(shape, [EachSecond(size, (size + 1) // 2)])

    @staticmethod
    def fn(linop: "Halved", x: Tensor, /) -> Tensor:
        return x @ linop.axes[0].matrix(x).mT

    @staticmethod
    def adj_fn(linop: "Halved", x: Tensor, /) -> Tensor:
        return x @ linop.axes[0].matrix(x)


class TestHalved(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Halved(5)


def test_sizes_and_roles_are_those_of_the_axes_on_both_sides_of_the_adjoint() -> None:
    A = Halved(5)
    assert A.sizes("input") == A.H.sizes("output") == (None, 5)
    assert A.sizes("output") == A.H.sizes("input") == (None, 3)
    assert (A.role("N"), A.role("M"), A.H.role("N")) == (Role.INPUT, Role.OUTPUT, Role.OUTPUT)
    with pytest.raises(ValueError, match=r"Halved: N must have size 5, got 4"):
        A(torch.ones(4))


def test_both_sides_can_be_cut_and_cut_again() -> None:
    A = Halved(7).resolved(ishape=(ND("N"),))
    whole = A.to_dense()
    part = A.split(A, {ND("N"): slice(1, 6), ND("M"): slice(1, 4)})
    assert torch.equal(part.to_dense(), whole[1:4, 1:6])
    again = part.H.split(part.H, {ND("M"): slice(0, 2), ND("N"): slice(1, 3)})
    assert torch.equal(again.to_dense(), whole[1:3, 2:4].mH)


def test_what_is_only_passed_on_may_be_shifted() -> None:
    A = Halved(5).resolved(ishape=(ND("C"), ND("N")))
    assert without_fftshift(A, [ND("C")]) is A
    assert without_fftshift(A, [ND("N")]) is None


def test_one_name_on_both_sides_cannot_be_cut() -> None:
    A = Halved(4, "N", "N")
    assert A.sizes("input") == (None, 4) and A.sizes("output") == (None, 2)
    with pytest.raises(SplitError, match=r"cannot be split: it is in the input and in the output"):
        A.split(A, {ND("N"): slice(0, 1)})


def test_names_that_do_not_fit_the_grid_are_refused() -> None:
    match = r"^Halved: in_shape must have 1 dimensions for a line, got \('A', 'B'\)"
    with pytest.raises(ValueError, match=match):
        checked_dims("Halved", "in_shape", ("A", "B"), ("N",), "a line")
    assert checked_dims("Halved", "in_shape", None, ("N",), "a line") == ("N",)


NAMES = "C", "Nx", "Ny", "Nz"


@pytest.mark.parametrize("is_adjoint", [False, True])
@pytest.mark.parametrize(
    "A",
    [
        FFT(3, ("C",), norm="backward", centered=True),
        FFT(dims=("Nz", "Nx", "Ny"), shape=NAMES),
        DCT(("Nx", "Ny", "Nz"), NAMES),
    ],
)
def test_an_operator_along_each_dimension_is_that_along_some_and_then_the_others(
    A: NamedLinop, is_adjoint: bool
) -> None:
    x = torch.randn(2, 3, 4, 5, dtype=torch.complex128)
    A = A.H if is_adjoint else A
    for chosen in ({1}, {3, 1}):
        first = factor_along(A, [A.ishape[at] for at in chosen], A.ishape)
        assert first is not None
        second = factor_along(A, [A.ishape[at] for at in {1, 2, 3} - chosen], first.oshape)
        assert second is not None and second.oshape == A.oshape
        torch.testing.assert_close(second(first(x)), A(x))
        torch.testing.assert_close((second @ first).H(x), A.H(x))


def test_only_operators_that_act_so_say_what_they_do_along_some_dimensions() -> None:
    class Other(FFT):
        @staticmethod
        def fn(linop: FFT, x: Tensor, /) -> Tensor:
            return x

    for A in (Other(2), FFT(2) @ FFT(2).H, Diagonal(torch.ones(2), ("Nx",))):
        assert factor_along(A, A.ishape[-1:], A.ishape) is None
