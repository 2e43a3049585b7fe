"""Libraries that few combine with ours, each with a guess that was written down before the run."""

import numpy as np
import torch
from table import row

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "xarray",
    guess="the weighted variance of complex data is real, as `var` is",
    here="`x.var(0)` of torch is real; weights: `(w * (x - mean).abs().square()).sum() / w.sum()`",
)
def weighted_variance() -> str:
    import xarray

    z = xarray.DataArray(np.array([1j, -1j, 2j, -2j]), dims="t")
    found = z.weighted(xarray.ones_like(z.real)).var().item()
    assert found == -2.5 and z.var().item() == 2.5
    return "it is complex, of squares without a modulus: -2.5 where `var` is 2.5"


@row(
    SECTION,
    "sigpy",
    guess="`FiniteDifference` has zeros beyond the border",
    here='`FiniteDifference(dim, size, "backward", "circular")`',
)
def sigpy_differences() -> str:
    import sigpy

    found = sigpy.linop.FiniteDifference((4,))(np.array([1.0, 2, 4, 8]))[0]
    assert found.tolist() == [-7, 1, 2, 4]
    return "it is circular and backward: 1, 2, 4, 8 give -7, 1, 2, 4"


@row(
    SECTION,
    "sigpy",
    guess="`ConjugateGradient(tol=)` is relative to b",
    here="`conjugate_gradients(gtol=)`, which is relative",
)
def sigpy_cg() -> str:
    import sigpy

    found = []
    for scale in (1, 1e-8):
        x = np.zeros(3)
        D, b = np.array([1.0, 2, 3]), scale * np.array([1.0, 2, 3])
        solver = sigpy.alg.ConjugateGradient(lambda v, D=D: D * v, b, x, tol=1e-6)
        while not solver.done():
            solver.update()
        found.append(solver.x / scale)
    assert np.allclose(found[0], 1) and not found[1].any()
    return "it is absolute: for data scaled by 1e-8 it returns 0"


@row(
    SECTION,
    "sigpy",
    guess="`mri.radial(coord_shape, img_shape, golden=False)`: spokes of 8 points from -4 to 3",
    here="`trajectories.radial_2d`: readouts from -N / 2",
)
def sigpy_radial() -> str:
    from sigpy import mri

    found = mri.radial((2, 4, 2), (8, 8), golden=False)[0]
    assert np.allclose(found[:, 0], 0) and np.allclose(found[:, 1], range(4))
    return "half spokes: 4 points of 8 pixels are 0, 1, 2, 3, along the second coordinate"


@row(
    SECTION,
    "pyfaust",
    guess="`dft(8)` is numpy.fft.fft",
    here='`FFT(1)`, or `FFT(1, norm="backward")` without a scale',
)
def faust_dft() -> str:
    import pyfaust

    assert np.allclose(pyfaust.dft(8).toarray(), np.fft.fft(np.eye(8)) / np.sqrt(8))
    return "it is unitary by default (`normed=True`), and so is the Hadamard transform"


@row(
    SECTION,
    "pyfaust",
    guess="`dct(8)`, which is normed by default, is orthogonal",
    here="`DCT`, which is",
)
def faust_dct() -> str:
    import pyfaust

    D = pyfaust.dct(8).toarray()
    assert np.allclose(np.linalg.norm(D, axis=0), 1)
    rows = np.linalg.norm(D, axis=1)
    return (
        f"its columns have norm 1, its rows {rows[0]:.3g} and {rows[1]:.3g}: the inverse "
        "is not the transpose"
    )


@row(
    SECTION,
    "pyxu",
    guess="`SquaredL2Norm` is half of the square",
    here="`l2_squared(weight)` is weight / 2 times the square",
)
def pyxu_square() -> str:
    import pyxu.operator as operators

    f, x = operators.SquaredL2Norm(2), np.array([3.0, 3.0])
    assert float(f(x)[0]) == 18 and np.allclose(f.prox(x, 1.0), 1)
    return "it is the square: 18 of (3, 3), and its proximal map divides by 1 + 2 t"


@row(
    SECTION,
    "pyxu",
    guess="`Gradient` is 0 at the end of a line",
    here='`Gradient`, whose default is the same; 0 with `boundary="replicate"`',
)
def pyxu_gradient() -> str:
    import pyxu.operator as operators

    found = operators.Gradient((4,))(np.array([1.0, 2, 4, 8])).ravel()
    assert np.allclose(found, [1, 2, 4, -8])
    return "forward, with 0 beyond the end: 1, 2, 4, 8 give 1, 2, 4, -8"


@row(
    SECTION,
    "pyxu",
    guess="`Stencil(kernel)` convolves",
    here="`Convolution` convolves; flip a stencil first",
)
def pyxu_stencil() -> str:
    import pyxu.operator as operators

    x, kernel = np.array([1.0, 2, 4, 8]), np.array([1.0, 2, 3])
    found = operators.Stencil((4,), kernel=kernel, center=(1,))(x)
    assert np.allclose(found, np.correlate(x, kernel, "same"))
    return "it correlates; `Convolve` convolves"


@row(
    SECTION,
    "scico",
    guess="`functional.SquaredL2Norm` and `loss.SquaredL2Loss` have the same factor",
    here="`l2_squared(weight)`: weight 2 and weight 1",
)
def scico_square() -> str:
    from scico import functional, loss
    from scico import numpy as snp

    x = snp.array([1.0, 2.0])
    pair = float(functional.SquaredL2Norm()(x)), float(loss.SquaredL2Loss(y=0 * x)(x))
    poisson = float(loss.PoissonLoss(y=snp.ones(2))(x))
    assert pair == (5, 2.5) and np.isclose(poisson, (3 - np.log(2)) / 2), (pair, poisson)
    return "the first is the sum of squares, the second half of it; so is PoissonLoss a half"


@row(
    SECTION,
    "scico",
    guess="`FiniteDifference((4,))` has 4 values, the last one 0",
    here='`FiniteDifference(dim, size, "forward", ...)` keeps the length',
)
def scico_differences() -> str:
    from scico import linop
    from scico import numpy as snp

    found = np.asarray(linop.FiniteDifference((4,))(snp.array([1.0, 2, 4, 8])))
    assert found.shape == (1, 3)
    return "3 values, in an array (1, 3)"


@row(
    SECTION,
    "scico",
    guess="`CircularConvolve(h)` of an odd h has its middle in the middle",
    here='`Convolution(kernel, padding_mode="circular", offset=)`',
)
def scico_circular() -> str:
    from scico import linop
    from scico import numpy as snp

    C = linop.CircularConvolve(h=snp.array([0.0, 1, 0]), input_shape=(5,))
    found = int(np.argmax(np.asarray(C(snp.array([0.0, 0, 1, 0, 0])))))
    assert found == 3
    return "element 0 is the middle: h = (0, 1, 0) shifts by one"


@row(
    SECTION,
    "scico",
    guess="`L0Norm().prox(v, t)` keeps entries above sqrt(2 t)",
    here="`from_proximal(value, prox, shape)` refuses it; `by_value=True` returns `l0`",
)
def scico_l0() -> str:
    from scico import functional
    from scico import numpy as snp

    kept = np.asarray(functional.L0Norm().prox(snp.array([0.9, 1.2, 1.5]), 1.0))
    assert np.allclose(kept, [0, 1.2, 1.5])
    return "it keeps those above t: 1.2 for t = 1, where 0 has the smaller objective, 0.72 for 1"


@row(
    SECTION,
    "deepinv",
    guess="`WaveletPrior` is the 1-norm of all coefficients",
    here="`in_basis(W, soft_threshold(weights))`: weights of 0 for approximations",
)
def wavelet_prior() -> str:
    import deepinv

    prior = deepinv.optim.WaveletPrior(level=1, wv="haar")
    assert abs(float(prior(torch.ones(1, 1, 8, 8)))) < 1e-6
    return "approximations do not count: a constant image has 0"


@row(
    SECTION,
    "einx",
    guess='`einx.add("a, b", x, y)` has the shape a b',
    here="write the output; einx is not used here",
)
def einx_add() -> str:
    import einx

    x, y = np.ones(3), np.ones(4)
    assert einx.add("a, b -> a b", x, y).shape == (3, 4)
    try:
        einx.add("a, b", x, y)
    except Exception as error:
        return f"it raises {type(error).__name__}, unless one input has all axes"
    raise AssertionError("einx.add accepted inputs without an output")
