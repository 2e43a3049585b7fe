"""Proximal maps, norms and solvers."""

from typing import Any

import numpy as np
import torch
from table import row

PROXIMAL, SOLVERS = "Proximal maps", "Norms and solvers"


@row(
    PROXIMAL,
    "pyproximal",
    guess="`Huber(alpha).prox` is linear up to alpha + t",
    here="`from_pyproximal` returns ours: `huber(1 / alpha, alpha)`",
)
def huber() -> str:
    import pyproximal

    source, z, step = pyproximal.Huber(1.0), np.array([1.5]), 1.0
    p = source.prox(z.copy(), step)
    best = min(np.linspace(-2, 2, 4001), key=lambda x: source(np.array([x])) + (x - z[0]) ** 2 / 2)
    assert abs(best - 0.75) < 1e-3
    return f"it changes at alpha: of 1.5 with alpha = t = 1 it is {p[0]:g}, and the minimum 0.75"


@row(
    PROXIMAL,
    "pyproximal",
    guess="`L0(sigma).prox` keeps entries above sqrt(2 t sigma)",
    here="`from_pyproximal` returns ours for sigma = 1, `l0`, and refuses other sigma",
)
def l0() -> str:
    import pyproximal

    kept = pyproximal.L0(1.0).prox(np.array([0.45, 0.55]), 0.5)
    assert (kept == [0, 0.55]).all()
    assert pyproximal.L0(3.0)(np.ones(5)) == 5
    return "it keeps those above t sigma; the value `L0(sigma)(x)` is without sigma"


@row(
    PROXIMAL,
    "pyproximal",
    guess="`prox` leaves its argument as it is",
    here="`from_pyproximal` passes copies",
)
def in_place() -> str:
    import pylops
    import pyproximal

    x = np.ones(3)
    source = pyproximal.L2(pylops.Identity(3), np.zeros(3), q=np.ones(3), niter=3)
    before = x.copy()
    source.prox(x, 1.0)
    plain = np.ones(3)
    pyproximal.L2(q=np.ones(3)).prox(plain, 1.0)
    changed = [not (a == before).all() for a in (x, plain)]
    assert any(changed), changed
    return "`L2` with `q` writes into it"


@row(
    PROXIMAL,
    "pyunlocbox",
    guess="`norm_tv(lambda_=5)` is 5 times `norm_tv()`",
    here="`pdhg` with `group_soft_threshold` of a `Gradient`",
)
def norm_tv() -> str:
    from pyunlocbox.functions import norm_tv as library

    x = np.random.default_rng(0).standard_normal((8, 8))
    pair = [library(lambda_=weight, verbosity="NONE") for weight in (1, 5)]
    assert pair[0].eval(x) == pair[1].eval(x)
    assert np.array_equal(pair[0].prox(x, 0.5), pair[1].prox(x, 0.5))
    return "`lambda_` changes neither its value nor its map"


@row(
    PROXIMAL,
    "pyunlocbox",
    guess="`norm_l1().prox` shrinks complex numbers and keeps their phase",
    here="`from_proximal(f.eval, f.prox, shape, dtype=torch.complex128)` refuses it",
)
def complex_l1() -> str:
    from pyunlocbox.functions import norm_l1

    f = norm_l1()
    assert np.isclose(f.eval(np.array([3 + 4j])), 5)
    found = f.prox(np.array([3 + 4j]), 1)[0]
    assert np.isclose(found, 2.4), found
    return "of 3+4j it is 2.4, without the imaginary part; the value is 5 (right: 2.4+3.2j)"


@row(
    PROXIMAL,
    "pyunlocbox",
    guess="`norm_l2(lambda_)` is a norm",
    here="`l2_squared(2 * lambda_)`; `group_soft_threshold` for the norm",
)
def norm_l2() -> str:
    from pyunlocbox.functions import norm_l2 as library

    f, x = library(lambda_=2.0), np.array([3.0])
    assert f.eval(x) == 18 and np.isclose(f.prox(x, 1)[0], 3 / 5)
    return "it is the sum of squares, without a half: 18 of 3 with lambda_ = 2"


@row(
    SOLVERS,
    "deepinv",
    guess="`compute_norm` is the norm",
    here="`operator_norm(A)`",
)
def compute_norm() -> str:
    import deepinv

    physics = deepinv.physics.LinearPhysics(A=lambda x: 3 * x, A_adjoint=lambda y: 3 * y)
    found = float(physics.compute_norm(torch.randn(1, 1, 4, 4), verbose=False))
    assert abs(found - 9) < 1e-3, found
    return f"of 3 times the identity it is {found:.3g}: the norm of A^H A"


@row(
    SOLVERS,
    "pylops",
    guess="`cg` stops at a residual relative to the data",
    here="`conjugate_gradients(gtol=)`, which is relative",
)
def cg() -> str:
    import pylops

    A = pylops.MatrixMult(np.diag([1.0, 2.0, 3.0]))
    y = np.array([1.0, 2.0, 3.0])
    found = [pylops.cg(A, scale * y, np.zeros(3), niter=10)[0] / scale for scale in (1, 1e-6)]
    assert np.allclose(found[0], 1) and not found[1].any(), found
    return "the tolerance is absolute: for data scaled by 1e-6 it returns 0"


@row(
    SOLVERS,
    "scipy",
    guess="`minres` takes Hermitian operators",
    here="`minres(A, y)`, also for complex Hermitian A",
)
def minres() -> str:
    from scipy.sparse.linalg import minres as solve

    A, y = np.array([[2, 1j], [-1j, 3]]), np.array([1.0, 1.0j])
    x, info = solve(A, y)
    assert info == 0 and not x.any(), x
    try:
        found: Any = solve(A, np.array([2.0, 1.0j]), check=True)
    except ValueError as error:
        return (
            f"with `check=True` it raises ({error}); without, inner products lack a conjugate: for "
            "y = (1, i), whose y.y is 0, it returns 0 as converged"
        )
    raise AssertionError(found)
