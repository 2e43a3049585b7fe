"""Proximal maps, norms, solvers and files."""

from typing import Any

import numpy as np
import torch
from table import row

PROXIMAL, SOLVERS, FILES = "Proximal maps", "Norms and solvers", "Files"


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


@row(
    FILES,
    "ismrmrd",
    guess="`matrix_size` has the order of the array",
    here="`read_ismrmrd` returns the order of the array",
)
def ismrmrd() -> str:
    import ismrmrd as library

    image = library.Image.from_array(np.zeros((2, 3, 4), np.float32))
    sizes = list(image.matrix_size)
    return f"of an array (2, 3, 4), `data` has {image.data.shape}, `matrix_size` {sizes}"


@row(
    FILES,
    "nibabel",
    guess="slope and intercept scale both parts of complex voxels",
    here="`read_nifti`, as nifti1.h says: both parts",
)
def nibabel() -> str:
    import io

    import nibabel as library

    header = library.Nifti1Header()
    header.set_data_dtype(np.complex64)
    header.set_data_shape((1, 1, 1))
    header["scl_slope"], header["scl_inter"] = 2, 3
    header["vox_offset"] = 352
    header["magic"] = b"n+1"
    content = header.binaryblock + b"\0" * 4 + np.array([1 + 1j], np.complex64).tobytes()
    image = library.Nifti1Image.from_stream(io.BytesIO(content))
    value = complex(np.asarray(image.dataobj).reshape(-1)[0])
    assert value == 5 + 2j, value
    return "the intercept is added to the real part: 1+1j with slope 2 and intercept 3 is 5+2j"
