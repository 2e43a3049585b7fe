"""
Training an unrolled network
============================

An unrolled network is a solver with a few steps in which a small network replaces the penalty. The
network is trained on images [1]_. The operator is a layer like any other: gradients flow through
``A.N``.
"""

# %%
# Images and a scanner
# --------------------
# The images are random heaps of ellipses. The scan is radial with 14 spokes: a non-uniform Fourier
# transform with about a third as many samples as pixels. The ``...`` in its shape is a batch of
# images. With ``toeplitz=True``, the normal operator is a convolution and needs no interpolation.

import torch
from matplotlib import pyplot
from torch import Tensor, nn

import torchlinops as tl
from torchlinops.imaging import NUFFT, trajectories

torch.manual_seed(0)
SIZE = 40

at = torch.arange(SIZE) / (SIZE / 2) - 1
x, y = torch.meshgrid(at, at, indexing="ij")


def ellipses(n_images: int) -> Tensor:
    """Return images (B, Nx, Ny) of twelve ellipses each, with a phase that is smooth."""
    shape = (n_images, 12, 1, 1)
    brightness, turn = torch.rand(shape) - 0.3, torch.pi * torch.rand(shape)
    left, up = 1.2 * torch.rand(2, *shape) - 0.6
    a, b = 0.1 + 0.4 * torch.rand(2, *shape)
    u = (x - left) * turn.cos() + (y - up) * turn.sin()
    v = (y - up) * turn.cos() - (x - left) * turn.sin()
    magnitude = (brightness * ((u / a) ** 2 + (v / b) ** 2 <= 1)).sum(1).clamp(min=0)
    return torch.polar(magnitude, torch.rand(n_images, 1, 1) * (x + y)).to(torch.complex64)


locs = trajectories.radial_2d(n_spokes=14, n_readout=SIZE, grid_size=SIZE)
scan = NUFFT(locs, (SIZE, SIZE), ("S", "R"), toeplitz=True)
norm = tl.alg.operator_norm(scan, like=torch.ones(SIZE, SIZE, dtype=torch.complex64))
A = scan / float(norm)  # so that gradient steps of length 1 do not diverge
print(A.signature)


def measured(images: Tensor) -> Tensor:
    samples = A(images)
    return samples + 0.002 * torch.randn_like(samples)


# %%
# The network
# -----------
# Each of five steps goes down the gradient of :math:`|A x - y|^2 / 2`. Then three small
# convolutions on the real and the imaginary part correct the image. All steps share their weights.


class Correction(nn.Module):
    """The correction that is added to an image; both have two real channels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(2, width, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()),
            nn.Conv2d(width, 2, 3, padding=1),
        )

    def forward(self, image: Tensor, *_: object) -> Tensor:
        corrected: Tensor = image + self.layers(image)
        return corrected


class Unrolled(nn.Module):
    def __init__(self, A: tl.NamedLinop, n_steps: int = 5) -> None:
        super().__init__()
        self.A, self.n_steps = A, n_steps
        self.length = nn.Parameter(torch.tensor(1.0))
        self.correction = Correction()

    def forward(self, samples: Tensor) -> Tensor:
        seen = self.A.H(samples)
        image = torch.zeros_like(seen)
        for _ in range(self.n_steps):
            image = image - self.length * (self.A.N(image) - seen)
            channels = self.correction(torch.stack([image.real, image.imag], 1))
            image = torch.complex(channels[:, 0], channels[:, 1])
        return image


# %%
# Training
# --------
# Every step has new images. The operator needs no extra code for gradients.

network = Unrolled(A)
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
losses = []
for _ in range(150):
    images = ellipses(8)
    with torch.no_grad():
        samples = measured(images)
    loss = (network(samples) - images).abs().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(float(loss.detach()))
print(f"loss {losses[0]:.4f} at first, {sum(losses[-10:]) / 10:.4f} in the end")

# %%
# What was gained
# ---------------
# The test images were not used in training. The network is compared with conjugate gradients on the
# # same data. Conjugate gradients have not learned from images.

test = ellipses(32)
with torch.no_grad():
    samples = measured(test)
    found = network(samples)
plain = tl.alg.conjugate_gradients(A.N, A.H(samples), max_num_iters=15, gtol=0, ltol=0)


def error(images: Tensor) -> float:
    return float((images - test).norm() / test.norm())


figure, axes = pyplot.subplots(1, 4, figsize=(11, 3), layout="constrained")
pictures = {
    "object": test[0],
    f"least squares, error {error(plain):.3f}": plain[0],
    f"unrolled, error {error(found):.3f}": found[0],
}
tl.show(pictures, limits=(0, float(test[0].abs().max())), axes=axes[:3])
axes[3].semilogy(losses)
axes[3].set(title="loss", xlabel="training step")

assert error(found) < 0.97 * error(plain)

# %%
# The same with DeepInverse
# -------------------------
# DeepInverse [2]_ has solvers, losses and networks for inverse problems. ``to_deepinv`` makes the
# operator a physics of DeepInverse, here with complex numbers as two channels. Its proximal
# gradient method with our correction as the denoiser is the network above. If DeepInverse cannot be
# imported, this part is left out.

try:
    import deepinv
except (ImportError, RuntimeError) as problem:  # its torchvision may not fit to torch
    print(f"left out: {problem}")
else:
    physics = tl.imaging.interop.to_deepinv(A, complex_channels=True)
    solver = deepinv.optim.optim_builder(
        iteration="PGD",
        prior=deepinv.optim.PnP(denoiser=network.correction),
        data_fidelity=deepinv.optim.L2(),
        max_iter=network.n_steps,
        early_stop=False,
        params_algo={"stepsize": float(network.length.detach()), "g_param": 0.0, "lambda": 1.0},
        custom_init=lambda y, physics: {"est": (0 * physics.A_adjoint(y),) * 2},
    )
    with torch.no_grad():
        theirs = solver(torch.stack([samples.real, samples.imag], 1), physics)
    same = torch.complex(theirs[:, 0], theirs[:, 1])
    print(f"largest difference {float((same - found).abs().max()):.0e}")
    assert torch.allclose(same, found, atol=1e-4)

# %%
# .. [1] K. Hammernik et al., "Learning a variational network for reconstruction of accelerated MRI
#    data", Magnetic Resonance in Medicine 79, 2018.
# .. [2] J. Tachella et al., "DeepInverse: a Python package for solving imaging inverse problems
#    with deep learning", Journal of Open Source Software, 2025.
