"""The small network of the MoDL job, the same for all ways: three layers on complex images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jobs.problem import Array

N_CHANNELS = 32


class Network(nn.Module):
    """From complex images (..., Nx, Ny) to such images: real and imaginary part are channels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2, N_CHANNELS, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(N_CHANNELS, N_CHANNELS, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(N_CHANNELS, 2, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the image with what the layers add to it."""
        parts = torch.view_as_real(x).movedim(-1, 0)
        change: Tensor = self.layers(parts[None])[0]
        return x + torch.view_as_complex(change.movedim(0, -1).contiguous())


def network(parameters: Tensor) -> Network:
    """Return the network with these parameters, one after the other."""
    result = Network().to(parameters.dtype)
    nn.utils.vector_to_parameters(parameters, result.parameters())
    return result


def gradient_of(result: nn.Module) -> Tensor:
    """Return the gradients of all parameters, one after the other."""
    return torch.cat([p.grad.flatten() for p in result.parameters() if p.grad is not None])


def initial_parameters() -> Array:
    """Return parameters as torch draws them."""
    torch.manual_seed(0)
    drawn: Array = nn.utils.parameters_to_vector(Network().parameters()).detach().numpy()
    return drawn
