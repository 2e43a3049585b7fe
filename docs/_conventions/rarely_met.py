"""Simulators and solvers that few combine with ours; each guess was written down before the run."""

import numpy as np
import torch
from table import row

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "mrzerocore",
    guess="gradient moments (`gradm`) are in 1/m, and positions in m",
    here="locations in cycles per field of view: those of `Sequence.get_kspace()` for this phantom",
)
def moments() -> str:
    import MRzeroCore as mr0

    sequence = mr0.Sequence()
    repetition = sequence.new_rep(3)
    repetition.pulse.usage, repetition.pulse.angle = mr0.PulseUsage.EXCIT, torch.tensor(np.pi / 2)
    repetition.event_time[:] = 1e-3
    repetition.gradm[:, 0] = 1
    repetition.adc_usage[:] = 1

    def turned(*others: float) -> float:
        """Return the cycles of a step for a voxel at 0.25 m, with empty ones beside it."""
        n, long = 1 + len(others), [1e3] * (1 + len(others))
        density = [1.0, *[1e-9] * len(others)]
        positions = [[x, 0.0, 0.0] for x in (0.25, *others)]
        voxels = mr0.CustomVoxelPhantom(
            positions, density, long, long, long, [0.0] * n, voxel_size=1e-3, voxel_shape="box"
        ).build()
        graph = mr0.compute_graph(sequence, voxels, 200, 1e-4)
        signal = mr0.execute_graph(graph, sequence, voxels, print_progress=False).flatten()
        return abs((signal[1] / signal[0]).angle().item() / (2 * np.pi))

    assert np.allclose([turned(-0.25), turned(-0.5), turned()], [1 / 2, 1 / 3, 0], atol=1e-3)
    return (
        "cycles per extent of the phantom: a voxel at 0.25 m turns by 1/2 cycle if another voxel "
        "is at -0.25 m, by 1/3 if it is at -0.5 m, and not at all if there is no other"
    )


@row(
    SECTION,
    "torchoptics",
    guess="`a.inner(b)` is the sum of conj(a) b; `profiles.gaussian` is 1 in the middle",
    here="`inner(a, b)` conjugates the first, and has no areas",
)
def fields() -> str:
    from torchoptics import Field
    from torchoptics.profiles import gaussian

    options = {"wavelength": 1.0, "spacing": 0.5}
    a, b = Field(torch.full((2, 2), 1j), **options), Field(torch.full((2, 2), 2 + 0j), **options)
    assert abs(a.inner(b).item() - 2j) < 1e-6
    profile = gaussian((64, 64), 4.0, **options)
    assert abs(profile.abs().square().sum() / 4 - 1) < 1e-6 and profile.abs().max() < 0.2
    return (
        "the sum of a conj(b) times the area of a pixel: 2i for a = i, b = 2 and an area of 1; "
        "the sum of squares of the profile, times that area, is 1"
    )


@row(
    SECTION,
    "monai",
    guess="the real part of `HilbertTransform()(x)` is x",
    here="double frequencies 1 to N / 2 - 1 with `FFT`, and keep 0 and N / 2",
)
def analytic_signal() -> str:
    from monai.networks.layers import HilbertTransform

    gaps = []
    for n in (8, 9):
        x = torch.arange(n).remainder(2).float()[None, None]
        gaps.append((HilbertTransform()(x).real - x).abs().max().item())
    assert gaps[1] < 1e-6 < 0.1 < gaps[0]
    return (
        f"for odd lengths; 0, 1, 0, 1, .. of even length is off by {gaps[0]:.1f}: the frequency "
        "N / 2 is not kept as it is"
    )


@row(
    SECTION,
    "monai",
    guess="`GaussianFilter(1, sigma)` is `scipy.ndimage.gaussian_filter1d`",
    here="`Convolution` with the kernel that you want",
)
def gaussian_filter() -> str:
    from monai.networks.layers import GaussianFilter
    from scipy.ndimage import gaussian_filter1d

    x = torch.zeros(1, 1, 33)
    x[..., 16] = 1
    middles = GaussianFilter(1, 0.5)(x)[0, 0, 16].item(), gaussian_filter1d(x[0, 0], 0.5)[16]
    border = GaussianFilter(1, 2.0)(torch.ones(1, 1, 33))[0, 0, 0].item()
    assert np.allclose([*middles, border], [0.683, 0.786, 0.6], atol=2e-3)
    return (
        "a Gaussian averaged over each pixel: the middle of sigma 0.5 is 0.68, SciPy's 0.79; "
        "and zeros beyond the border, where a constant falls to 0.6"
    )


@row(
    SECTION,
    "monai",
    guess="`Fourier.inv_shift_fourier` inverts `Fourier.shift_fourier`",
    here="`torch.fft.ifft2(torch.fft.ifftshift(k, dim=(-2, -1)))`",
)
def shifted_fourier() -> str:
    from monai.transforms.utils import Fourier

    z = torch.randn(1, 5, 7, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    back = Fourier.inv_shift_fourier(Fourier.shift_fourier(z, 2), 2)
    assert torch.allclose(back, z.real, atol=1e-6)
    return "of a complex image it returns the real part"


@row(
    SECTION,
    "nufftax",
    guess="`nufft2d1(x, y, c, (6, 8))` has 6 modes of x along axis 0, as in finufft",
    here="`NUFFT`: axes in the order of the coordinates",
)
def modes() -> str:
    import jax.numpy as jnp
    import nufftax

    generator = np.random.default_rng(0)
    x, y = generator.uniform(-np.pi, np.pi, (2, 20))
    c = generator.standard_normal(20) + 0j
    along = [np.exp(1j * np.outer(np.arange(n) - n // 2, p)) for n, p in ((6, x), (8, y))]
    found = np.asarray(nufftax.nufft2d1(*map(jnp.asarray, (x, y, c)), (6, 8)))
    assert np.allclose(found, (along[0] * c @ along[1].T).T, atol=1e-3)
    return "the result is (8, 6): the coordinates run backwards along its axes"


@row(
    SECTION,
    "pygsp",
    guess="`filters.Heat(graph, t)` is exp(-t L)",
    here="pass `t * graph.lmax` for exp(-t L)",
)
def heat() -> str:
    from pygsp import filters, graphs

    graph = graphs.Graph(np.array([[0, 1.0, 1], [1, 0, 1], [1, 1, 0]]))  # eigenvalues 0, 3, 3
    graph.compute_fourier_basis()
    found = filters.Heat(graph, 1.5).evaluate(graph.e).ravel()
    assert np.allclose(found, np.exp([0, -1.5, -1.5]))
    return "exp(-t L / the largest eigenvalue): exp(-1.5) for an eigenvalue of 3 and t = 1.5"


@row(
    SECTION,
    "spgl1",
    guess="`spg_bpdn(A, b, sigma)` scales with b and sigma",
    here="divide by the norm of the data first; or `pdhg` with `soft_threshold` and `l2_ball`",
)
def scaled_data() -> str:
    from spgl1 import spg_bpdn

    generator = np.random.default_rng(0)
    A, x = generator.standard_normal((12, 30)), np.zeros(30)
    x[[3, 7]] = 2, -1
    found = [spg_bpdn(A, scale * (A @ x), 0.2 * scale) for scale in (1, 1e-6)]
    assert abs(np.linalg.norm(A @ found[0][0] - A @ x) - 0.2) < 1e-3
    assert not found[1][0].any() and found[1][3]["stat"] == found[0][3]["stat"] == 1
    return "of data scaled by 1e-6 it is 0, with the same status as the solution of the others"


@row(
    SECTION,
    "matfree",
    guess="`svd_partial(bidiag(n))` has the singular values of complex matrices, or refuses them",
    here="`svd(A, k)`, also for complex operators",
)
def complex_bidiagonalisation() -> str:
    import jax.numpy as jnp
    from matfree.decomp import bidiag
    from matfree.eig import svd_partial

    generator = np.random.default_rng(0)
    parts = generator.standard_normal((2, 6, 6))
    largest = []
    for matrix in (parts[0] + 0j, parts[0] + 1j * parts[1]):
        A, start = jnp.asarray(matrix), jnp.asarray(matrix[0] / np.linalg.norm(matrix[0]))
        s = svd_partial(bidiag(6))(lambda v, A=A: A @ v, start)[1]
        largest.append(float(s.max() / np.linalg.svd(matrix)[1].max()))
    assert abs(largest[0] - 1) < 1e-3 and abs(largest[1] - 1) > 0.02
    return (
        f"the largest is {largest[1]:.2f} of the right one; its documentation excludes complex "
        "matrices, but there is no error, only a warning that a cast drops imaginary parts"
    )


@row(
    SECTION,
    "proxop",
    guess="the map `prox(x, gamma)` of `FairPotential` and `AbsValue` is that of their values",
    here="`from_proximal(f, f.prox, shape)` refuses the first, and the second for complex numbers",
)
def fair_potential() -> str:
    import proxop

    f, x, gamma = proxop.FairPotential(), np.array([-0.4]), 0.5
    found = f.prox(x, gamma).item()
    grid = np.linspace(-2, 2, 40001)
    objective = gamma * np.array([float(f(np.array([u]))) for u in grid]) + (grid - x) ** 2 / 2
    best = grid[objective.argmin()]
    shrunk = proxop.AbsValue().prox(np.array([3 + 4j]), 1.0).item()
    assert abs(found - best) > 0.1 and shrunk == 2 + 4j
    return (
        f"`FairPotential` maps -0.4 to {found:.2f} for gamma = 0.5, where {best:.2f} has the "
        "smallest objective; `AbsValue` shrinks 3+4j to 2+4j, whose real part alone is smaller"
    )


@row(
    SECTION,
    "scico",
    guess="`NonNegativeIndicator().prox` refuses complex numbers, as its value does",
    here="`box(0, None)` refuses them; take `z.real` for images that must be real",
)
def non_negative() -> str:
    from scico import functional
    from scico import numpy as snp

    found = functional.NonNegativeIndicator().prox(snp.array([1 + 2j, -1 + 2j, 2j]))
    assert np.asarray(found).tolist() == [1 + 2j, 0, 2j]
    return "it keeps 1+2j and 2j and makes 0 of -1+2j: the larger of z and 0 in the order of NumPy"
