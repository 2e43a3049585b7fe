"""Libraries of tomography, holography and telescopes that few users meet."""

import numpy as np
import torch
from table import row


@row(
    "X-ray transform",
    "torchtomo",
    guess="`ParallelBeam(img_size=16, n_det=24)` has 24 detectors, as its documentation says",
    here="`ParallelBeam(-angles, N, (N, N))`, times 2 / N",
)
def torchtomo_detectors() -> str:
    from torchtomo import ParallelBeam

    x = torch.zeros(1, 1, 16, 16)
    x[0, 0, 2, 5] = 1
    angles = torch.tensor([0.0, torch.pi / 2])
    A = ParallelBeam(img_size=16, n_angles=2, n_det=24, angles=angles, circle=False)
    y = A.forward(x)[0, 0]
    assert A.n_det == 24 and y.shape == (2, 16), y.shape
    assert y.argmax(1).tolist() == [5, 13], y.argmax(1)
    assert torch.allclose(y.sum(1), torch.tensor(2 / 16), rtol=1e-3)
    return (
        "16, one for each column, without a warning; a pixel at row 2, column 5 of 16 is seen by "
        "detectors 5 and 13 = 15 - 2 for 0 and 90 degrees, and is 2 / 16 wide"
    )


@row(
    "Guessed first, then run",
    "pyholoscope",
    guess="`propagator(..., depth)` propagates forwards, and "
    '`precision="double"` makes it complex128',
    here="`FFT(2, centered=True)`, `Diagonal` of exp(+i k z) and the inverse, in the dtype of data",
)
def pyholoscope_direction() -> str:
    import pyholoscope

    n, dx, wavelength, z = 128, 4e-6, 5e-7, 5e-3
    x = (np.arange(n) - n // 2) * dx
    beam = np.exp(-(x[:, None] ** 2 + x**2) / 60e-6**2 + 2j * np.pi / wavelength * 0.01 * x)
    kernel = pyholoscope.propagator((n, n), wavelength, dx, z, precision="double")
    line = (abs(pyholoscope.refocus(beam, kernel)) ** 2).sum(0)
    moved = float((line * x).sum() / line.sum() / dx)
    assert abs(moved + 0.01 * z / dx) < 0.05, moved
    assert kernel.propagator.dtype == np.complex64
    return (
        f"backwards, as a hologram is focused: a beam at an angle of 0.01 moves by {moved:.1f} "
        "pixels after 1250; complex64, unless `use_numba=False`"
    )


@row(
    "Guessed first, then run",
    "hcipy",
    guess="`backward` of `FraunhoferPropagator` is the adjoint of `forward`",
    here="`inner` has no areas: multiply `backward` by those of the pupil and divide by those of "
    "the focal grid",
)
def hcipy_areas() -> str:
    import hcipy

    pupil = hcipy.make_pupil_grid(64, 1.0)
    focal = hcipy.make_focal_grid(4, 8, spatial_resolution=1.0)
    propagator = hcipy.FraunhoferPropagator(pupil, focal)
    rng = np.random.default_rng(0)

    def field(grid: object, size: int) -> object:
        values = rng.standard_normal(size) + 1j * rng.standard_normal(size)
        return hcipy.Wavefront(hcipy.Field(values, grid))

    x, y = field(pupil, pupil.size), field(focal, focal.size)
    x_there, y_here = propagator.forward(x), propagator.backward(y)
    plain = np.vdot(x_there.electric_field, y.electric_field)
    plain /= np.vdot(x.electric_field, y_here.electric_field)
    areas = np.asarray(pupil.weights).flat[0] / np.asarray(focal.weights).flat[0]
    assert np.allclose(plain, areas), (plain, areas)
    return (
        f"for inner products with the areas of pixels; that of plain ones is {areas:.4f} times it, "
        "the area in the pupil by that in the focal plane"
    )
