"""
Writing an operator
===================

Computed tomography measures sums of an image along rays at many angles. ``ParallelBeam`` of
linops-imaging is the operator for this. As an exercise, this page writes a simpler one, with
weights, an adjoint and slices, tests it, and reconstructs an image with it.
"""

# %%
# Two static methods
# ------------------
# An operator is a class with a shape, a function ``fn`` for :math:`A x` and a function ``adj_fn``
# for :math:`A^H y`. They are static and find everything on ``linop``, because ``A.H`` is a
# shallow copy with the two exchanged.
#
# ``SliceableLinop`` slices weights by the names of their dimensions. Here the angles are a weight
# along ``T``, so a slice of ``T`` is the operator of some of the angles. The image cannot be
# sliced, because every ray crosses the whole image. ``why_opaque`` says so.
#
# The projection rotates the image and sums its columns. Its adjoint must be exact: solvers may
# diverge with an adjoint that is only similar. Interpolation is linear, so its adjoint is the
# backward pass of PyTorch.

import torch
from matplotlib import pyplot
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

import torchlinops as tl
from torchlinops.testing import AdjointError, dottest


class Projection(tl.SliceableLinop):
    """Sums of an image (Nx, Ny) along parallel rays at some angles: (T, R)."""

    angles: Tensor

    def __init__(self, angles: Tensor, side: int) -> None:
        super().__init__(tl.NamedShape(("Nx", "Ny"), ("T", "R"), angle_shape=("T",)))
        self.side = side
        self.register_weight("angles", angles, "angle_shape")

    @staticmethod
    def fn(linop: "Projection", x: Tensor, /) -> Tensor:
        angles = linop.weight_part("angles")
        c, s, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
        turned = torch.stack([torch.stack([c, -s, zero], -1), torch.stack([s, c, zero], -1)], 1)
        shape = [len(angles), 1, linop.side, linop.side]
        grid = affine_grid(turned, shape, align_corners=False)
        return grid_sample(x.expand(shape), grid, align_corners=False).sum((1, 2))

    @staticmethod
    def adj_fn(linop: "Projection", y: Tensor, /) -> Tensor:
        image = y.new_zeros(linop.side, linop.side)
        pull_back = torch.func.vjp(lambda x: Projection.fn(linop, x), image)[1]
        pulled: Tensor = pull_back(y)[0]
        return pulled

    def size(self, dim: tl.ND | str) -> int | None:
        return self.side if dim in ("Nx", "Ny", "R") else super().size(dim)

    def why_opaque(self, dim: tl.ND | str) -> str | None:
        return "a ray crosses the whole image" if dim in ("Nx", "Ny", "R") else None


# %%
# Is it right?
# ------------
# Start with the dot test. In a test file, inherit from ``BaseNamedLinopTests``: it also tests
# copies, devices, gradients, tiles and the compiler.

SIDE = 48
angles = torch.linspace(0, torch.pi, 61, dtype=torch.float64)[:-1]
A = Projection(angles, SIDE)
dottest(A, dtypes=[torch.float64])
print(A)

# %%
# A wrong adjoint raises an error. If it is wrong by a factor, the message says by which.


class HalfAdjoint(Projection):
    @staticmethod
    def adj_fn(linop: "Projection", y: Tensor, /) -> Tensor:
        return Projection.adj_fn(linop, y) / 2


try:
    dottest(HalfAdjoint(angles, SIDE), dtypes=[torch.float64])
except AdjointError as refused:
    print(refused)

# %%
# Slices
# ------
# The operator can now be cut along its angles, on one device or on several. It cannot be cut along
# the image, and the error says why.

print({dim: str(A.role(dim)) for dim in ("Nx", "T")})
tiles, _, places = tl.split_linop(A, {"T": 25})
print([tile.size("T") for tile in tiles], places[2])

try:
    tl.split_linop(A, {"Nx": 16})
except tl.SplitError as refused:
    print(refused)

# %%
# A scan
# ------
# ``lsmr`` solves least-squares problems with any operator. Here the operator works on 30 angles at
# a time.

axis = torch.linspace(-1, 1, SIDE, dtype=torch.float64)
y, x = torch.meshgrid(axis, axis, indexing="ij")
image = (x**2 + y**2 < 0.8).to(torch.float64) - 0.5 * ((x / 0.3) ** 2 + (y / 0.6) ** 2 < 1)
image += 0.8 * ((x - 0.5) ** 2 + (y - 0.3) ** 2 < 0.03)

sinogram = A(image)
sinogram += 0.2 * torch.randn(sinogram.shape, generator=torch.Generator().manual_seed(0))
# 15 steps, without a tolerance: more of them would fit the noise.
found = tl.lsmr(tl.batched(A, {"T": 30}), sinogram, max_num_iters=15, atol=0, btol=0)
back = A.H(sinogram)

pictures = {
    "object": image,
    "sinogram (T, R)": sinogram,
    "back projection": back / back.max(),
    "least squares": found,
}
figure, axes = pyplot.subplots(1, 4, figsize=(11, 3), layout="constrained")
for place, (title, picture) in zip(axes, pictures.items(), strict=True):  # each in its own grays
    tl.show(picture, title=title, aspect="auto", axes=place)

error = float((found - image).norm() / image.norm())
print(f"error {error:.3f}")
assert error < 0.15
