"""Layers of torch with complex weights; each guess was written down before the run."""

import torch
from table import row
from torch import nn

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "torch",
    guess="`rms_norm` divides complex numbers by the root of the mean of abs(x)^2, or refuses them",
    here="`x / x.abs().square().mean(-1, keepdim=True).sqrt()`",
)
def rms_norm() -> str:
    found = nn.functional.rms_norm(torch.tensor([[3j, 4], [1j, 1]]), (2,))
    assert torch.allclose(found[0], torch.tensor([3j, 4]) / 3.5**0.5)
    assert found[1].abs().min() > 1000
    return (
        "by the root of the mean of x^2: (3i, 4) becomes (1.6i, 2.1) instead of (0.85i, 1.13), and "
        "(i, 1) more than 1000; layer, batch and group norms raise NotImplementedError"
    )


@row(
    SECTION,
    "torch",
    guess="`xavier_uniform_` and `xavier_normal_` of complex weights have the same variance",
    here="divide by sqrt(2) after a uniform initialisation",
)
def initial_weights() -> str:
    weight = torch.empty(300, 300, dtype=torch.complex64)
    means = []
    for initialise in (nn.init.xavier_normal_, nn.init.xavier_uniform_):
        initialise(weight, generator=torch.Generator().manual_seed(0))
        means.append(weight.abs().square().mean().item() * 300)
    assert abs(means[0] - 1) < 0.02 and abs(means[1] - 2) < 0.02, means
    layers = [nn.Linear(300, 300, dtype=dtype) for dtype in (torch.float32, torch.complex64)]
    variances = [layer.weight.abs().square().mean().item() for layer in layers]
    assert abs(variances[1] / variances[0] - 2) < 0.1, variances
    return (
        "uniform ones have twice the variance: both parts have that of a real weight; so do "
        "`kaiming_uniform_` and the default of `nn.Linear`"
    )


@row(
    SECTION,
    "torch",
    guess="`vector_to_parameters` keeps dtypes, or refuses a vector of another",
    here="one vector for each dtype",
)
def flat_weights() -> str:
    weights = [nn.Parameter(torch.zeros(1, dtype=torch.complex64)), nn.Parameter(torch.ones(2))]
    vector = nn.utils.parameters_to_vector(weights)
    nn.utils.vector_to_parameters(vector, weights)
    assert weights[1].dtype == torch.complex64
    return "a vector of complex and real weights is complex, and so are then the real weights"


@row(
    SECTION,
    "torch",
    guess="`nn.utils.spectral_norm` divides complex weights by their largest singular value",
    here="`nn.utils.parametrizations.spectral_norm`, which does",
)
def spectral_norm() -> str:
    torch.manual_seed(0)
    normed = []
    for function in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
        layer = nn.Linear(2, 2, bias=False, dtype=torch.complex64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[2j, 0], [0, 1]]))
        layer = function(layer, n_power_iterations=50)
        layer(torch.zeros(1, 2, dtype=torch.complex64))
        normed.append(layer.weight.detach()[0, 0])
    assert abs(normed[1] - 1j) < 1e-4 and abs(normed[0].abs() - 1) < 1e-4
    assert abs(normed[0] - 1j) > 1e-2
    return (
        "by a complex number: 2i of the diagonal (2i, 1) becomes a number of another phase than i"
    )
