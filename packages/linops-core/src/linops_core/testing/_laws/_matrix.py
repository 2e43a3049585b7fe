"""Laws of the matrix: linearity, the adjoint, the normal, the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import filterfalse

import torch

from nameddim import ELLIPSES, ND, NamedDimension, is_wildcard

from ..._adapters._arrays import batch_axes
from ..._base._linop import NamedLinop
from ..._base._roles import Role
from ..._dottest import dottest
from ...questions import shift_axes, without_fftshift
from .._functions import check_functions
from .._real_matrices import conjugated
from .._tiles import check_cuts, check_supports
from ._factories import Applied, LinopFactories, tensors_of


class MatrixLaws(LinopFactories):
    """An operator, its adjoint and its normal agree with its matrix."""

    def test_is_linear(self) -> None:
        A = self.make_linop()
        x, z, c = self.make_input(A), self.make_input(A), 2 - 3j if A.is_complex_linear else -3.0
        self.agree(A(c * x + z), c * A(x) + A(z), f"A({c} x + z)")

    def test_output_has_the_dimensions_of_oshape(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        lengths = dict(zip(A.ishape, x.shape, strict=True))
        y = A(x)
        what = f"A(x) for x of shape {tuple(x.shape)} must have the dimensions {A.oshape}"
        assert y.ndim == len(A.oshape), f"{what}, got shape {tuple(y.shape)}"
        for dim, length in zip(A.oshape, y.shape, strict=True):
            for expected in (A.size(dim), lengths[dim] if A.role(dim) is Role.BATCH else None):
                assert expected in (None, length), f"{what} with {dim}={expected}, got {length}"

    def test_real_inputs_give_what_complex_ones_of_that_value_give(self) -> None:
        A = self.make_linop()
        x = self.make_input(A, torch.float64)
        self.agree(A(x), A(x.to(torch.complex128)), "A(x) for real x")

    def test_an_ellipsis_stands_for_any_number_of_dimensions(self) -> None:
        A = self.make_linop()
        for linop, x, name in self.derived(A):
            if (axes := batch_axes(linop)) is None:
                continue
            iaxis, oaxis = axes
            y, length = linop(x), x.shape[iaxis]
            for one in range(length):
                actual = linop(x.select(iaxis, one))
                self.agree(actual, y.select(oaxis, one), f"{name}(x) without a batch dimension")
            actual = linop(x.narrow(iaxis, 0, 0))
            self.agree(actual, y.narrow(oaxis, 0, 0), f"{name}(x) for an empty batch")
            actual = linop(torch.stack([x, 2 * x], iaxis))
            expected = torch.stack([y, 2 * y], oaxis)
            self.agree(actual, expected, f"{name}(x) with two batch dimensions")

    def test_inputs_that_do_not_fit_are_refused(self) -> None:
        A = self.make_linop()
        for linop, x, name in self.derived(A):
            check_refused(TypeError, linop, x.tolist(), name)
            if ELLIPSES not in linop.ishape:
                check_refused(ValueError, linop, x[None], name)
            if len(linop.ishape) > 1 and ELLIPSES in linop.ishape:
                check_refused(ValueError, linop, x.new_zeros([3] * (len(linop.ishape) - 2)), name)
            for axis, dim in enumerate(linop.ishape):
                if linop.size(dim) is not None:
                    longer = torch.cat([x, x.narrow(axis, 0, 1)], axis)
                    check_refused(ValueError, linop, longer, name)
                    check_refused(ValueError, linop, x.narrow(axis, 0, 0), name)

    def test_adjoint_satisfies_the_dot_test(self) -> None:
        dottest(self.make_linop(), self.sizes())

    def test_adjoint_is_the_conjugate_transpose(self) -> None:
        A = self.make_linop()
        self.agree(self.dense(A.H), self.dense(A).mH, "the matrix of A.H")

    def test_transpose_and_conjugate_are_those_of_the_matrix(self) -> None:
        A = self.make_linop()
        for linop, _, name in self.derived(A)[:2]:
            matrix = self.dense(linop)
            self.agree(self.dense(linop.T), conjugated(matrix.mH), f"the matrix of {name}.T")
            self.agree(self.dense(linop.conj()), conjugated(matrix), f"the matrix of {name}.conj()")

    def test_no_result_and_no_weight_of_a_state_is_a_lazy_conjugate(self) -> None:
        A = self.make_linop()
        conjugate = Applied(A.conj(), self.make_input(A), "A.conj()")
        for linop, x, name in [*self.derived(A), conjugate]:
            for given, of in ((x, "x"), (x.conj(), "conj(x)"), (x.conj().imag, "-Im(x)")):
                y = linop(given)
                check_plain(y, f"{name}({of})")
                self.agree(y, linop(given.resolve_conj().resolve_neg()), f"{name}({of})")
            for key, weight in linop.state_dict().items():
                check_plain(weight, f"{name}.state_dict()[{key!r}]")

    def test_adjoint_of_the_adjoint_is_the_operator(self) -> None:
        A = self.make_linop()
        assert A.H.H is A, f"A.H.H must be A itself, {A!r}, got {A.H.H!r}"
        assert A.H.shape == A.shape.H, f"A.H must have shape {A.shape.H}, got {A.H.shape}"

    def test_normal_is_the_adjoint_after_the_operator(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        self.agree(A.N(x), A.H(A(x)), "A.N(x)")
        y = A(x)
        self.agree(A.H.N(y), A(A.H(y)), "A.H.N(y)")

    def test_functions_of_operators_and_of_copies_are_what_they_say(self) -> None:
        A = self.make_linop()
        conjugate = (A.conj(), self.make_input(A), "A.conj()")
        with torch.no_grad():
            for linop, x, _ in (*self.derived(A), conjugate):
                check_functions(linop, x, self.close)

    def test_derived_operators_hold_the_same_tensors(self) -> None:
        A = self.make_linop()
        held = {id(tensor) for tensor in tensors_of(A)}
        for linop, _, name in self.derived(A)[1:]:
            others = [t for t in tensors_of(linop) if id(t) not in held]
            assert not others, f"{name} must hold the tensors of A, got others: {others}"

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

    def test_what_its_class_answers_is_true(self) -> None:
        A = self.make_linop()
        for linop, x, name in self.derived(A)[:3]:
            y = linop(x)
            for axis in shift_axes(linop):
                self.agree(linop(x.roll(1, axis)), y.roll(1, axis), f"{name}(x), x shifted,")
            for dim in filterfalse(is_wildcard, linop.dims):
                if (other := without_fftshift(linop, [dim])) is not None:
                    moved = turned(linop(turned(x, linop.ishape, dim, 1)), linop.oshape, dim, -1)
                    self.agree(other(x), moved, f"{name}(x), the centre of {dim} first,")
            more = ND("Batch").next_unused(linop.dims), *linop.ishape
            if ELLIPSES not in more and (batch := linop.fitted_to(more)) is not None:
                actual, each = batch(torch.stack([x, 2 * x])), torch.stack([y, 2 * y])
                self.agree(actual, each, f"{name}(x), with another dimension in front,")


def turned(
    x: torch.Tensor, names: Sequence[NamedDimension], dim: NamedDimension, sign: int
) -> torch.Tensor:
    """Return x with its first element along ``dim`` at the centre, or the other way round."""
    for axis, name in enumerate(names):
        x = x.roll(sign * (x.shape[axis] // 2), axis) if name == dim else x
    return x


def check_refused(kind: type[Exception], linop: NamedLinop, x: object, name: str) -> None:
    """Check that an input is refused with a rule and the value that was given."""
    given = f"shape {tuple(x.shape)}" if isinstance(x, torch.Tensor) else f"{type(x)}"
    what = f"{name}, {linop.signature}, for {given}"
    try:
        linop(x)  # type: ignore[arg-type] # that is what is checked
    except kind as error:
        message = str(error)
    else:
        raise AssertionError(f"{what}: the input must be refused, got a result")
    assert "must" in message and "got" in message, (
        f"{what}: the error must have a rule, '... must ...', and what it got, got {message!r}"
    )


def check_plain(tensor: torch.Tensor, what: str) -> None:
    """Check that a tensor is no lazy conjugate, whose memory other programs would misread."""
    bits = {"conjugate": tensor.is_conj(), "negative": tensor.is_neg()}
    set_bits = [name for name, is_set in bits.items() if is_set]
    assert not set_bits, f"{what} must be a tensor without lazy bits, got the {set_bits} of torch"
