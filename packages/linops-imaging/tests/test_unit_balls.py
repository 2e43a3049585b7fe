import math

import pytest
import torch

from linops_imaging._unit_balls import ball, disc


@pytest.mark.parametrize("scale", [1e-12, 0.02, 1.0, 8.0, 30.0, 300.0])
def test_they_are_the_integrals_over_the_unit_disc_and_the_unit_ball(scale: float) -> None:
    """By Gauss's rule for (1 - u^2)^(+-1/2), which is exact for polynomials of degree 2 n."""
    q = scale * torch.linspace(0, 1, 41, dtype=torch.float64)
    n = 400
    angle = math.pi * torch.arange(1, n, dtype=torch.float64) / n
    waves = torch.cos(q.unsqueeze(1) * angle.cos())
    torch.testing.assert_close(
        disc(q), (waves * angle.sin().square()).sum(1) * 2 / n, atol=3e-15, rtol=0
    )
    # Archimedes: the slice of a ball at height u has the area pi (1 - u^2).
    order = torch.arange(1, 400, dtype=torch.float64)
    below = order / (4 * order**2 - 1).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(below, 1) + torch.diag(below, -1))
    weights = 2 * vectors[0].square() * 0.75 * (1 - nodes.square())
    expected = torch.cos(q.unsqueeze(1) * nodes) @ weights
    torch.testing.assert_close(ball(q), expected, atol=1e-13, rtol=0)
