"""Laws of the matrix: linearity, the adjoint, the normal, the tiles."""

from __future__ import annotations

import torch

from nameddim import ELLIPSES

from ..._adapters._arrays import batch_axes
from ..._base._linop import NamedLinop
from ..._base._roles import Role
from .._dottest import dottest
from .._functions import check_functions
from .._real_matrices import conjugated
from .._tiles import check_cuts, check_supports
from ._factories import LinopFactories, tensors_of


class MatrixLaws(LinopFactories):
    """An operator, its adjoint and its normal agree with its matrix."""

    def test_is_linear(self) -> None:
        A = self.make_linop()
        x, z, c = self.make_input(A), self.make_input(A), 2 - 3j if A.is_complex_linear else -3.0
        assert self.close(A(c * x + z), c * A(x) + A(z))

    def test_output_has_the_dimensions_of_oshape(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        lengths = dict(zip(A.ishape, x.shape, strict=True))
        y = A(x)
        assert y.ndim == len(A.oshape)
        for dim, length in zip(A.oshape, y.shape, strict=True):
            assert A.size(dim) in (None, length)
            assert A.role(dim) is not Role.BATCH or lengths[dim] == length

    def test_real_inputs_give_what_complex_ones_of_that_value_give(self) -> None:
        A = self.make_linop()
        x = self.make_input(A, torch.float64)
        assert self.close(A(x), A(x.to(torch.complex128)))

    def test_an_ellipsis_stands_for_any_number_of_dimensions(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A):
            if (axes := batch_axes(linop)) is None:
                continue
            here, there = axes
            y, length = linop(x), x.shape[here]
            for one in range(length):  # none
                assert self.close(linop(x.select(here, one)), y.select(there, one))
            nothing = x.narrow(here, 0, 0)
            assert self.close(linop(nothing), y.narrow(there, 0, 0))
            two = torch.stack([x, 2 * x], here)
            assert self.close(linop(two), torch.stack([y, 2 * y], there))

    def test_inputs_that_do_not_fit_are_refused(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A):
            check_refused(TypeError, linop, x.tolist())
            if ELLIPSES not in linop.ishape:
                check_refused(ValueError, linop, x[None])
            if len(linop.ishape) > 1 and ELLIPSES in linop.ishape:
                check_refused(ValueError, linop, x.new_zeros([3] * (len(linop.ishape) - 2)))
            for axis, dim in enumerate(linop.ishape):
                if linop.size(dim) is not None:
                    longer = torch.cat([x, x.narrow(axis, 0, 1)], axis)
                    check_refused(ValueError, linop, longer)
                    check_refused(ValueError, linop, x.narrow(axis, 0, 0))

    def test_adjoint_satisfies_the_dot_test(self) -> None:
        dottest(self.make_linop(), self.sizes())

    def test_adjoint_is_the_conjugate_transpose(self) -> None:
        A = self.make_linop()
        assert self.close(self.dense(A.H), self.dense(A).mH)

    def test_transpose_and_conjugate_are_those_of_the_matrix(self) -> None:
        A = self.make_linop()
        for linop in (A, A.H):
            matrix = self.dense(linop)
            assert self.close(self.dense(linop.T), conjugated(matrix.mH))
            assert self.close(self.dense(linop.conj()), conjugated(matrix))

    def test_adjoint_of_the_adjoint_is_the_operator(self) -> None:
        A = self.make_linop()
        assert A.H.H is A
        assert A.H.shape == A.shape.H

    def test_normal_is_the_adjoint_after_the_operator(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        assert self.close(A.N(x), A.H(A(x)))
        y = A(x)
        assert self.close(A.H.N(y), A(A.H(y)))

    def test_functions_of_operators_and_of_copies_are_what_they_say(self) -> None:
        A = self.make_linop()
        conjugate = (A.conj(), self.make_input(A))
        with torch.no_grad():
            for linop, x in (*self.derived(A), conjugate):
                check_functions(linop, x, self.close)

    def test_derived_operators_hold_the_same_tensors(self) -> None:
        A = self.make_linop()
        own = {id(tensor) for tensor in tensors_of(A)}
        for derived in (A.H, A.N, A.H.N):
            assert {id(tensor) for tensor in tensors_of(derived)} <= own

    def test_tiles_make_up_the_whole_along_every_dimension_that_is_not_opaque(self) -> None:
        A = self.make_linop()
        # A normal operator without a closed form is cut like any composition.
        for linop in (A, A.H, A.N) if self.has_closed_normal(A) else (A, A.H):
            sizes = self.all_sizes(linop)
            matrix = self.dense(linop)
            check_cuts(linop, matrix, sizes, self.close, accepts=lambda dim, reason: bool(reason))

    def test_nothing_is_read_or_written_outside_of_the_supports(self) -> None:
        A = self.make_linop()
        for linop in (A, A.H, A.N):  # and of all tiles, by the test above
            check_supports(linop, self.dense(linop), self.all_sizes(linop), self.close)


def check_refused(kind: type[Exception], linop: NamedLinop, x: object) -> None:
    """Check that an input is refused with a rule and the value that was given."""
    try:
        linop(x)  # type: ignore[arg-type] # that is what is checked
    except kind as error:
        assert "must" in str(error)
        assert "got" in str(error)
    else:
        raise AssertionError(f"{linop.signature}: {type(x)} must be refused, got a result")
