"""Solvers take vectors of any layout, and real data of complex operators."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import Diagonal
from linops_solvers import (
    Record,
    StopReason,
    admm,
    conjugate_gradients,
    douglas_rachford,
    fista,
    gmres,
    irls,
    l2_squared,
    lbfgs,
    lsmr,
    lsqr,
    minres,
    no_penalty,
    omp,
    pdhg,
    proximal_gradient,
)

D = Diagonal(torch.linspace(1, 2, 12, dtype=torch.float64).reshape(4, 3), ("M", "N"))
SOLVERS: dict[str, Callable[[Tensor], Tensor]] = {
    "conjugate_gradients": lambda y: conjugate_gradients(D, y),
    "minres": lambda y: minres(D, y),
    "gmres": lambda y: gmres(D, y),
    "lsqr": lambda y: lsqr(D, y),
    "lsmr": lambda y: lsmr(D, y),
    "fista": lambda y: fista(D, y, no_penalty()),
    "proximal_gradient": lambda y: proximal_gradient(D, y, no_penalty()),
    "admm": lambda y: admm(D, y, no_penalty()),
    "pdhg": lambda y: pdhg(D, l2_squared(1.0, y), no_penalty(), y),
    "douglas_rachford": lambda y: douglas_rachford(l2_squared(1.0, y), no_penalty(), y),
    "irls": lambda y: irls(D, y),
    "omp": lambda y: omp(D, y, 12),
    "lbfgs": lambda y: lbfgs(lambda x: (D(x) - y).abs().square().sum(), y),
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda y: y.mT.contiguous().mT,
    "strided": lambda y: torch.stack([y, y], -1)[..., 0],
    "expanded": lambda y: y[:1].expand(4, 3),
    "conjugated": lambda y: y.conj(),
    "negated": lambda y: torch._neg_view(y),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_layout_of_a_vector_does_not_matter(name: str, layout: str, dtype: torch.dtype) -> None:
    y = torch.randn(4, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    given = LAYOUTS[layout](y)
    plain = torch.empty(4, 3, dtype=dtype).copy_(given)
    torch.testing.assert_close(SOLVERS[name](given), SOLVERS[name](plain))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_vector_may_have_no_entries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.empty(0, 3, dtype=torch.float64)
    monkeypatch.setitem(globals(), "D", Diagonal(y, ("M", "N")))
    assert SOLVERS[name](y).shape == (0, 3)


OF_COMPLEX: dict[str, Callable[..., Tensor]] = {
    "lsqr": lambda A, y, **o: lsqr(A, y, **o),
    "lsmr": lambda A, y, **o: lsmr(A, y, damp=0.5, **o),
    "fista": lambda A, y, **o: fista(A, y, l2_squared(0.1), **o),
    "proximal_gradient": lambda A, y, **o: proximal_gradient(A, y, l2_squared(0.1), **o),
}


@pytest.mark.parametrize("with_guess", [False, True])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_a_complex_operator_takes_real_data(name: str, with_guess: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(5, dtype=torch.complex128, generator=generator) + 3
    y = torch.randn(5, dtype=torch.float64, generator=generator)
    options: dict[str, Any] = {"x0": torch.ones_like(weights)} if with_guess else {}
    record = Record()
    given = [weights.requires_grad_(), y.requires_grad_()]
    A = Diagonal(weights, ("N",))
    x = OF_COMPLEX[name](A, y, callback=record, **options)
    assert record.reason in (StopReason.CONVERGED, StopReason.LEAST_SQUARES)
    expected = OF_COMPLEX[name](A, y + 0j, **options)
    torch.testing.assert_close(x, expected)
    for one, other in zip(
        torch.autograd.grad(x.abs().sum(), given),
        torch.autograd.grad(expected.abs().sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
