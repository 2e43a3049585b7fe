"""Solvers that are ended after a step, and go on from a file to the same bits."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core import Dense
from linops_solvers import (
    Step,
    StopReason,
    admm,
    box,
    fista,
    l2_ball,
    l2_squared,
    lsmr,
    lsqr,
    no_penalty,
    pdhg,
    power_method,
    proximal_gradient,
    soft_threshold,
    split_bregman,
)

Solver = Callable[..., Tensor]
Proximal = Callable[[Tensor, float], Tensor]
LIMIT = 6


def over_least_squares(A: Dense, y: Tensor, x0: Tensor, threshold: float, **options: Any) -> Tensor:
    """Solve the problem of the others by PDHG, of which f is the square of the residual."""
    f, g = l2_squared(1.0, center=y), soft_threshold(threshold)
    return pdhg(A, f, g, x0, p0=0.1 * y, **options)


def with_rows(A: Dense, y: Tensor, x0: Tensor, threshold: float, **options: Any) -> Tensor:
    """Solve by ADMM with an L, and weights that change."""
    return admm(A, y, soft_threshold(threshold), 2 * A, x0, rho=30.0, **options)


def eigenvector(
    A: Dense, y: Tensor, v: Tensor, t: float, max_num_iters: int = 50, **options: Any
) -> Tensor:
    """Return that of a random matrix, and the eigenvalue, by the power method."""
    square = Dense(A.weight[:5], ("M", "N"), ("N",), ("M",))
    return torch.cat([x.flatten() for x in power_method(square, v, max_num_iters, **options)])


SOLVERS: dict[str, tuple[Solver, dict[str, Any]]] = {
    "lsqr": (lambda A, y, x0, t, **o: lsqr(A, y, x0, **o), {"atol": 0.0, "btol": 0.0}),
    "lsmr": (
        lambda A, y, x0, t, **o: lsmr(A, y, damp=t, **o),
        {"atol": 0.0, "btol": 0.0, "conlim": 0.0},
    ),
    "fista": (lambda A, y, x0, t, **o: fista(A, y, soft_threshold(t), x0, **o), {"tol": 0.0}),
    "proximal_gradient": (
        lambda A, y, x0, t, **o: proximal_gradient(A, y, soft_threshold(t), **o),
        {"tol": 1e-3},
    ),
    "admm": (with_rows, {"eps_rel": 1e-6}),
    "split_bregman": (
        lambda A, y, x0, t, **o: split_bregman(A, y, soft_threshold(t), **o),
        {"eps_rel": 0.0},
    ),
    "pdhg": (over_least_squares, {"eps_rel": 0.0}),
    "power_method": (eigenvector, {"tol": 0.0}),
}


class Ended(BaseException):
    """The end of a process, in place of a real one."""


def problem(dtype: torch.dtype, scale: float, seed: int) -> tuple[Dense, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight, y, x0 = (
        torch.randn(shape, dtype=dtype, generator=generator) for shape in [(7, 5), (7,), (5,)]
    )
    return Dense(weight * scale, ("M", "N"), ("N",), ("M",)), y * scale, x0


@pytest.mark.parametrize("name", SOLVERS)
def test_values_are_told_also_if_nobody_watched(name: str, tmp_path: Path) -> None:
    solver, options = SOLVERS[name]
    A, y, x0 = problem(torch.float64, 1.0, seed=0)
    wanted, loaded = list[Step](), list[Step]()
    file = {"checkpoint": tmp_path / "x.pt"}
    for more in ({"callback": wanted.append}, file, {"callback": loaded.append, **file}):
        solver(A, y, x0, 0.1, max_num_iters=LIMIT, **options, **more)
    (step,) = loaded
    assert (step.iteration, step.values) == (wanted[-1].iteration, wanted[-1].values)


class Products(TorchDispatchMode):
    """Counts products with matrices."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ in ("mv", "mm", "bmm", "addmv", "addmm")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", SOLVERS)
def test_steps_cost_no_more_with_a_file(name: str, tmp_path: Path) -> None:
    solver, options = SOLVERS[name]
    A, y, x0 = problem(torch.float64, 1.0, seed=0)
    more = []
    for n_steps in (2, LIMIT):
        counts = []
        for file in ({}, {"checkpoint": tmp_path / f"{n_steps}.pt", "checkpoint_every": 2}):
            with Products() as products:  # type: ignore[no-untyped-call]  # of torch
                solver(A, y, x0, 0.1, max_num_iters=n_steps, **options, **file)
            counts.append(products.count)
        assert counts[0] >= n_steps
        more.append(counts[1] - counts[0])
    assert more[0] == more[1]  # those of the fingerprint


@pytest.mark.parametrize("name", SOLVERS)
@settings(max_examples=settings().max_examples // 3)
@given(
    st.sampled_from([torch.float32, torch.float64, torch.complex128, torch.float16]),
    st.sampled_from([1.0, 1e-3, 1e3]),
    st.integers(0, 2**16),
    st.integers(1, 3),
    st.integers(1, LIMIT),
)
def test_it_goes_on_to_the_same_bits(
    name: str, dtype: torch.dtype, scale: float, seed: int, every: int, end: int
) -> None:
    """Callbacks are told the same of the step that was loaded, and of the later ones."""
    solver, options = SOLVERS[name]
    A, y, x0 = problem(dtype, 1.0 if dtype is torch.float16 else scale, seed)
    results: list[Step] = []

    def solve(**more: Any) -> Tensor:
        return solver(A, y, x0, 0.1, max_num_iters=LIMIT, **options, **more)

    def end_there(step: Step) -> None:
        if step.iteration == end:
            raise Ended

    with tempfile.TemporaryDirectory() as folder:
        files = {"checkpoint": Path(folder) / "x.pt", "checkpoint_every": every}
        wanted: list[Step] = []
        x = solve(callback=wanted.append)
        try:
            solve(**files, callback=end_there)
        except Ended:
            pass
        assert torch.equal(solve(**files, callback=results.append), x)
        first = results[0].iteration
        assert first >= end - end % every or first == wanted[-1].iteration
        for one, other in zip(results, wanted[-len(results) :], strict=True):
            assert torch.equal(one.x, other.x)
            assert (one.iteration, one.values, one.reasons) == (
                other.iteration,
                other.values,
                other.reasons,
            )
        again: list[Step] = []
        assert torch.equal(solve(**files, callback=again.append), x)
        assert [step.iteration for step in again] == [wanted[-1].iteration]
        assert isinstance(again[0].reason, StopReason)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_file_of_another_problem_is_refused(name: str, tmp_path: Path) -> None:
    solver, options = SOLVERS[name]
    A, y, x0 = problem(torch.float64, 1.0, 0)
    files = {"checkpoint": tmp_path / "x.pt", "max_num_iters": 3}
    x = solver(A, y, x0, 0.1, **files, **options)
    other = Dense(A.weight + 1e-6, ("M", "N"), ("N",), ("M",))
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("differs in [AK]", (other, y, x0, 0.1), {}),
        ("differs in max_(num_)?iters: 4", (A, y, x0, 0.1), {"max_num_iters": 4}),
    ]
    if name != "power_method":
        cases.append(("differs in (y|p0)", (A, y + 1e-6, x0, 0.1), {}))
    if name not in ("lsqr", "power_method"):
        what = "damp" if name == "lsmr" else "the proximal map"
        cases.append((f"differs in {what}", (A, y, x0, 0.11), {}))
    if name in ("lsqr", "fista", "admm", "pdhg", "power_method"):
        cases.append(("differs in (x0|v_init)", (A, y, x0 + 1e-6, 0.1), {}))
    for match, arguments, more in cases:
        with pytest.raises(ValueError, match=match):
            solver(*arguments, **{**files, **options, **more})
    assert torch.equal(solver(A, y, x0, 0.1, **files, **options), x)


def penalised_by_pdhg(A: Dense, y: Tensor, g: Proximal, **options: Any) -> Tensor:
    return pdhg(A, l2_squared(1.0, center=y), g, torch.zeros(5), **options)


@pytest.mark.parametrize("solver", [fista, proximal_gradient, admm, penalised_by_pdhg])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (soft_threshold(20.0), soft_threshold(21.0)),
        (soft_threshold(1e-3), soft_threshold(1.1e-3)),
        (box(0.0, 10.0), box(0.0, 11.0)),
        (l2_ball(100.0), l2_ball(101.0)),
    ],
)
def test_maps_that_differ_at_some_scale_only(
    solver: Callable[..., Tensor], first: Proximal, second: Proximal, tmp_path: Path
) -> None:
    """All of them give 0, or what they are given, for some random vector."""
    A, y, _ = problem(torch.float32, 1.0, 0)
    files = {"checkpoint": tmp_path / "x.pt", "max_num_iters": 3}
    solver(A, y, first, **files)
    with pytest.raises(ValueError, match="differs in the proximal map"):
        solver(A, y, second, **files)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_another_problem_is_refused_in_any_unit(scale: float, tmp_path: Path) -> None:
    """Also beyond the range of single precision."""
    A, y, _ = problem(torch.float64, 1.0, 0)
    files: Any = {"checkpoint": tmp_path / "x.pt", "max_num_iters": 3}
    x = lsqr(A, y * scale, **files)
    assert torch.equal(lsqr(A, y * scale, **files), x)
    with pytest.raises(ValueError, match="differs in y"):
        lsqr(A, y.flip(0) * scale, **files)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """One bit of a number: torch reads the file without an error."""
    A, y, _ = problem(torch.float64, 1.0, 0)
    file = tmp_path / "x.pt"
    x = fista(A, y, no_penalty(), max_num_iters=3, checkpoint=file)
    content = bytearray(file.read_bytes())
    content[content.find(x.numpy().tobytes()) + 6] ^= 8
    file.write_bytes(content)
    torch.load(file)
    with pytest.raises(
        ValueError, match=r"x\.pt must be a checkpoint of fista, got a file that cannot"
    ):
        fista(A, y, no_penalty(), max_num_iters=3, checkpoint=file)


@pytest.mark.parametrize("name", SOLVERS)
def test_arguments_that_are_refused(name: str, tmp_path: Path) -> None:
    solver, options = SOLVERS[name]
    A, y, x0 = problem(torch.float64, 1.0, 0)
    with pytest.raises(TypeError, match=": checkpoint must be the path of a file"):
        solver(A, y, x0, 0.1, checkpoint=3, **options)
    with pytest.raises(ValueError, match="checkpoint_every must be"):
        solver(A, y, x0, 0.1, checkpoint=tmp_path / "x.pt", checkpoint_every=0, **options)


@pytest.mark.parametrize("name", ["fista", "admm", "pdhg", "power_method"])
def test_gradients_through_the_steps_are_refused(name: str, tmp_path: Path) -> None:
    solver, options = SOLVERS[name]
    A, y, x0 = problem(torch.float64, 1.0, 0)
    y.requires_grad_()
    x0.requires_grad_(name == "power_method")
    with pytest.raises(ValueError, match="if gradients flow through the steps"):
        solver(A, y, x0, 0.1, checkpoint=tmp_path / "x.pt", **options)


def test_gradients_of_the_solution_do_not_need_the_file(tmp_path: Path) -> None:
    A, y, _ = problem(torch.float64, 1.0, 0)
    y.requires_grad_()
    x = lsqr(A, y, atol=0.0, btol=0.0, checkpoint=tmp_path / "x.pt")
    (result,) = torch.autograd.grad(x.sum(), y)
    (wanted,) = torch.autograd.grad(lsqr(A, y, atol=0.0, btol=0.0).sum(), y)
    torch.testing.assert_close(result, wanted)
