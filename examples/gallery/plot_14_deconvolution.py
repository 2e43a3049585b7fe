"""
Deconvolution of a microscope volume
====================================

A microscope blurs: a point becomes a spot, longer along the axis of the lens than across. The image
of a point is the point spread function (PSF). This page measures it with small beads, and removes
the blur from a volume of counted photons, by Richardson-Lucy steps and with total variation.
"""

# %%
# The point spread function
# -------------------------
# The true PSF is not known to the programs below. As at a real microscope, it is measured: the mean
# of twenty images of beads, minus the background, with a sum of 1. Noise below zero is cut off.

from functools import partial

import torch
from matplotlib import pyplot

import torchlinops as tl

torch.manual_seed(0)
GRID, FRAME = ("Nz", "Ny", "Nx"), (20, 56, 56)
TAPS = (7, 9, 9)
BACKGROUND = 5.0  # counts of a voxel without light

z, y, x = torch.meshgrid(*(torch.arange(n) - n // 2.0 for n in TAPS), indexing="ij")
width = 1.0 + 0.2 * z.abs()  # the beam is narrowest in focus
true_psf = torch.exp(-(x.square() + y.square()) / (2 * width.square())) / width.square()
true_psf *= torch.exp(-z.square() / 8)
true_psf /= true_psf.sum()

beads = torch.poisson((20000 * true_psf + BACKGROUND).expand(20, *TAPS))
psf = (beads.mean(0) - BACKGROUND).clamp(min=0)
psf /= psf.sum()
tl.show({"in focus": psf[TAPS[0] // 2], "along the axis": psf[:, TAPS[1] // 2]})

# %%
# The counts
# ----------
# The scene has filaments, bright and dim beads, and a cell with a sharp edge. It goes on beyond the
# frame, and light from outside is scattered into the frame. So the true operator is a convolution
# of mode "valid", from a larger grid to the frame. The camera counts photons.

sizes = [n + taps - 1 for n, taps in zip(FRAME, TAPS, strict=True)]
z, y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in sizes), indexing="ij")
scene = 100.0 * ((x - 0.4).square() + y.square() + 0.3 * z.square() < 0.7)
for angle in (0.3, 1.2, 2.2):
    phase = torch.tensor(angle)
    across = x * phase.cos() + y * phase.sin() - 0.25 * (3 * z).sin() - 0.15 * phase
    scene += 400.0 * ((across.abs() < 0.03) & ((z - 0.3 * x).abs() < 0.3))
places = torch.rand(40, 3, generator=torch.Generator().manual_seed(1))
for place in (places * torch.tensor(sizes)).long().tolist():
    scene[tuple(place)] += 5000.0

counts = torch.poisson(tl.Convolution(true_psf, mode="valid")(scene) + BACKGROUND)
margins = [taps // 2 for taps in TAPS]
truth = scene[tuple(slice(m, m + n) for m, n in zip(margins, FRAME, strict=True))]
print(f"{counts.numel()} voxels with {counts.min():.0f} to {counts.max():.0f} counts")

# %%
# Richardson-Lucy
# ---------------
# The steps of ``richardson_lucy`` find the volume that makes the counts most
# likely [1]_. The order of its arguments is that of scikit-image. By default
# (``boundary="extended"``), the light outside of the frame is estimated, too [2]_. With zeros
# outside, all light must come from within, which makes false edges.


def error(volume: torch.Tensor) -> float:
    return float((volume - truth).abs().sum() / truth.sum())


errors: list[float] = []


def watch(step: tl.alg.Step) -> None:
    errors.append(error(step.x))


deconvolved = partial(tl.alg.richardson_lucy, counts, psf, background=BACKGROUND)
sharp = deconvolved(max_num_iters=25)
false = deconvolved(max_num_iters=25, boundary="zeros")
many = deconvolved(max_num_iters=100, callback=watch)

# %%
# Total variation
# ---------------
# Late steps fit the noise. A penalty on edges prevents this. With the Kullback-Leibler divergence
# D, which ``poisson_likelihood`` has, and the gradient G, ``pdhg`` solves [3]_
#
# .. math:: \min_{x \ge 0} D(y, A x + b) + \lambda \sum_n |(G x)_n|_2 .
#
# Here A is given as an operator with named dimensions, so the margin is a part of x. It is cropped
# afterwards.

OUT = ("Mz", "My", "Mx")
A = tl.Convolution(psf, mode="valid", dims=GRID, to=OUT, shape=GRID, grid_size=sizes)
G = tl.Gradient(GRID, sizes, boundary="replicate")
record = tl.alg.Record()
start = torch.full(sizes, float((counts - BACKGROUND).mean()))
whole = tl.alg.pdhg(
    [A, G],
    [tl.alg.poisson_likelihood(counts, BACKGROUND), tl.alg.group_soft_threshold(0.005, dim=0)],
    tl.alg.box(0),
    start,
    max_num_iters=100,
    eps_rel=0,
    callback=record,
)
flat = whole[tuple(slice(m, m + n) for m, n in zip(margins, FRAME, strict=True))]
print(record)

# %%
# Side by side
# ------------
# A slice across the axis of the lens, and one along it. The background is subtracted from the
# counts.

volumes = {
    "truth": truth,
    "counts": counts - BACKGROUND,
    "zeros outside": false,
    "25 steps": sharp,
    "100 steps": many,
    "total variation": flat,
}
middle = FRAME[0] // 2
figure, axes = pyplot.subplots(2, 6, figsize=(13, 4), layout="constrained", height_ratios=(56, 20))
slices = {name: volume[middle] for name, volume in volumes.items()}
tl.show(slices, limits=(0, 400), axes=axes[0])
tl.show([volume[:, 28] for volume in volumes.values()], limits=(0, 400), axes=axes[1])
for place, volume in zip(axes[1], volumes.values(), strict=True):
    place.set_title(f"error {error(volume):.2f}")

edge = torch.ones(FRAME, dtype=torch.bool)
edge[3:-3, 4:-4, 4:-4] = False
off = [float((volume - truth)[edge].abs().mean()) for volume in (sharp, false)]
print(f"near the edge: {off[0]:.1f} counts off, {off[1]:.1f} with zeros outside")
assert off[0] < 0.8 * off[1]
assert error(flat) < error(sharp) < error(counts - BACKGROUND)

# %%
# When to stop
# ------------
# The error of Richardson-Lucy falls first. It rises again when noise is fitted. In practice the
# truth is not known: stop when the noise begins to show.

figure, place = pyplot.subplots(figsize=(5, 3), layout="constrained")
place.plot(range(1, len(errors) + 1), errors)
place.axhline(error(flat), color="gray", linestyle="--")
place.text(60, error(flat), "total variation", color="gray", va="bottom")
place.set(xlabel="step of Richardson-Lucy", ylabel="error")

# %%
# Large volumes in tiles
# ----------------------
# ``mlem`` has the same steps for any operator without negative entries. So a convolution can work
# in tiles of slices, each with its halo, within a memory budget or on several devices. The result
# is the same, up to rounding.

tiled = tl.batched(A, {"Mz": 8})
print(tiled)
volume = tl.alg.mlem(tiled, counts, max_num_iters=25, background=BACKGROUND)
again = volume[tuple(slice(m, m + n) for m, n in zip(margins, FRAME, strict=True))]
print(f"largest difference {float((again - sharp).abs().max() / sharp.max()):.0e}")
assert torch.allclose(again, sharp, rtol=1e-3, atol=1e-3 * float(sharp.max()))

# %%
# .. [1] W. H. Richardson, "Bayesian-based iterative method of image restoration", Journal of the
#    Optical Society of America 62, 1972.
# .. [2] M. Bertero, P. Boccacci, "A simple method for the reduction of boundary effects in the
#    Richardson-Lucy approach to image deconvolution", Astronomy & Astrophysics 437, 2005.
# .. [3] A. Chambolle, T. Pock, "A first-order primal-dual algorithm for convex problems with
#    applications to imaging", Journal of Mathematical Imaging and Vision 40, 2011.
