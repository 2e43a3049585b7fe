"""
Computed tomography from few views
==================================

Fewer views mean less dose and less time, but cause streaks in the image. This page reconstructs a
head from 32 views in three ways. ``examples/ct.py`` does the same from the command line, on several
devices.
"""

# %%
# The scan
# --------
# The line integrals of a head of ellipses are known in closed form, so they are not simulated with
# the operator that reconstructs them. Each pixel of the head is the mean of nine points.

import math

import torch
from matplotlib import pyplot

import torchlinops as tl
from torchlinops.imaging import Gradient, ParallelBeam, fbp, phantoms

torch.manual_seed(0)
SIZE, VIEWS, DETECTORS = 96, 32, 140

points = phantoms.shepp_logan([3 * SIZE, 3 * SIZE]).roll((1, 1), (0, 1))
head = points.view(SIZE, 3, SIZE, 3).mean((1, 3))

angles = torch.arange(VIEWS) * (math.pi / VIEWS)
sinogram = phantoms.shepp_logan_sinogram(angles, DETECTORS, SIZE)
sinogram += 0.005 * sinogram.max() * torch.randn_like(sinogram)

# %%
# The operator
# ------------
# ``ParallelBeam`` computes line integrals (the Radon transform) by Joseph's method. Its adjoint is
# the transpose of the same matrix. The operator can be cut along the angles, but not along the
# image.

A = ParallelBeam(angles, DETECTORS, SIZE)
print(A.signature)
print({str(dim): str(A.role(dim)) for dim in ("A", "D", "Nx")})
print(f"{VIEWS * DETECTORS} measurements of {SIZE * SIZE} pixels")

# %%
# Filtered back projection
# ------------------------
# This is a filter, then the adjoint. It is exact for infinitely many views. With few views it
# leaves streaks.

direct = fbp(sinogram, A, window="hann")

# %%
# Least squares
# -------------
# There are fewer measurements than pixels, so many images explain them. Conjugate gradients that
# start at zero find the one of least norm. They also fit the noise in the end, so they are stopped
# early.

errors: list[float] = []


def watch(step: tl.alg.Step) -> None:
    errors.append(error(step.x))


def error(x: torch.Tensor) -> float:
    return float((x - head).norm() / head.norm())


plain = tl.alg.conjugate_gradients(
    A.N, A.H(sinogram), max_num_iters=40, gtol=0, ltol=0, callback=watch
)
early = tl.alg.conjugate_gradients(A.N, A.H(sinogram), max_num_iters=8, gtol=0, ltol=0)

# %%
# Total variation
# ---------------
# Total variation prefers the image with the fewest edges [1]_:
#
# .. math:: \min_x \tfrac12 |A x - y|^2 + \lambda \sum_n |(G x)_n|_2 .
#
# ``G`` is the gradient, with its two components along the first axis.

G = Gradient(("Nx", "Ny"), (SIZE, SIZE), boundary="replicate")
weight = 0.001 * float(A.H(sinogram).max())
flat = tl.alg.admm(
    A,
    sinogram,
    tl.alg.group_soft_threshold(weight, dim=0),
    G,
    max_num_iters=25,
    rho=20,
    max_cg_iters=4,
)

# %%
# Side by side
# ------------
# Below each image is its difference from the head, five times as bright.


images = {"filtered back projection": direct, "least squares": early, "total variation": flat}
figure, axes = pyplot.subplots(2, 4, figsize=(10, 5.4), layout="constrained")
tl.show({"head": head} | images, limits=(0, 0.5), upright=True, axes=axes[0])
tl.show(sinogram, A.oshape, title="sinogram", aspect="auto", axes=axes[1, 0])
differences = {f"error {error(image):.3f}": (image - head).abs() for image in images.values()}
tl.show(differences, limits=(0, 0.1), upright=True, axes=axes[1, 1:])

assert error(flat) < 0.7 * error(direct)
assert error(flat) < 0.7 * error(early)

# %%
# When to stop
# ------------
# The error of least squares falls first. It rises again when noise is fitted. In practice the head
# is not known: stop when the residual is as large as the noise.

figure, place = pyplot.subplots(figsize=(5, 3), layout="constrained")
place.plot(range(1, len(errors) + 1), errors)
place.axhline(error(flat), color="gray", linestyle="--")
place.text(25, error(flat) + 0.02, "total variation", color="gray")
place.set(xlabel="step of conjugate gradients", ylabel="error")

# %%
# A part of the views at a time
# -----------------------------
# The same operator, cut along its views, works on eight views at a time. The result is the same, up
# to rounding.

tiled = tl.batched(A, {"A": 8})
back, again = A.H(sinogram), tiled.H(sinogram)
print(f"largest difference {float((again - back).abs().max() / back.abs().max()):.0e}")
assert torch.allclose(again, back, rtol=1e-4)
assert torch.allclose(tiled.N(back), A.N(back), rtol=1e-4)

# %%
# .. [1] E. Y. Sidky, X. Pan, "Image reconstruction in circular cone-beam computed tomography by
#    constrained, total-variation minimization", Physics in Medicine and Biology 53, 2008.
