"""
SENSE: an MRI scan with several coils
=====================================

A scanner with C receiver coils measures the Fourier transform of an image, seen through the
sensitivity of each coil, at some points of a grid: :math:`A = M F S`. Because each coil sees the
image differently, fewer samples than pixels can be enough [1]_.
"""

# %%
# The object and the coils
# ------------------------
# A head made of ellipses, and eight coils around it. Both are simulated; ``examples/sense.py``
# does the same with a real volume and with files of yours.

import math

import torch
from matplotlib import pyplot

import torchlinops as tl

torch.manual_seed(0)
SIZE, COILS = 128, 8

axis = torch.linspace(-1, 1, SIZE)
y, x = torch.meshgrid(axis, axis, indexing="ij")
# Brightness, centre, half axes, angle: after Shepp and Logan (1974), with more contrast.
ELLIPSES = [
    (1.0, (0.0, 0.0), (0.69, 0.92), 0.0),
    (-0.8, (0.0, -0.0184), (0.6624, 0.874), 0.0),
    (-0.2, (0.22, 0.0), (0.11, 0.31), -0.31),
    (-0.2, (-0.22, 0.0), (0.16, 0.41), 0.31),
    (0.3, (0.0, 0.35), (0.21, 0.25), 0.0),
    (0.2, (0.0, 0.1), (0.046, 0.046), 0.0),
    (0.2, (0.0, -0.1), (0.046, 0.046), 0.0),
    (0.3, (-0.08, -0.605), (0.046, 0.03), 0.0),
    (0.3, (0.06, -0.605), (0.023, 0.046), 0.0),
]
image = torch.zeros(SIZE, SIZE, dtype=torch.complex64)
for brightness, (left, up), (a, b), angle in ELLIPSES:
    u, v = x - left, -y - up
    along = u * math.cos(angle) + v * math.sin(angle)
    across = v * math.cos(angle) - u * math.sin(angle)
    image[(along / a) ** 2 + (across / b) ** 2 <= 1] += brightness

turn = torch.arange(COILS)[:, None, None] * (2 * math.pi / COILS)
distance = (x - 1.3 * torch.cos(turn)) ** 2 + (y - 1.3 * torch.sin(turn)) ** 2
maps = torch.polar(torch.exp(-distance), 2 * torch.sin(turn) * x + torch.cos(turn) * y)
maps /= maps.abs().square().sum(0).sqrt()

# %%
# The operator
# ------------
# Each factor takes one line. Every dimension has a name, so you need not remember which axis the
# coils are on. ``S`` takes the image and adds ``C``. ``F`` transforms the grid, for each coil.
# ``M`` replaces the grid by the samples ``K``.


def every(step: int) -> torch.Tensor:
    """Return a mask of lines: each ``step``-th, and all in the middle."""
    line = torch.arange(SIZE)
    measured = (line % step == 0) | ((line - SIZE // 2).abs() < 10)
    return measured[:, None].expand(SIZE, SIZE)


mask = every(3)
S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
F = tl.FFT(2, centered=True)
M = tl.Sampling.from_mask(mask)
A = M @ F @ S
print(A)

# %%
# The scan, and the reconstruction
# --------------------------------
# The zero-filled image :math:`A^H y` takes zeros for the samples that were not measured. Conjugate
# gradients find the image that explains the samples. ``A.N`` is faster than ``A`` followed by
# ``A.H``: it multiplies by a mask instead of gathering and scattering samples, and leaves out the
# shifts of the centred transforms.

samples = A(image)
noise = 0.002 * torch.randn_like(samples)
record = tl.Record()
zero_filled = A.H(samples + noise)
found = tl.conjugate_gradients(
    A.N, zero_filled, max_num_iters=30, gtol=2e-3, ltol=0, callback=record
)
print(f"{mask.numel() / int(mask.sum()):.1f} pixels for each sample of a coil")
print(record)

# %%
# Below each image is its error, five times as bright.


def error(x: torch.Tensor) -> float:
    return float((x - image).norm() / image.norm())


figure, axes = pyplot.subplots(2, 4, figsize=(10, 5.2), layout="constrained")
pictures = {"object": image, "lines measured": mask, "zero-filled": zero_filled, "SENSE": found}
tl.show(pictures, limits=(0, 1), axes=axes[0])
tl.show(maps[0] * image, title="as one coil sees it", limits=(0, 1), axes=axes[1, 0])
axes[1, 1].semilogy(record.values["residual"])
axes[1, 1].set(title="residual", xlabel="step")
for place, picture in zip(axes[1, 2:], (zero_filled, found), strict=True):
    title = f"error {error(picture):.3f}"
    tl.show(picture - image, title=title, limits=(0, 0.2), axes=place)

assert error(found) < 0.1 * error(zero_filled)

# %%
# More noise, fewer samples
# -------------------------
# If samples are few and noisy, add a penalty that prefers likely images. Total variation is small
# for images that are piecewise constant. ``admm`` solves :math:`\min \frac12 |A x - y|^2 + \lambda
# |D x|_1` with the differences ``D`` along both axes. Here two plain functions make an operator.


def difference(axis: int) -> tl.NamedLinop:
    return tl.SimpleLinop(
        lambda x: x - x.roll(1, axis), lambda x: x - x.roll(-1, axis), ishape=("Nx", "Ny")
    )


D = tl.Stack(difference(-2), difference(-1), odim_and_idx=("D", 0))
B = tl.Sampling.from_mask(every(4)) @ F @ S
data = B(image)
data += 0.01 * torch.randn_like(data)
plain = tl.conjugate_gradients(B.N, B.H(data), max_num_iters=20, gtol=0, ltol=0)
smooth = tl.admm(B, data, tl.soft_threshold(0.003), D, max_num_iters=20, rho=0.1)

found_by = {"SENSE": plain, "total variation": smooth}
tl.show({f"{name}, error {error(x):.3f}": x for name, x in found_by.items()}, limits=(0, 1))

assert error(smooth) < 0.2 * error(plain)

# %%
# .. [1] K. P. Pruessmann, M. Weiger, M. B. Scheidegger, P. Boesiger, "SENSE: Sensitivity encoding
#    for fast MRI", Magnetic Resonance in Medicine 42, 1999.
