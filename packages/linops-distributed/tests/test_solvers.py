"""Solvers on operators over ranks: vectors that are sharded, with inner products over all ranks."""

import pytest
import torch

from linops_core import Dense, Diagonal, Identity
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed.testing import Ranked
from linops_solvers import (
    OperatorPair,
    Progress,
    Record,
    SolverSteps,
    Step,
    StopReason,
    conjugate_gradients,
    power_method,
)

GENERATOR = torch.Generator().manual_seed(3)
W = torch.randn(7, 3, dtype=torch.complex128, generator=GENERATOR)
V = torch.randn(3, 5, dtype=torch.complex128, generator=GENERATOR)
Y = torch.randn(7, dtype=torch.complex128, generator=GENERATOR)
M = W @ V


def made(ranks: Ranked, dim: str) -> DistributedLinop:
    A = Dense(W, ("M", "L"), ("L",), ("M",)) @ Dense(V, ("L", "N"), ("N",), ("L",))
    return distribute_linop(A, ranks.mesh(r=ranks.n_ranks), {dim: "r"})


@pytest.mark.parametrize("dim", ["M", "N", "L"])
@pytest.mark.parametrize("is_guessed", [False, True])
def test_conjugate_gradients(ranks: Ranked, dim: str, is_guessed: bool) -> None:
    wanted = torch.linalg.solve(M.mH @ M + torch.eye(5), M.mH @ Y)

    def program(rank: int) -> None:
        A = made(ranks, dim)
        B = A.H
        assert isinstance(B, DistributedLinop)
        y = B(A.local_output(Y))
        x0 = torch.ones_like(y) if is_guessed else None
        x = conjugate_gradients(A.N + Identity(A.ishape), y, x0, gtol=1e-10, ltol=0.0)
        torch.testing.assert_close(B.full_output(x), wanted, rtol=1e-6, atol=1e-8)

    ranks.run(program)


class Steepest(SolverSteps):
    """Gradient steps of a user, along each of which the residual is smallest."""

    def __init__(self, pair: OperatorPair, y: torch.Tensor) -> None:
        self._pair = pair
        self.residual = y
        self.x = torch.zeros_like(pair.adjoint(y))

    def step(self) -> tuple[dict[str, float], StopReason | None]:
        gradient = self._pair.adjoint(self.residual)
        image = self._pair.forward(gradient)
        length = (self._pair.input.norm(gradient) / self._pair.output.norm(image)) ** 2
        self.x, self.residual = self.x + length * gradient, self.residual - length * image
        size = self._pair.output.norm(self.residual).item()
        return {"residual": size}, StopReason.CONVERGED if size < 2.19 else None

    def result(self) -> torch.Tensor:
        return self.x


@pytest.mark.parametrize("dim", ["M", "N"])
def test_a_solver_of_a_user(ranks: Ranked, dim: str) -> None:
    """All ranks do the steps of one process, and stop in the same one."""
    alone = Record()
    pair = OperatorPair("steepest", Dense(M, ("M", "N"), ("N",), ("M",)), None, M.dtype)
    Progress("steepest", 99, {"callback": alone}).follow(Steepest(pair, Y))

    def program(rank: int) -> None:
        A, record = made(ranks, dim), Record()
        pair = OperatorPair("steepest", A, None, M.dtype)
        Progress("steepest", 99, {"callback": record}).follow(Steepest(pair, A.local_output(Y)))
        assert record.reason is alone.reason is StopReason.CONVERGED
        assert record.values["residual"] == pytest.approx(alone.values["residual"])

    ranks.run(program)


def test_a_step_adds_up_its_numbers_at_once(two: Ranked) -> None:
    """Two products and three lengths; and it is as exact as in one process."""
    spectrum = torch.linspace(1.0, 400.0, 60, dtype=torch.float64)
    linop = Diagonal(spectrum, ("N",))
    y = torch.randn(60, dtype=torch.complex128, generator=GENERATOR)
    options = {"gtol": 1e-9, "ltol": 0.0, "max_num_iters": 200}
    alone = Record()
    conjugate_gradients(linop, y, callback=alone, **options)  # type: ignore[arg-type]

    def program(rank: int) -> None:
        A = distribute_linop(linop, two.mesh(r=2), {"N": "r"})
        sums: list[list[int]] = [[]]
        record = Record()

        def note(step: Step) -> None:
            record(step)
            sums.append([sent.n_bytes for sent in A.ranks.log or ()])
            A.ranks.log = []

        right = A.local_output(y)
        x = conjugate_gradients(A, right, callback=note, **options)  # type: ignore[arg-type]
        assert all(step == [56] for step in sums[2:-1]), [
            (i, one) for i, one in enumerate(sums[2:-1]) if one != [56]
        ]
        assert record.reason is StopReason.CONVERGED
        assert abs(record.iterations - alone.iterations) <= 1
        residual = A.full_output(A(x)) - y
        assert residual.norm() <= 1e-9 * y.norm()

    two.run(program)


def test_where_vectors_are_whole_only_the_operator_adds_up(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = made(two, "M")
        x = torch.ones(5, dtype=torch.complex128)
        A.N(x)
        A.ranks.log = []
        conjugate_gradients(A.N + Identity(A.ishape), x, max_num_iters=3, gtol=0.0, ltol=0.0)
        assert {sent.step for sent in A.ranks.log} == {"the sum of the output"}

    two.run(program)


@pytest.mark.parametrize("dim", ["M", "N", "L"])
def test_power_method(ranks: Ranked, dim: str) -> None:
    wanted = torch.linalg.matrix_norm(M, 2) ** 2

    def program(rank: int) -> None:
        A = made(ranks, dim)
        x = A.local_input(torch.arange(1.0, 6).to(torch.complex128))
        _, result = power_method(A.N, x, max_iters=200, tol=1e-9)
        torch.testing.assert_close(result.real, wanted, rtol=1e-6, atol=0.0)

    ranks.run(program)


def test_implicit_gradients_of_a_solution(ranks: Ranked) -> None:
    y = Y.clone().requires_grad_()
    x = torch.linalg.solve(M.mH @ M + torch.eye(5), M.mH @ y)
    (wanted,) = torch.autograd.grad(x.abs().square().sum(), y)

    def program(rank: int) -> None:
        A = made(ranks, "N")
        mine = Y.clone().requires_grad_()
        right, normal = A.H(mine), A.N + Identity(A.ishape)
        options = {"gtol": 1e-11, "ltol": 0.0, "max_num_iters": 40}
        x = conjugate_gradients(normal, right, implicit=True, **options)  # type: ignore[arg-type]
        (result,) = torch.autograd.grad(x.abs().square().sum(), mine)
        torch.testing.assert_close(result, wanted, rtol=1e-5, atol=1e-7)
        if ranks.n_ranks > 1:
            with pytest.raises(NotImplementedError, match="must not flow through the steps"):
                conjugate_gradients(normal, A.H(mine))

    ranks.run(program)


def test_batches_of_systems_in_shares_are_refused(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = made(two, "N")
        x = A.local_input(torch.ones(5, dtype=torch.complex128))
        with pytest.raises(NotImplementedError, match="batch_dims must be 0"):
            conjugate_gradients(A.N, x, batch_dims=1)

    two.run(program)
