"""Every solver on vectors in shares: the same result as in one process, or a refusal."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import linops_solvers as alg
from linops_core import FFT, Dense, Diagonal, Identity, NamedLinop, Stack
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed.testing import Ranked

SIZES = {"B": 3, "M": 7, "L": 6, "N": 4}
Solve = Callable[[NamedLinop, Tensor, Tensor], Tensor]


def operator(seed: int) -> NamedLinop:
    """(B, N) -> (B, M), with independent columns."""
    draw = torch.Generator().manual_seed(seed)
    W = torch.randn(7, 6, dtype=torch.complex128, generator=draw)
    V = torch.randn(6, 4, dtype=torch.complex128, generator=draw)
    first = Dense(V, ("L", "N"), ("B", "N"), ("B", "L"))
    return Dense(W, ("M", "L"), ("B", "L"), ("B", "M")) @ first


def penalty() -> NamedLinop:
    """An operator of one process on (B, N), which acts on shares as on the whole."""
    return 2 * Identity(("B", "N"))


SOLVERS: dict[str, Solve] = {
    "lsqr": lambda A, x, y: alg.lsqr(A, y, atol=1e-10, btol=1e-10),
    "lsqr with damp and x0": lambda A, x, y: alg.lsqr(A, y, x, damp=0.5, atol=1e-10, btol=1e-10),
    "lsmr": lambda A, x, y: alg.lsmr(A, y, atol=1e-10, btol=1e-10),
    "lsqr of two": lambda A, x, y: alg.lsqr(
        [A, Identity(A.ishape)], [y, x], atol=1e-10, btol=1e-10
    ),
    "minres": lambda A, x, y: alg.minres(A.N + Identity(A.ishape), x, tol=1e-9),
    "gmres": lambda A, x, y: alg.gmres(A.N + 1j * Identity(A.ishape), x, tol=1e-9, restart=7),
    "fista": lambda A, x, y: alg.fista(A, y, alg.soft_threshold(0.3), tol=1e-5),
    "proximal_gradient": lambda A, x, y: alg.proximal_gradient(A, y, alg.l2_ball(0.5), tol=1e-5),
    "pdhg": lambda A, x, y: alg.pdhg(
        A, alg.l2_squared(1.0, y), alg.huber(), 0 * x, tau=0.02, sigma=0.02, max_num_iters=40
    ),
    "admm": lambda A, x, y: alg.admm(A, y, alg.soft_threshold(0.3), eps_abs=1e-5, max_num_iters=10),
    "admm with L": lambda A, x, y: alg.admm(
        A, y, alg.soft_threshold(0.3), penalty(), max_num_iters=10
    ),
    "irls": lambda A, x, y: alg.irls(A, y, damp=0.1, max_num_iters=3, epsilon=0.3),
    "omp": lambda A, x, y: alg.omp(A, y, 5),
    "polynomial": lambda A, x, y: alg.polynomial_preconditioner(A.N, 4, upper=300.0)(x),
    "preconditioned": lambda A, x, y: alg.conjugate_gradients(
        A.N + Identity(A.ishape),
        x,
        gtol=1e-10,
        ltol=0.0,
        max_num_iters=200,
        preconditioner=alg.polynomial_preconditioner(A.N + Identity(A.ishape), 2, upper=300.0),
    ),
}


def whole(A: NamedLinop, x: Tensor) -> Tensor:
    """Return an input of an operator, given the share of this rank."""
    back = A.H
    assert isinstance(back, DistributedLinop)
    return back.full_output(x)


def vectors(seed: int) -> tuple[Tensor, Tensor]:
    """Return an input and an output."""
    draw = torch.Generator().manual_seed(seed + 1)
    return tuple(torch.randn(3, n, dtype=torch.complex128, generator=draw) for n in (4, 7))  # type: ignore[return-value]  # of two


def made(ranks: Ranked, A: NamedLinop, dim: str) -> DistributedLinop:
    return distribute_linop(A, ranks.mesh(r=ranks.n_ranks), {dim: "r"}, sizes={"B": 3})


@pytest.mark.each_value
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dim", SIZES)
@settings(max_examples=1)
@given(seed=st.integers(0, 99))
def test_it_finds_what_one_process_finds(three: Ranked, name: str, dim: str, seed: int) -> None:
    solve, A = SOLVERS[name], operator(seed)
    x, y = vectors(seed)
    wanted = solve(A, x, y)

    def program(rank: int) -> None:
        D = made(three, A, dim)
        result = solve(D, D.local_input(x), D.local_output(y))
        torch.testing.assert_close(whole(D, result), wanted, rtol=1e-5, atol=1e-5)

    three.run(program)


@pytest.mark.parametrize("dim", ["B", "M", "N"])
def test_counts_in_shares(three: Ranked, dim: str) -> None:
    """By expectation maximisation: negative counts of one rank are refused on all of them."""
    draw = torch.Generator().manual_seed(0)
    W = torch.rand(7, 4, dtype=torch.float64, generator=draw)
    A = Dense(W, ("M", "N"), ("B", "N"), ("B", "M"))
    y = torch.poisson(20 * A(torch.rand(3, 4, dtype=torch.float64, generator=draw)), generator=draw)
    record = alg.Record()
    wanted = alg.mlem(A, y, max_num_iters=5, background=0.1, callback=record)
    both = alg.osem([A, 2 * A], [y, y], max_num_iters=5, background=0.1)

    def program(rank: int) -> None:
        D, seen = made(three, A, dim), alg.Record()
        mine = D.local_output(y)
        result = alg.mlem(D, mine, max_num_iters=5, background=0.1, callback=seen)
        torch.testing.assert_close(whole(D, result), wanted)
        assert seen.values["objective"][-1] == pytest.approx(record.values["objective"][-1])
        result = alg.osem([D, made(three, 2 * A, dim)], [mine, mine], None, 5, background=0.1)
        torch.testing.assert_close(whole(D, result), both)
        is_wrong = rank == 0 or dim == "N"  # where each rank has a copy of y
        with pytest.raises(ValueError, match="mlem: y must be at least 0"):
            alg.mlem(D, mine - 1e9 * is_wrong, max_num_iters=5)

    three.run(program)


# With x or y in shares; the thorough run has the dimensions of both and of neither, too.
@pytest.mark.parametrize(
    "dim", SIZES if settings.get_current_profile_name() == "thorough" else ("M", "N")
)
def test_numbers_of_an_operator(three: Ranked, dim: str) -> None:
    A = operator(5)
    matrix = A.to_dense({"B": 3})
    sizes = torch.linalg.svdvals(matrix)
    normal = matrix.mH @ matrix

    def program(rank: int) -> None:
        D = made(three, A, dim)
        torch.testing.assert_close(alg.operator_norm(D, tol=1e-10), sizes[0])
        U, S, V = alg.svd(D, 5, tol=1e-9)
        torch.testing.assert_close(S, sizes[:5])
        torch.testing.assert_close(D(V[0]), S[0] * U[0])
        left = torch.stack([D.full_output(row).flatten() for row in U])
        torch.testing.assert_close(left.conj() @ left.mT, torch.eye(5, dtype=torch.complex128))
        for method in ("hutchinson", "hutch++"):
            result = alg.estimate_trace(D.N, 36, method=method)
            assert abs(result.value - normal.trace()) <= 6 * result.standard_error + 1e-9
        diagonal = alg.estimate_diagonal(D.N, 20)
        apart = whole(D, diagonal.value).flatten() - normal.diagonal()
        assert (apart.abs() <= 6 * whole(D, diagonal.standard_error).flatten()).all()

    three.run(program)


@pytest.mark.parametrize("solver", [alg.lsqr, alg.lsmr])
@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_gradients_of_least_squares(two: Ranked, solver: Any, damp: float) -> None:
    A = operator(5)
    _, y = vectors(5)
    y.requires_grad_()
    (wanted,) = torch.autograd.grad(solver(A, y, damp=damp).abs().square().sum(), y)

    def program(rank: int) -> None:
        D = made(two, A, "N")  # x is in shares, y is not
        mine = y.detach().clone().requires_grad_()
        x = solver(D, mine, damp=damp)
        (result,) = torch.autograd.grad(x.abs().square().sum(), mine)
        torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-6)

    two.run(program)


def test_proximal_maps_along_axes_that_are_not_cut(two: Ranked) -> None:
    A, (_, y) = operator(5), vectors(5)
    F = FFT(1, batch_shape=("B",), grid_shapes=("N", "K"))
    maps = [
        alg.l1_ball(1.0, dim=-1),
        alg.in_basis(F, alg.group_soft_threshold(0.5, dim=1)),
        alg.in_basis(F, alg.soft_threshold(0.5)),
        alg.in_basis(F, alg.l2_ball(0.5)),
    ]
    for proximal in maps:
        wanted = alg.fista(A, y, proximal)

        def program(rank: int, proximal: alg.Proximal = proximal, wanted: Tensor = wanted) -> None:
            D = made(two, A, "B")
            torch.testing.assert_close(whole(D, alg.fista(D, D.local_output(y), proximal)), wanted)

        two.run(program)


def along(dim: int) -> Callable[[Tensor, float], Tensor]:
    return alg.group_soft_threshold(0.1, dim=dim)


@pytest.mark.parametrize(
    ("proximal", "match"),
    [
        (alg.l1_ball(1.0), "must not couple entries along B"),
        (alg.simplex(1.0), "must not couple entries along B"),
        (alg.nuclear_norm(), "must not couple entries along B"),
        (along(0), "must not couple entries along B"),
        (lambda z, step: z, "must be marked as separable"),
        (alg.in_basis(FFT(1), along(0)), "must not couple entries along B"),
        (alg.separable(alg.l1_ball(1.0)), "must not couple entries along B"),
        (alg.separable(lambda z, step: along(0)(z, step), dims=0), "must not couple entries along"),
    ],
)
def test_maps_that_need_all_of_a_vector_are_refused(two: Ranked, proximal: Any, match: str) -> None:
    A, (x, y) = operator(5), vectors(5)

    def program(rank: int) -> None:
        D = made(two, A, "B")
        mine = D.local_output(y)
        for solve in (alg.fista, alg.proximal_gradient, alg.admm):
            with pytest.raises(NotImplementedError, match=match):
                solve(D, mine, proximal)
        with pytest.raises(NotImplementedError, match=match):
            alg.pdhg(D, alg.l2_squared(1.0), proximal, D.local_input(x))
        alg.fista(D, mine, along(1), max_num_iters=2)
        alg.fista(D, mine, alg.separable(lambda z, step: z), max_num_iters=2)
        alg.fista(D, mine, alg.separable(lambda z, step: along(1)(z, step), dims=1), None, 2)

    two.run(program)


def test_an_operator_between_that_mixes_shares_is_refused(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = distribute_linop(Dense(torch.eye(4) + 0j, ("M", "N")), two.mesh(r=2), {"M": "r"})
        F = FFT(1, grid_shapes=(("M",), ("K",)))
        weights = Diagonal(torch.tensor([1.0, 2.0]), ("K",))
        G = FFT(1, grid_shapes=(("M",), ("M1",)))
        compositions: list[Callable[[], object]] = [
            lambda: F @ A,
            lambda: A.H @ F.H @ weights @ F @ A,
            lambda: A.normal(F.H @ weights @ F),
            lambda: A.H @ G.H,
        ]
        for composed in compositions:
            with pytest.raises(NotImplementedError, match="M must be a batch dimension"):
                composed()

    two.run(program)


def test_operators_over_ranks_may_stand_side_by_side(two: Ranked) -> None:
    W, x = torch.arange(16.0).reshape(4, 4), torch.ones(4)

    def program(rank: int) -> None:
        A = distribute_linop(Dense(W, ("M", "N")), two.mesh(r=2), {"M": "r"})
        D = Diagonal(torch.ones(2), ("M",))
        B = D @ Stack(A, 2 * A, odim_and_idx=("L", 0))
        mine = A.local_output(W @ x)
        torch.testing.assert_close(B(x), torch.stack([mine, 2 * mine]))
        with pytest.raises(NotImplementedError, match="must have whole vectors"):
            alg.lsqr(B, B(x))

    two.run(program)


def test_operators_that_mix_shares_are_refused(two: Ranked) -> None:
    A, (x, y) = operator(5), vectors(5)
    mixing = Dense(torch.ones(3, 3, dtype=x.dtype), ("P", "B"), ("B", "N"), ("P", "N"))

    def program(rank: int) -> None:
        D = made(two, A, "B")
        mine, right = D.local_output(y), [D.local_output(y), x]
        with pytest.raises(NotImplementedError, match="B must be a batch dimension"):
            alg.lsqr([D, mixing], right)
        with pytest.raises(NotImplementedError, match="B must be a batch dimension"):
            alg.admm(D, mine, alg.huber(), mixing)
        with pytest.raises(NotImplementedError, match="an operator must be a NamedLinop"):
            alg.lsqr([D, lambda x: x], right, adjoint=[D.H, lambda x: x])
        with pytest.raises(NotImplementedError, match="must have the same parts of x"):
            alg.lsqr([D, made(two, A, "M")], right)

    two.run(program)


@pytest.mark.parametrize(
    ("name", "dim", "wanted"),
    [
        ("lsqr", "N", [16]),  # two lengths
        ("lsqr", "M", [8]),
        ("lsqr", "B", [8, 16]),
        ("lsmr", "B", [8, 16]),
        ("fista", "N", [40]),  # three lengths, two inner products
        ("fista", "B", [40]),
        ("pdhg", "B", [48]),
        ("minres", "N", [40, 8]),
    ],
)
def test_what_a_step_adds_up(two: Ranked, name: str, dim: str, wanted: list[int]) -> None:
    """As few reductions as the method permits, of nothing but its numbers, in bytes."""
    steps: dict[str, Callable[[NamedLinop, Tensor, Tensor, int], Tensor]] = {
        "lsqr": lambda A, x, y, n: alg.lsqr(A, y, max_num_iters=n, atol=0, btol=0),
        "lsmr": lambda A, x, y, n: alg.lsmr(A, y, max_num_iters=n, atol=0, btol=0),
        "fista": lambda A, x, y, n: alg.fista(A, y, alg.huber(), max_num_iters=n, tol=0, step=1e-3),
        "pdhg": lambda A, x, y, n: alg.pdhg(
            A, alg.l2_squared(1.0, y), alg.huber(), x, n, eps_rel=0, tau=0.02, sigma=0.02
        ),
        "minres": lambda A, x, y, n: alg.minres(
            A.N + Identity(A.ishape), x, max_num_iters=n, tol=0
        ),
    }
    A, (x, y) = operator(5), vectors(5)

    def program(rank: int) -> None:
        D = made(two, A, dim)
        there, back = D.local_input(x), D.local_output(y)
        sent = []
        for n in (2, 3):
            D.ranks.log = []
            steps[name](D, there, back, n)
            sent.append([one.n_bytes for one in D.ranks.log if one.step == "inner products"])
        shorter, longer = sent
        n = len(longer) - len(shorter)  # those of the step; some solvers have more at the end
        of_steps = [
            longer[at : at + n]
            for at in range(len(shorter) + 1)
            if longer[:at] + longer[at + n :] == shorter
        ]
        assert wanted in of_steps, sent

    two.run(program)
