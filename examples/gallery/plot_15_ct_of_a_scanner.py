"""
Computed tomography with the geometry of a scanner
==================================================

The axis of rotation of a real scanner is not in the middle of its detector, the detector may be
curved, and many scans end before the circle is complete. This page gives these facts to the
operator, and reconstructs images and a volume.
"""

# %%
# The axis of rotation
# --------------------
# ``detector_offset`` is the place of the middle of the detector. The place of the axis is 0. If the
# axis is seen at the detector with index ``i``, the offset is ``((D - 1) / 2 - i) * spacing``. The
# measurements are simulated on pixels of a third of the size, so that they are not made with the
# operator that reconstructs them.

import math

import torch
from matplotlib import pyplot
from matplotlib.axes import Axes

import torchlinops as tl
from torchlinops.imaging import ConeBeam, FanBeam, ParallelBeam, fbp, fdk, phantoms

torch.manual_seed(0)
SIZE, DETECTORS = 96, 150

fine = phantoms.shepp_logan([3 * SIZE, 3 * SIZE]).roll((1, 1), (0, 1))
head = fine.view(SIZE, 3, SIZE, 3).mean((1, 3))

angles = torch.arange(180) * (math.pi / 180)
axis = 70.6  # the index of the detector that sees the axis of rotation
offset = (DETECTORS - 1) / 2 - axis

scanner = ParallelBeam(angles, DETECTORS, 3 * SIZE, 3.0, detector_offset=3 * offset)
sinogram = scanner(fine) / 3

A = ParallelBeam(angles, DETECTORS, SIZE, detector_offset=offset)
ignored = fbp(sinogram, ParallelBeam(angles, DETECTORS, SIZE), window="hann")
parallel = fbp(sinogram, A, window="hann")

# %%
# Finding the axis
# ----------------
# Gradients reach the offset if it is a tensor. So a solver can find it, from the difference between
# the measurements and the projections of the image. Here it starts at 0, four detectors away.

unknown = torch.zeros((), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([unknown], lr=0.5)
slower = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.94)
every = slice(None, None, 6)
for _ in range(40):
    optimizer.zero_grad()
    B = ParallelBeam(angles[every], DETECTORS, SIZE, detector_offset=unknown)
    image = fbp(sinogram[every], B, window="hann")
    (B(image) - sinogram[every]).square().mean().backward()
    optimizer.step()
    slower.step()
print(f"axis at {(DETECTORS - 1) / 2 - float(unknown.detach()):.2f}, it is at {axis}")

# %%
# Curved detectors and short scans
# --------------------------------
# The detectors of a medical scanner are on a circle about the source. Its shortest scan is half a
# circle and the part of the fan that crosses the image. ``fbp`` gives rays that are seen twice one
# weight together, as Parker's weights do.

source, detector, columns = 250.0, 200.0, 280
fan = 2 * math.asin((SIZE - 1) / math.sqrt(2) / source)
short = torch.arange(210) * ((math.pi + fan) / 210)


def curved(views: torch.Tensor, size: int, scale: float) -> FanBeam:
    """Return the operator of the scanner for pixels of 1 / scale."""
    return FanBeam(
        views,
        columns,
        size,
        scale * source,
        scale * detector,
        scale * 1.0,
        detector_offset=scale * 0.25,
        detector="curved",
    )


measured = curved(short, 3 * SIZE, 3.0)(fine) / 3
of_short_scan = fbp(measured, curved(short, SIZE, 1.0), window="hann")


def error(x: torch.Tensor) -> float:
    return float((x - head).norm() / head.norm())


# %%
# Images
# ------


def show(place: Axes, title: str, picture: torch.Tensor) -> None:
    place.imshow(picture.numpy().T[::-1], cmap="gray", vmin=0, vmax=0.5)
    place.set_title(title)
    place.set_axis_off()


images = {
    "head": head,
    "axis ignored": ignored,
    "axis known": parallel,
    f"{math.degrees(math.pi + fan):.0f} degrees of a curved fan": of_short_scan,
}
figure, places = pyplot.subplots(1, 4, figsize=(11, 3), layout="constrained")
for place, (name, picture) in zip(places, images.items(), strict=True):
    show(place, name if picture is head else f"{name}\nerror {error(picture):.2f}", picture)

assert abs((DETECTORS - 1) / 2 - float(unknown.detach()) - axis) < 0.1
assert error(parallel) < 0.6 * error(ignored)
assert error(of_short_scan) < error(parallel)

# %%
# A volume from cones
# -------------------
# ``ConeBeam`` has a source and a detector of rows and columns. ``fdk`` reconstructs the circle
# directly. It has errors far from the middle plane, where a circle does not see enough. The
# least-squares solution needs the operator and its adjoint only, so it takes any poses, such as a
# helix: ``heights`` moves the source and the detector along the axis.

N = 40
at = torch.arange(N) - (N - 1) / 2
x, y, z = at[:, None, None], at[:, None], at
discs = ((x.square() + y.square()) < 14**2) & ((z + 18).remainder(8) < 4) & (z.abs() < 18)
volume = discs.float()  # a pile of discs, which is hard for a circle

circle = torch.arange(72) * (math.pi / 36)
lengths = 90.0, 45.0, 1.5  # source to axis, axis to detector, and spacing
C = ConeBeam(circle, (64, 56), (N, N, N), *lengths)
direct = fdk(C(volume), C, window="hann")

turns = torch.arange(144) * (math.pi / 36)
helix = ConeBeam(turns, (32, 56), (N, N, N), *lengths, heights=torch.linspace(-16, 16, 144))
solved = tl.alg.conjugate_gradients(
    helix.N, helix.H(helix(volume)), max_num_iters=10, gtol=0, ltol=0
)

figure, places = pyplot.subplots(1, 3, figsize=(8, 3), layout="constrained")
for place, (name, picture) in zip(
    places, {"discs": volume, "circle, fdk": direct, "helix, solver": solved}.items(), strict=True
):
    place.imshow(picture[:, N // 2].T.flip(0).numpy(), cmap="gray", vmin=0, vmax=1.2)
    place.set_title(name)
    place.set_axis_off()

assert (solved - volume).norm() < 0.6 * (direct - volume).norm()

# %%
# A slab at a time
# ----------------
# All dimensions of the volume can be cut. A tile reads its slab only, rays that miss the slab take
# no time, and the projections of all slabs add up to the projection of the volume.

slabs = [slice(start, start + 10) for start in range(0, N, 10)]
total = sum(C.split(C, {"Nz": slab})(volume[..., slab]) for slab in slabs)
print(float((total - C(volume)).abs().max()))
