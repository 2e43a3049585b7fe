"""X-ray transforms."""

import math
import tempfile

import numpy as np
import torch
from table import row

SECTION = "X-ray transform"


def pixel() -> np.ndarray:
    x = np.zeros((16, 16), np.float32)
    x[2, 5] = 1
    return x


@row(
    SECTION,
    "scikit-image",
    guess="rows are angles, and the middle is (N - 1) / 2",
    here="`interop.from_skimage(theta, shape, circle)`",
)
def skimage() -> str:
    from skimage.transform import radon

    found = radon(pixel(), [0.0, 90.0], circle=True)
    assert found.shape == (16, 2)
    first, second = (int(at) - 8 for at in found.argmax(0))
    return (
        f"a pixel at row 2, column 5 of 16 is at {first} and +{second} of the middle, N // 2, for "
        "0 and 90 degrees; detectors come before angles"
    )


@row(
    SECTION,
    "scikit-image",
    guess="`iradon(filter_name=None)` is the adjoint of `radon`",
    here="`A.H`; `fbp` for the inverse",
)
def skimage_adjoint() -> str:
    from skimage.transform import iradon, radon

    rng = np.random.default_rng(0)
    theta, ratios = np.arange(0, 180, 20.0), []
    for _ in range(2):
        x, y = rng.random((16, 16)), rng.random((16, 9))
        rows, columns = np.ogrid[:16, :16]
        x[(rows - 8) ** 2 + (columns - 8) ** 2 > 49] = 0
        back = iradon(y, theta, filter_name=None, circle=True)
        ratios.append((radon(x, theta) * y).sum() / (x * back).sum())
    factor = np.mean(ratios)
    assert abs(factor - 2 * len(theta) / math.pi) < 0.1 * factor, ratios
    assert abs(ratios[0] - ratios[1]) > 1e-6, ratios
    return "it is pi / (2 A) of it for A angles, and only about: inner products differ by per cents"


@row(
    SECTION,
    "astra-toolbox",
    guess="angle 0 looks along the columns, and 90 degrees along the rows from the top",
    here="`interop.from_astra(projector)`",
)
def astra() -> str:
    import astra as library

    rays = library.create_proj_geom("parallel", 1.0, 16, np.array([0, math.pi / 2]))
    projector = library.create_projector("linear", rays, library.create_vol_geom(16, 16))
    _, found = library.create_sino(pixel(), projector)
    library.clear()
    first, second = map(int, found.argmax(1))
    assert (first, second) == (5, 13)
    return "a pixel at row 2, column 5 of 16 is seen by detectors 5 and 13 = 15 - 2: y points up"


@row(
    SECTION,
    "odl",
    guess="`adjoint` is the transpose",
    here="`interop.from_odl(operator, ...)`, whose adjoint is that of plain sums",
)
def odl() -> str:
    import odl as library
    from odl.applications.tomo import RayTransform, parallel_beam_geometry

    space = library.uniform_discr([-1, -1], [1, 1], [16, 16], dtype="float32")
    rays = RayTransform(space, parallel_beam_geometry(space, 5, 13), impl="astra_cpu")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(space.shape).astype(np.float32)
    y = rng.standard_normal(rays.range.shape).astype(np.float32)
    back = rays.adjoint(rays.range.element(y)).asarray()
    factor = (x * back).sum() / (rays(space.element(x)).asarray() * y).sum()
    weights = rays.range.cell_volume / space.cell_volume
    assert abs(factor / weights - 1) < 1e-4, (factor, weights)
    return (
        "it is the transpose times the weight of the range by that of the domain, which are the "
        f"volumes of their cells: {factor:.3g} times for 5 angles and 13 detectors of [-1, 1]^2"
    )


@row(
    SECTION,
    "deepinv",
    guess="line integrals in pixels",
    here="`interop.from_deepinv(physics, ...)`, or `ParallelBeam`",
)
def deepinv() -> str:
    import deepinv as library

    x = torch.ones(1, 1, 16, 16)
    values = []
    for normalize in (None, False):
        options = {} if normalize is None else {"normalize": normalize}
        physics = library.physics.Tomography(angles=8, img_width=16, circle=False, **options)
        values.append(float(physics.A(x).max()))
    assert values[0] < 0.5 * values[1], values
    return "scaled to norm 1 by default; angles in degrees, detectors before angles"


@row(
    SECTION,
    "pylops",
    guess="`CT2D` has its own geometry, with the first spoke along the rows",
    here="`interop.from_pylops(operator, ...)`, or `from_astra` with the same angles",
)
def pylops() -> str:
    import pylops as library

    operator = library.medical.CT2D((16, 16), 1.0, 16, np.array([0, math.pi / 2]), engine="cpu")
    first, second = map(int, (operator @ pixel()).argmax(1))
    assert (first, second) == (5, 13)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in (operator.dims, operator.dimsd))
    assert np.isclose(np.vdot(operator @ x, y), np.vdot(x, operator.H @ y), rtol=1e-4)
    return (
        "it is ASTRA's: detectors 5 and 13 = 15 - 2 for row 2, column 5; angles in radians; matched"
    )


@row(
    SECTION,
    "algotom",
    guess="`fbp_reconstruction` of `make_sinogram` with the centre (N - 1) / 2 is the image",
    here="`ParallelBeam` and `fbp` share the middle, (N - 1) / 2; "
    "`interop.from_skimage(theta, shape, circle)` has N // 2",
)
def algotom() -> str:
    from algotom.rec.reconstruction import fbp_reconstruction
    from algotom.util.simulation import make_sinogram

    n, angles = 32, np.linspace(0, np.pi, 90, endpoint=False)
    image = np.zeros((n, n))
    image[10, 14] = 1
    places = np.arange(n)
    seen = [float(places @ each / each.sum()) for each in make_sinogram(image, angles)[[0, 45]]]
    assert np.allclose(seen, [14, 22], atol=1e-3), seen  # 16 + (16 - 10)
    found = {}
    for centre in ((n - 1) / 2, n / 2):
        sinogram = make_sinogram(image, angles)
        options = {"angles": angles, "apply_log": False, "gpu": False, "ratio": None}
        weights = fbp_reconstruction(sinogram, centre, **options).clip(0) ** 2
        rows, columns = weights.sum(1), weights.sum(0)
        found[centre] = (float(places @ rows / rows.sum()), float(places @ columns / columns.sum()))
    assert np.allclose(found[16.0], (9.5, 13.5), atol=0.05), found
    assert found[15.5][0] < 9.2, found
    return (
        "the sinogram turns about N // 2, and the image has its middle at (N - 1) / 2: for even N, "
        "the centre N // 2 gives the image, half a pixel up and to the left; angles in radians; "
        "`fbp_reconstruction` takes the logarithm unless `apply_log=False`"
    )


@row(
    SECTION,
    "svmbir",
    guess="angle 0 has a detector for each column, as in scikit-image",
    here="`ParallelBeam(-angles, N, (N, N))`; profiles of pixels differ by about 2 %",
)
def svmbir() -> str:
    import svmbir as library

    seen = []
    with tempfile.TemporaryDirectory() as folder:
        for angle in (0.0, math.pi / 2):
            found = library.project(
                pixel()[None], np.array([angle]), 16, verbose=0, svmbir_lib_path=folder
            )
            seen.append(int(found[0, 0].argmax()))
    assert seen == [2, 15 - 5], seen
    return (
        "one for each row: a pixel at row 2, column 5 of 16 is seen by detectors 2 and 10 = 15 - 5 "
        "for angles of 0 and pi / 2"
    )
