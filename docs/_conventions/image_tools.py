"""Programs for images and convex problems, each guessed before the run."""

import tempfile
from pathlib import Path

import numpy as np
from table import row

SECTION = "Guessed first, then run"


@row(
    "Files",
    "simpleitk",
    guess="a complex image is read as it was written, or refused",
    here="NIfTI (`read_nifti`) or NRRD; or `torch.view_as_complex` of the two components",
)
def simpleitk_complex() -> str:
    import SimpleITK as sitk

    image = sitk.GetImageFromArray(np.array([[1 + 2j, 3], [4, 5j]], np.complex64))
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("nii", "nrrd", "mha", "vtk"):
            name = str(Path(folder) / f"image.{kind}")
            sitk.WriteImage(image, name)
            found = sitk.ReadImage(name)
            kept.append("complex" in found.GetPixelIDTypeAsString())
            assert found.GetNumberOfComponentsPerPixel() == 2 - kept[-1]
    assert kept == [True, True, False, False], kept
    return "NIfTI and NRRD keep it; .mha and .vtk are read as real images with two components"


@row(
    "Wavelets",
    "mahotas",
    guess="`daubechies(x, 'D4')` is orthonormal, as its `haar` is, and `idaubechies` inverts it",
    here="`Wavelet`, which keeps energy at borders, too",
)
def mahotas_wavelets() -> str:
    import mahotas

    inside, x = np.zeros((32, 32)), np.random.default_rng(0).standard_normal((32, 32))
    inside[12:20, 12:20] = x[12:20, 12:20]
    energy = (mahotas.daubechies(inside, "D4") ** 2).sum() / (inside**2).sum()
    back = mahotas.idaubechies(mahotas.daubechies(inside, "D4"), "D4")
    at_borders = np.abs(mahotas.idaubechies(mahotas.daubechies(x, "D4"), "D4") - x).max()
    assert np.allclose((mahotas.haar(x) ** 2).sum(), (x**2).sum())
    assert abs(energy - 4) < 1e-5 and np.allclose(back, inside, atol=1e-5)
    assert at_borders > 0.5, at_borders
    return (
        "it has four times the energy in two dimensions, and the inverse is right only away from "
        f"the border, where it is off by {at_borders:.2g} for normal numbers"
    )


@row(
    SECTION,
    "mahotas",
    guess="`convolve` convolves",
    here="`Convolution` convolves; flip the kernel for mahotas",
)
def mahotas_convolve() -> str:
    import mahotas

    point, kernel = np.zeros((7, 7)), np.zeros((3, 3))
    point[3, 3], kernel[1, 2] = 1, 5
    assert np.argwhere(mahotas.convolve(point, kernel)).tolist() == [[3, 2]]
    return "it correlates: the kernel's entry to the right of its middle moves a point to the left"


@row(
    SECTION,
    "cvxpy",
    guess="`norm(X, 1)` of a matrix is the sum of all moduli, as `torch.norm(X, 1)`",
    here="`soft_threshold` belongs to `cvxpy.norm1`",
)
def cvxpy_norm() -> str:
    import cvxpy

    matrix = np.array([[1, -2], [3, 4.0]])
    assert cvxpy.norm(matrix, 1).value == 6 and cvxpy.norm1(matrix).value == 10
    return "the largest sum of a column: 6 of (1, -2; 3, 4); `norm1` is 10"


@row(
    SECTION,
    "cvxpy",
    guess="`tv` of an image, which is isotropic, has each difference",
    here="`Gradient(..., boundary='replicate')` with `group_soft_threshold` has each difference",
)
def cvxpy_tv() -> str:
    import cvxpy

    corner, line = np.zeros((4, 4)), np.zeros((4, 4))
    corner[3, 3] = line[3] = 5
    assert (cvxpy.tv(corner).value, cvxpy.tv(line).value) == (0, 15)
    return (
        "differences along the last row and column are left out: an image whose last pixel alone "
        "is 5 has 0, one whose last row of 4 is 5 has 15"
    )


@row(
    SECTION,
    "kornia",
    guess="`laplacian(x, 3)` is the Laplacian: 2 for the square of the column",
    here="`FiniteDifference` twice, or `Convolution` with the kernel that you want",
)
def kornia_laplacian() -> str:
    import torch
    from kornia.filters import laplacian, spatial_gradient

    square = torch.arange(9.0).square().expand(9, 9)[None, None]
    plain, scaled = (laplacian(square, 3, normalized=on)[0, 0, 4, 4] for on in (False, True))
    assert (plain, scaled) == (6, 0.375)
    assert spatial_gradient(square, order=2)[0, 0, 0, 4, 4] == 2
    return (
        "3/8, and 6 with `normalized=False`: the eight neighbours less eight times the middle, "
        "divided by 16; `spatial_gradient(x, order=2)` has 2"
    )


@row(
    SECTION,
    "scikit-image",
    guess="`wiener` and `richardson_lucy` have one middle of a kernel of even size",
    here="`Convolution(kernel, offset=)` says which entry is the middle, and `A.H` has the same",
)
def even_kernels() -> str:
    from scipy.signal import fftconvolve
    from skimage.restoration import richardson_lucy, wiener

    window = np.hanning(8)[1:-1]
    kernel = np.outer(window, window) / window.sum() ** 2
    places = np.indices((33, 33))
    blob = np.exp(-((places - 16) ** 2).sum(0) / 4.5)
    blurred = fftconvolve(blob, kernel, "same")
    seen = [
        float((image * places[0]).sum() / image.sum())
        for image in (
            blurred,
            wiener(blurred, kernel, 1e-3, clip=False),
            richardson_lucy(blurred, kernel, num_iter=100, clip=False),
        )
    ]
    assert np.allclose(seen, [16.5, 17, 16], atol=0.01), seen
    return (
        f"a blob at 16, which `fftconvolve(mode='same')` with 6 x 6 points moves to {seen[0]:.1f}, "
        f"comes back at {seen[1]:.0f} and at {seen[2]:.0f}"
    )
