"""Gradients from the equation: right, or refused where the weights are other ones."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call
from torch.multiprocessing.reductions import StorageWeakRef

from linops_core import Dense, Diagonal, NamedLinop
from linops_solvers import ConvergenceWarning, conjugate_gradients, gmres, lsmr, lsqr, minres

Solver = Callable[[Any, Tensor], Tensor]


def implicit(A: Any, y: Tensor) -> Tensor:
    return conjugate_gradients(A, y, gtol=1e-12, ltol=0, implicit=True)


def dense_lsqr(A: Any, y: Tensor) -> Tensor:
    return lsqr(A, y, atol=1e-12, btol=1e-12)


def damped_lsmr(A: Any, y: Tensor) -> Tensor:
    return lsmr(A, y, damp=1e-9, atol=1e-12, btol=1e-12)


SOLVERS = pytest.mark.parametrize("solve", [implicit, dense_lsqr, damped_lsmr])
OTHERS = r"the weights of .* must not change between the solution and the gradient"
Y = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def diagonal(value: float = 1.0) -> Diagonal:
    weights = torch.arange(1.0, 4.0, dtype=torch.float64) * value
    return Diagonal(torch.nn.Parameter(weights), ("N",))


class Solve(torch.nn.Module):
    def __init__(self, solve: Solver) -> None:
        super().__init__()
        self.A, self.solve = diagonal(), solve

    def forward(self, y: Tensor, inside: bool = False) -> Tensor:
        x = self.solve(self.A, y)
        return torch.autograd.grad(x.sum(), self.A.weight)[0] if inside else x


def replace(A: Diagonal) -> None:
    A.weight = torch.nn.Parameter(2 * A.weight.detach())


def replace_data(A: Diagonal) -> None:
    for _ in range(20):  # the memory of the first may be given anew
        A.weight.data = 2 * torch.ones(3, dtype=torch.float64)


def load(A: Diagonal) -> None:
    A.load_state_dict(diagonal(2.0).state_dict(), assign=True)


def write(A: Diagonal) -> None:
    with torch.no_grad():
        A.weight.mul_(2)


CHANGES = pytest.mark.parametrize("change", [replace, replace_data, load, write])


@SOLVERS
@CHANGES
def test_changed_weights_are_refused(solve: Solver, change: Callable[[Diagonal], None]) -> None:
    A = diagonal()
    x = solve(A, Y)
    change(A)
    with pytest.raises(RuntimeError, match=OTHERS):
        x.sum().backward()


@SOLVERS
def test_changed_weights_that_are_no_parameters_are_refused(solve: Solver) -> None:
    A = Diagonal(Y + 1, ("N",))
    x = solve(A, Y.clone().requires_grad_())
    A.weight.add_(1)
    with pytest.raises(RuntimeError, match=OTHERS):
        x.sum().backward()


@CHANGES
def test_changed_weights_behind_a_bound_method_are_refused(
    change: Callable[[Diagonal], None],
) -> None:
    A = diagonal()
    x = implicit(A.forward, Y)
    change(A)
    with pytest.raises(RuntimeError, match=r"of A function must not"):
        x.sum().backward()


@SOLVERS
@CHANGES
@pytest.mark.parametrize("view", [lambda A: A.H, lambda A: A.N, lambda A: A.N + A, lambda A: 2 * A])
def test_gradients_through_what_is_made_of_an_operator_are_right_or_refused(
    solve: Solver, change: Callable[[Diagonal], None], view: Callable[[Diagonal], NamedLinop]
) -> None:
    A = diagonal()
    weight, made = A.weight, view(A)
    (expected,) = torch.autograd.grad(solve(made, Y).sum(), weight)
    x = solve(made, Y)
    change(A)
    try:
        (gradient,) = torch.autograd.grad(x.sum(), weight)
    except RuntimeError as error:
        assert re.search(OTHERS, str(error))
    else:
        assert change in (replace, load)  # what was made before keeps the weights of then
        torch.testing.assert_close(gradient, expected)


@SOLVERS
def test_weights_of_a_functional_call_are_gone_after_it_but_not_in_it(solve: Solver) -> None:
    module = Solve(solve)
    weight = (2 * module.A.weight.detach()).requires_grad_()
    x = functional_call(module, {"A.weight": weight}, (Y,))
    with pytest.raises(RuntimeError, match=OTHERS):
        x.sum().backward()
    inside = functional_call(module, {"A.weight": weight}, (Y, True))
    torch.testing.assert_close(inside, -Y / weight.detach() ** 2)


def test_the_steps_follow_the_weights_of_a_functional_call() -> None:
    module = Solve(lambda A, y: conjugate_gradients(A, y, gtol=1e-12, ltol=0))
    weight = (2 * module.A.weight.detach()).requires_grad_()
    functional_call(module, {"A.weight": weight}, (Y,)).sum().backward()
    torch.testing.assert_close(weight.grad, -Y / weight.detach() ** 2)


@pytest.mark.parametrize("solve", [lsqr, lsmr])
def test_changed_weights_of_a_given_adjoint_are_refused(solve: Any) -> None:
    A, adjoint = diagonal(), diagonal()
    x = solve(A, Y, adjoint=adjoint)
    replace(adjoint)
    with pytest.raises(RuntimeError, match=OTHERS):
        x.sum().backward()


def test_a_changed_preconditioner_is_refused() -> None:
    A, preconditioner = diagonal(), diagonal()
    x = conjugate_gradients(A, Y, preconditioner=preconditioner, implicit=True)
    replace(preconditioner)
    with pytest.raises(RuntimeError, match=r"conjugate_gradients: " + OTHERS):
        x.sum().backward()


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_a_written_matrix_of_a_bound_method_is_refused(layout: torch.layout) -> None:
    matrix = torch.diag(Y).to_sparse(layout=layout) if layout is not torch.strided else Y.diag()
    y = Y.clone().requires_grad_()
    x = conjugate_gradients(matrix.matmul, y, gtol=1e-12, ltol=0, implicit=True)
    x.sum().backward(retain_graph=True)
    torch.testing.assert_close(y.grad, 1 / Y)
    matrix.mul_(2)
    with pytest.raises(RuntimeError, match=OTHERS):
        x.sum().backward()


@SOLVERS
def test_unchanged_weights_give_their_gradient_again_and_again(solve: Solver) -> None:
    A = diagonal().to(torch.float32).to(torch.float64)
    x = solve(A, Y)
    for times in (1, 2):
        x.sum().backward(retain_graph=True)
        torch.testing.assert_close(A.weight.grad, -times * Y / A.weight.detach() ** 2)


def test_tied_and_batched_weights_give_their_gradient() -> None:
    A = diagonal()
    B = Diagonal(A.weight, ("N",))
    (gradient,) = torch.autograd.grad(implicit(A + B, Y).sum(), A.weight)
    torch.testing.assert_close(gradient, -Y / (2 * A.weight.detach() ** 2))
    matrices = torch.nn.Parameter(torch.eye(3, dtype=torch.float64).repeat(2, 1, 1))
    D = Dense(matrices, ("B", "N1", "N"), ("B", "N"), ("B", "N1"))
    y = torch.stack([Y, 2 * Y])
    x = conjugate_gradients(D, y, gtol=1e-12, ltol=0, batch_dims="B", implicit=True)
    (gradient,) = torch.autograd.grad(x.sum(), matrices)
    torch.testing.assert_close(gradient, -y[:, None, :].expand(2, 3, 3).contiguous())


def test_the_weights_of_a_solution_are_not_kept_by_it() -> None:
    A = diagonal()
    y = Y.clone().requires_grad_()
    A.requires_grad_(False)
    x = implicit(A, y)
    storage = StorageWeakRef(A.weight.untyped_storage())
    replace(A)
    assert storage.expired()
    assert x.requires_grad


def functions_of_y_and_of_weights(solve: Solver) -> list[Callable[[Tensor], Tensor]]:
    return [
        lambda y: solve(Diagonal(Y, ("N",)), y).square().sum(),
        lambda w: solve(Diagonal(w, ("N",)), Y).square().sum(),
    ]


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize("solve", [implicit, dense_lsqr, damped_lsmr, gmres, minres])
def test_other_derivatives_than_by_backward_are_refused(solve: Solver, records: bool) -> None:
    rule = "implicit gradients must be taken by torch.autograd.grad or backward"
    for function in functions_of_y_and_of_weights(solve):
        if records:
            with pytest.raises(RuntimeError, match=rule):
                torch.func.grad(function)(Y)
        if records or solve is not implicit:  # without gradients, it has the steps of the others
            with torch.set_grad_enabled(records), pytest.raises(RuntimeError, match=rule):
                torch.func.jvp(function, (Y,), (Y,))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("solve", [dense_lsqr, damped_lsmr, gmres, minres])
def test_a_solution_of_constants_may_be_used_in_transforms(solve: Solver) -> None:
    A = Diagonal(Y, ("N",))

    def function(y: Tensor) -> Tensor:
        return (y * solve(A, Y)).sum()

    x = solve(A, Y)
    assert torch.equal(torch.func.grad(function)(Y), x)
    assert torch.equal(torch.func.jvp(function, (Y,), (Y,))[1], (Y * x).sum())


def group_inverse(left: Tensor, right: Tensor) -> Tensor:
    """Return that of left @ right: its range is that of left. It is the pseudo-inverse if A^H = A.

    Ben-Israel and Greville, "Generalized inverses" (2003), section 4.4.
    """
    inner: Tensor = torch.linalg.inv(right @ left)
    return left @ inner @ inner @ right


@pytest.mark.parametrize("solve", [implicit, minres, gmres])
@example(rank=1, dtype=torch.float64, is_in_range=(False, False), seed=11199)
@given(
    rank=st.integers(1, 4),
    dtype=st.sampled_from([torch.float64, torch.complex128]),
    is_in_range=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**16),
)
def test_gradients_of_singular_systems_are_those_of_the_inverse_in_the_range_or_refused(
    solve: Any, rank: int, dtype: torch.dtype, is_in_range: tuple[bool, bool], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(2, 4, 4, dtype=dtype, generator=generator)
    left, other = torch.linalg.qr(basis).Q[:, :, :rank]
    right = (left if solve is not gmres else left + 0.3 * other).mH
    y, g = torch.randn(2, 4, dtype=dtype, generator=generator)
    y = left @ right @ y if is_in_range[0] else y
    g = right.mH @ left.mH @ g if is_in_range[1] else g
    weights = [x.detach().requires_grad_() for x in (left, right, y)]
    right = weights[1] if solve is gmres else weights[0].mH
    A = Dense(weights[0] @ right, ("M", "N"), ("N",), ("M",))
    options = {} if solve is implicit else {"tol": 1e-12}
    followed = weights if solve is gmres else weights[::2]

    def gradients() -> tuple[Tensor, ...]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = torch.vdot(g, solve(A, weights[2], **options)).real
        return torch.autograd.grad(result, followed)

    if rank == 4 or all(is_in_range):
        expected = torch.vdot(g, group_inverse(weights[0], right) @ weights[2]).real
        for one, other in zip(gradients(), torch.autograd.grad(expected, followed), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    else:
        refusal = "for a gradient, A x = y and A.H z = g must|p.H A p = "  # the steps may show it
        with pytest.raises((RuntimeError, ValueError), match=refusal):
            gradients()
