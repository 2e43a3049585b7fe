"""All solvers: on other devices, with other default devices, and what they say of themselves."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import linops_solvers
from linops_core import FFT, Dense, Diagonal
from linops_solvers import (
    Record,
    Step,
    admm,
    conjugate_gradients,
    douglas_rachford,
    estimate_diagonal,
    estimate_trace,
    fista,
    gmres,
    huber,
    irls,
    l1_ball,
    l2_ball,
    lbfgs,
    lsmr,
    lsqr,
    minres,
    mlem,
    omp,
    operator_norm,
    osem,
    pdhg,
    polynomial_preconditioner,
    power_method,
    proximal_gradient,
    richardson_lucy,
    soft_threshold,
    split_bregman,
    svd,
)

Run = Callable[[Tensor, Tensor, Any], Any]


def linop(matrix: Tensor) -> Dense:
    return Dense.from_einstr(matrix, "MN,N->M")


def batched(matrix: Tensor, y: Tensor, options: Any) -> Tensor:
    A = Dense(matrix, ("M", "N"), ("B", "N"), ("B", "M"))
    x = torch.stack([y, torch.zeros_like(y)])
    return conjugate_gradients(A.N, A.H(x), gtol=1e-5, batch_dims="B", **options)


def preconditioned(matrix: Tensor, y: Tensor, options: Any) -> Tensor:
    A = linop(matrix)
    P = polynomial_preconditioner(A.N, 3, "l_2", 0.0, 100.0)
    return conjugate_gradients(A.N, A.H(y), gtol=1e-5, ltol=0, preconditioner=P, **options)


RUNS: dict[str, Run] = {
    "conjugate_gradients": batched,
    "preconditioned": preconditioned,
    "lsqr": lambda m, y, o: lsqr(linop(m), y, **o),
    "lsmr": lambda m, y, o: lsmr(linop(m), y, **o),
    "power_method": lambda m, y, o: power_method(linop(m).N, m[0].clone(), **o),
    "operator_norm": lambda m, y, o: operator_norm(linop(m), **o),
    "fista": lambda m, y, o: fista(linop(m), y, soft_threshold(0.1), **o),
    "pdhg": lambda m, y, o: pdhg(linop(m), l2_ball(0.1, y), soft_threshold(), 0 * m[0], **o),
    "admm": lambda m, y, o: admm(linop(m), y, soft_threshold(0.1), **o),
    "split_bregman": lambda m, y, o: split_bregman(linop(m), y, soft_threshold(0.1), **o),
    "proximal_gradient": lambda m, y, o: proximal_gradient(linop(m), y, l1_ball(0.5), **o),
    "douglas_rachford": lambda m, y, o: douglas_rachford(huber(), l2_ball(0.1, y), 0 * y, **o),
    "gmres": lambda m, y, o: gmres(linop(m).N, m[0].clone(), **o),
    "minres": lambda m, y, o: minres(linop(m).N, m[0].clone(), **o),
    "mlem": lambda m, y, o: mlem(linop(m.abs()), y.abs(), **o),
    "osem": lambda m, y, o: osem(linop(m.abs()), y.abs(), subsets={"M": 2}, **o),
    "richardson_lucy": lambda m, y, o: richardson_lucy(m.abs(), y.abs()[:3], **o),
    "omp": lambda m, y, o: omp(linop(m), y, 2, **o),
    "irls": lambda m, y, o: irls(linop(m), y, **o),
    "svd": lambda m, y, o: svd(linop(m), 2, **o).S,
    "estimate_trace": lambda m, y, o: estimate_trace(linop(m).N, 8, method="hutch++", **o),
    "estimate_diagonal": lambda m, y, o: estimate_diagonal(linop(m).N, 5, **o),
}
ALL = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6, 4, dtype=torch.complex64, generator=generator)
    return matrix, torch.randn(6, dtype=torch.complex64, generator=generator)


def test_every_solver_is_run() -> None:
    functions = {name: getattr(linops_solvers, name) for name in vars(linops_solvers)["__all__"]}
    solvers = {
        name
        for name, value in functions.items()
        if inspect.isfunction(value) and "progress" in inspect.signature(value).parameters
    }
    assert solvers - {"lbfgs"} <= {*RUNS}, "add it to RUNS"  # has no operator: test_lbfgs.py


def flat(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


@ALL
@pytest.mark.gpu
def test_a_gpu_gives_what_the_cpu_gives(run: Run) -> None:
    matrix, y = data()
    device = torch.accelerator.current_accelerator()
    assert device is not None
    here = flat(run(matrix, y, {}))
    there = flat(run(matrix.to(device), y.to(device), {"callback": Record()}))
    for one, other in zip(here, there, strict=True):
        assert other.device.type == device.type
        torch.testing.assert_close(other.cpu(), one, rtol=1e-3, atol=1e-3)


@ALL
def test_the_default_device_does_not_matter(run: Run) -> None:
    """Everything is on the device of what is given, so the results are the same bits."""
    matrix, y = data()
    here = flat(run(matrix, y, {}))
    with torch.device("meta"):
        there = flat(run(matrix, y, {"callback": Record()}))
    assert all(map(torch.equal, here, there))


@ALL
def test_a_bar_is_shown_when_asked_for(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(*data(), {})
    assert capsys.readouterr().err == ""
    run(*data(), {"tqdm_kwargs": {"desc": "solving"}})
    assert "solving" in capsys.readouterr().err


@ALL
def test_the_last_step_and_no_other_says_why_it_is_the_last(run: Run) -> None:
    seen: list[Step] = []
    record = Record()
    run(*data(), {"callback": seen.append})
    for step in seen:
        record(step)
    assert [step.reason is None for step in seen] == [True] * (len(seen) - 1) + [False]
    assert record.reason is seen[-1].reason and seen[-1].solver in str(record)
    assert [step.iteration for step in seen] == list(range(1, len(seen) + 1))


@ALL
def test_data_of_any_memory_layout_may_be_given(run: Run) -> None:
    """Strides of 0, conjugated views, every second element."""
    matrix, y = data()
    wanted = flat(run(matrix, y, {}))
    strided = torch.stack([matrix, matrix], dim=-1)[..., 0]
    result = flat(run(strided.conj().resolve_conj().conj(), torch.stack([y, y], 1)[:, 0], {}))
    for one, other in zip(result, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    ones = torch.ones(1, dtype=torch.complex64).expand(6)
    for one, other in zip(
        flat(run(matrix, ones, {})), flat(run(matrix, ones.clone(), {})), strict=True
    ):
        torch.testing.assert_close(one, other)


@ALL
def test_it_runs_in_inference_mode(run: Run) -> None:
    wanted = flat(run(*data(), {}))
    with torch.inference_mode():
        result = flat(run(*data(), {}))
    assert all(map(torch.equal, wanted, result))


@pytest.mark.parametrize("name", [*RUNS, "lbfgs"])
def test_within_vmap_an_error_says_what_to_do(name: str) -> None:
    matrix, y = (torch.stack([x, 2 * x]) for x in data())

    def run(matrix: Tensor, y: Tensor) -> Tensor:
        if name == "lbfgs":
            return lbfgs(lambda x: (matrix @ x - y).abs().square().sum(), 0 * matrix[0])
        return flat(RUNS[name](matrix, y, {}))[0]

    owner = {"preconditioned": "conjugate_gradients", "split_bregman": "admm"}.get(name, name)
    with pytest.raises(RuntimeError, match=rf"^{owner}: in torch.func.vmap, no .* in a loop, or"):
        torch.func.vmap(run)(matrix, y)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("no memory is left"),
        NotImplementedError("not for this dtype"),
        RuntimeError("shapes do not fit"),
    ],
)
def test_within_vmap_an_error_of_an_operator_stays_as_it_is(error: RuntimeError) -> None:
    def fails(x: Tensor) -> Tensor:
        raise error

    def run(y: Tensor) -> Tensor:
        return conjugate_gradients(fails, y, gtol=0, ltol=0)

    with pytest.raises(type(error)) as caught:
        torch.func.vmap(run)(torch.ones(2, 3))
    assert caught.value is error


def test_vectors_are_made_on_the_device_of_the_input() -> None:
    """Of a chain that is the device of the first operand that is on one."""
    here, there = Diagonal(torch.ones(2), ("N",)), Diagonal(torch.ones(2, device="meta"), ("N",))
    assert FFT(1).input_devices == ()
    assert (there @ FFT(1, grid_shapes=(("N",), ("N",))) @ here).input_devices == here.input_devices
    assert there.N.H.input_devices == (torch.device("meta"),)
    assert (here + there).input_devices == (torch.device("cpu"), torch.device("meta"))
    assert there.to_dense().device.type == "meta"
    assert here.to_dense(device="cpu").device.type == "cpu"
