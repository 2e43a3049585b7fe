"""
A first operator
================

A camera out of focus replaces every point by a spot. That is a linear operator, a convolution.
This page applies one to an image, looks at what comes with every operator for free, and takes the
blur away again.
"""

# %%
# An image, and an operator
# -------------------------
# A convolution needs to know its kernel, nothing else. Its dimensions have names: ``Nx`` and
# ``Ny`` go in, ``Nx1`` and ``Ny1`` come out, and ``...`` stands for whatever else the image may
# have.

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
# ``print`` shows the names of the input, those of the output, and what the operator holds in
# memory. To apply it, call it:

blurred = A(image) + 0.002 * torch.randn_like(image)
print(blurred.shape)

# %%
# What does not fit is refused, and the message says what was expected and what came:

try:
    A(image[0])
except ValueError as refused:
    print(refused)

# %%
# What comes with it
# ------------------
# The adjoint ``A.H`` holds the very same kernel. A dot test compares :math:`\langle A x,
# y\rangle` with :math:`\langle x, A^H y\rangle` on random vectors; it says nothing when they are
# equal, and by which factor they differ when they are not.

dottest(A, {"Nx": 20, "Ny": 30})
print(A.H)

# %%
# At the end of a cell of a notebook, an operator shows itself as a table of its parts, with the
# sizes of dimensions and what each dimension is to it:

(A.H @ A).adjoint()

# %%
# The normal operator ``A.N`` is :math:`A^H A`. Operators are added and multiplied like matrices,
# so a regularised normal equation is written as one reads it. (The matrix itself is never made.
# It would have 85 million entries here; for a small grid one may look at it.)

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
for place, (title, picture) in zip(axes, pictures.items(), strict=False):
    place.imshow(picture.numpy(), cmap="gray", vmin=0, vmax=1)
    place.set_title(title)
    place.set_axis_off()
axes[3].semilogy(record.values["residual"])
axes[3].set(title="residual", xlabel="step")

# %%
# The error of the image is much smaller than before:


def error(found: torch.Tensor) -> float:
    return float((found - image).norm() / image.norm())


print(f"blurred {error(blurred):.3f}, restored {error(restored):.3f}")
assert error(restored) < 0.7 * error(blurred)

# %%
# Gradients
# ---------
# Operators are modules of PyTorch and their weights may be parameters: gradients reach them
# through the operator and its adjoint alike. Here is the derivative of the data misfit by the
# kernel, which is what a blind deconvolution follows.

kernel = torch.nn.Parameter(A.kernel.clone())
trainable = tl.Convolution(kernel)
misfit = (trainable(image) - blurred).square().sum()
torch.autograd.backward(misfit)
assert kernel.grad is not None
print(kernel.grad.shape)

# sphinx_gallery_thumbnail_number = 1
