"""
Radial MRI: a non-uniform Fourier transform and its normal operator
===================================================================

Spokes through the centre of k-space do not lie on a grid. ``NUFFT`` computes the samples of an
image there. A least-squares solver applies its normal operator many times. ``toeplitz=True`` makes
the normal operator a convolution, whose time does not depend on the number of samples.
"""

# %%
# The scan
# --------
# The object is a head of ellipses with eight coils around it. Its k-space is known in closed form,
# so the samples are not simulated with the operator that reconstructs them. There are 64 spokes,
# each rotated by the golden angle from the one before. Nyquist's criterion asks for 201 on this
# grid.

import time

import torch
from matplotlib import pyplot

import torchlinops as tl
from torchlinops.imaging import phantoms, trajectories

torch.manual_seed(0)
SIZE, SPOKES, READOUT, COILS = 128, 64, 256, 8
SIZES = (SIZE, SIZE)

locs = trajectories.radial_2d(SPOKES, READOUT, SIZE)
coils = phantoms.CoilSeries.around(COILS)
kspace = phantoms.shepp_logan_kspace(locs, SIZES, coils)
kspace += 0.02 * kspace.abs().mean() * torch.randn_like(kspace)

figure, places = pyplot.subplots(1, 2, figsize=(6.5, 3.2), layout="constrained")
places[0].plot(*locs[:8].permute(2, 1, 0).numpy(), linewidth=0.8)
places[0].set_title("the first 8 spokes")
places[0].set_aspect("equal")
places[1].imshow(kspace[0].abs().log10().T.numpy(), aspect="auto", cmap="gray")
places[1].set_title("samples of a coil, logarithmic")
places[1].set_xlabel("spoke")

# %%
# The operator
# ------------
# Locations are in cycles per field of view, from -N/2 to N/2. Their dimensions, ``Spoke`` and
# ``Readout``, replace the dimensions of the image in the output. ``tol`` is the largest error of an
# entry of the matrix.

F = tl.NUFFT(locs, SIZES, ("Spoke", "Readout"), batch_shape=("C",), tol=1e-3, toeplitz=True)
maps = coils.on_grid(SIZES)
S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
A = F @ S
print(A)

# %%
# One application of the normal operator
# --------------------------------------
# Without ``toeplitz=True``, the normal operator computes all samples and grids them again. With it,
# the first call makes a kernel of (2N)² numbers. All calls multiply a spectrum by this kernel. The
# difference is below ``tol``.

image = torch.randn(SIZES, dtype=torch.complex64)
there_and_back = A.H(A(image))
by_convolution = A.N(image)
difference = float((by_convolution - there_and_back).norm() / there_and_back.norm())
print(f"relative difference {difference:.1e}")
assert difference < 1e-3

# %%
# A picture by one adjoint, and by least squares
# ----------------------------------------------
# The centre of k-space is sampled far more densely than its edge. ``density_compensation`` finds a
# weight for each sample that makes up for this, so that the adjoint gives a picture. The picture
# has streaks, because spokes are missing. Conjugate gradients find the image that explains the
# samples of all coils.

density = tl.density_compensation(locs, SIZES)
D = tl.Diagonal.from_weight(density, ("Spoke", "Readout"), ("C", "Spoke", "Readout"))
gridded = (A.H @ D)(kspace)
scale = A.H(D(A(gridded)))
gridded *= torch.linalg.vecdot(scale.flatten(), gridded.flatten()) / scale.norm() ** 2

start = time.perf_counter()
found = tl.conjugate_gradients(A.N, A.H(kspace), max_num_iters=12, gtol=0, ltol=0)
print(f"12 iterations took {time.perf_counter() - start:.2f} s")

# %%
# Least squares may use the same weights. ``F.normal(D)`` puts them into the convolution kernel. An
# iteration then takes as long as before, and fewer iterations are needed.

weighted = tl.conjugate_gradients(
    (S.H @ F.normal(D) @ S), (A.H @ D)(kspace), max_num_iters=4, gtol=0, ltol=0
)

# %%
# Below each image is its difference from the drawn ellipses, five times as bright. The samples have
# a limited resolution, so all images differ from the ellipses at the edges.

head = phantoms.shepp_logan(SIZES)


def error(x: torch.Tensor) -> float:
    return float((x - head).norm() / head.norm())


pictures = {
    "adjoint, weighted": gridded,
    "4 iterations, weighted": weighted,
    "12 iterations": found,
}
figure, axes = pyplot.subplots(2, 3, figsize=(7.5, 5.4), layout="constrained")
tl.show(pictures, limits=(0, 0.5), upright=True, axes=axes[0])
differences = {f"error {error(x):.3f}, 5 x": x - head for x in pictures.values()}
tl.show(differences, limits=(0, 0.1), upright=True, axes=axes[1])

assert error(found) < error(gridded) and error(weighted) < error(gridded)

# %%
# The methods: J. A. Fessler and B. P. Sutton, IEEE Transactions on Signal Processing 51 (2003), for
# the transform; J. A. Fessler et al., the same journal, 53 (2005), for the normal operator;
# K. P. Pruessmann et al., Magnetic Resonance in Medicine 46 (2001), for the reconstruction;
# J. G. Pipe and P. Menon, the same journal, 41 (1999), for the weights.
