"""Proximal maps of SPORCO, pyunlocbox and SCICO, and ours in solvers of PyProximal."""

from typing import Any

import numpy as np
import pytest
import torch

from linops_solvers import from_proximal, l0, soft_threshold, to_pyproximal

SHAPE = (3, 4)
Z = np.random.default_rng(0).standard_normal(SHAPE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", ["l0", "l1", "l2"])
def test_sporco(name: str, dtype: torch.dtype) -> None:
    library: Any = pytest.importorskip("sporco.prox")
    value, prox = (getattr(library, f"{kind}_{name}") for kind in ("norm", "prox"))
    result = from_proximal(value, prox, SHAPE, dtype=dtype)
    z = torch.from_numpy(Z).to(dtype) * (1 + 2j if dtype.is_complex else 1)
    np.testing.assert_allclose(result(z, 0.7).numpy(), prox(z.numpy(), 0.7), rtol=1e-12)
    assert result(z.requires_grad_(), 0.7).requires_grad  # it is ours


def test_pyunlocbox() -> None:
    library: Any = pytest.importorskip("pyunlocbox.functions")
    norm = library.norm_l1(lambda_=2.0)
    result = from_proximal(norm.eval, norm.prox, SHAPE)
    z = torch.from_numpy(Z)
    np.testing.assert_allclose(result(z, 0.7).numpy(), norm.prox(Z, 0.7), rtol=1e-12, atol=1e-14)
    refused = pytest.raises(ValueError, match=r"prox must minimise .*; pass by_value=True")
    with pytest.warns(np.exceptions.ComplexWarning), refused:  # it drops the imaginary part
        from_proximal(norm.eval, norm.prox, SHAPE, dtype=torch.complex128)
    variation = library.norm_tv(verbosity="NONE")
    with pytest.raises(ValueError, match="prox must minimise"):  # ten steps of an iteration
        from_proximal(variation.eval, variation.prox, SHAPE)


def test_scico() -> None:
    functional: Any = pytest.importorskip("scico.functional")
    numpy: Any = pytest.importorskip("scico.numpy")
    counting = functional.L0Norm()

    def value(x: Any) -> Any:
        return float(counting(numpy.array(x)))

    def prox(z: Any, step: float) -> Any:
        return np.asarray(counting.prox(numpy.array(z), step))

    with pytest.raises(ValueError, match=r"prox must minimise .*; pass by_value=True"):
        from_proximal(value, prox, SHAPE)
    with pytest.warns(UserWarning, match="the map of its value is used"):
        result = from_proximal(value, prox, SHAPE, by_value=True)
    z = torch.from_numpy(Z)
    assert torch.equal(result(z, 0.7), l0()(z, 0.7))


def test_ours_in_a_solver_of_pyproximal() -> None:
    pyproximal: Any = pytest.importorskip("pyproximal")
    solve = pyproximal.optimization.primal.ProximalGradient
    y = Z.reshape(-1)
    result = solve(pyproximal.L2(b=y), to_pyproximal(soft_threshold(0.5), SHAPE), 0 * y, tau=0.5)
    expected = np.sign(y) * np.maximum(abs(y) - 0.5, 0)
    np.testing.assert_allclose(np.asarray(result), expected, atol=1e-2)
