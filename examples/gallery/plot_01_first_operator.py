"""
A first operator
================

A camera out of focus replaces every point by a spot. That is a linear operator, a convolution.
This page blurs an image with it, shows what every operator can do, and removes the blur again.
"""

# %%
# An image, and an operator
# -------------------------
# A convolution only needs its kernel. Its dimensions have names: ``Nx`` and ``Ny`` in the input,
# ``Nx1`` and ``Ny1`` in the output. ``...`` stands for any other dimensions of the image.

import torch
from matplotlib import pyplot

import torchlinops as tl
from torchlinops.testing import dottest

torch.manual_seed(0)
axis = torch.linspace(-1, 1, 96)
x, y = torch.meshgrid(axis, axis, indexing="ij")
image = ((x**2 + y**2 < 0.7) & ((10 * x).sin() + (10 * y).sin() > 0)).to(torch.float64)

profile = torch.exp(-50 * torch.linspace(-0.4, 0.4, 19, dtype=torch.float64) ** 2)
spot = torch.outer(profile, profile)
A = tl.Convolution(spot / spot.sum())
print(A)

# %%
# ``print`` shows the names of the input's and the output's dimensions, and the tensors that the
# operator holds. To apply it, call it:

blurred = A(image) + 0.002 * torch.randn_like(image)
print(blurred.shape)

# %%
# An input of the wrong shape raises an error that says what was expected and what was given:

try:
    A(image[0])
except ValueError as refused:
    print(refused)

# %%
# Adjoint and normal operator
# ---------------------------
# The adjoint ``A.H`` uses the same kernel, not a copy. A dot test compares :math:`\langle A x,
# y\rangle` with :math:`\langle x, A^H y\rangle` for random vectors. If they differ, it raises an
# error with the factor between them.

dottest(A, {"Nx": 20, "Ny": 30})
print(A.H)

# %%
# At the end of a notebook cell, an operator is shown as a table of its parts. Above the table are
# the roles of its dimensions; *opaque* means that it cannot be cut along this dimension:

(A.H @ A).adjoint()

# %%
# The normal operator ``A.N`` is :math:`A^H A`. Operators are added and multiplied like matrices, so
# a regularised normal equation is written as in a book. (The matrix itself is never made. Here it
# would have 85 million entries. For a small grid, ``to_dense`` returns it.)

regularised = A.N + 1e-3 * tl.Identity()
matrix = regularised.to_dense({"Nx": 8, "Ny": 8})
print(matrix.shape)

# %%
# Solve
# -----
# Conjugate gradients solve :math:`(A^H A + 10^{-3}) \, x = A^H y` by applying operators. A
# ``Record`` keeps what was measured at each step.

record = tl.Record()
restored = tl.conjugate_gradients(
    regularised, A.H(blurred), max_num_iters=60, gtol=1e-4, ltol=0, callback=record
)
print(record)

figure, axes = pyplot.subplots(1, 4, figsize=(11, 2.9), layout="constrained")
pictures = {"image": image, "blurred, with noise": blurred, "restored": restored}
tl.show(pictures, limits=(0, 1), axes=axes[:3])
axes[3].semilogy(record.values["residual"])
axes[3].set(title="residual", xlabel="step")

# %%
# The error of the image is much smaller than before:


def error(result: torch.Tensor) -> float:
    return float((result - image).norm() / image.norm())


print(f"blurred {error(blurred):.3f}, restored {error(restored):.3f}")
assert error(restored) < 0.7 * error(blurred)

# %%
# Gradients
# ---------
# Operators are modules of PyTorch, and their weights may be parameters. Gradients flow to them
# through the operator and through its adjoint. This is the gradient of the data misfit with respect
# to the kernel, as a blind deconvolution needs it.

kernel = torch.nn.Parameter(A.kernel.clone())
trainable = tl.Convolution(kernel)
misfit = (trainable(image) - blurred).square().sum()
torch.autograd.backward(misfit)
assert kernel.grad is not None
print(kernel.grad.shape)

# sphinx_gallery_thumbnail_number = 1
