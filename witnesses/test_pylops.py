"""Differences are those of PyLops where both define them: everywhere but, for some, at the ends."""

import numpy as np
import pytest
import torch

from linops_imaging import FiniteDifference, Gradient, Laplacian

pylops = pytest.importorskip("pylops")
SIZES = (6, 5, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("scheme", ["forward", "backward", "central"])
def test_differences_along_an_axis(scheme: str, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal(SIZES)
    kind = {"central": "centered"}.get(scheme, scheme)
    theirs = pylops.FirstDerivative(SIZES, axis=axis, kind=kind, edge=False)
    names = ("A", "B", "C")
    ours = FiniteDifference(names[axis], SIZES[axis], scheme, "replicate", shape=names)
    found, expected = ours(torch.from_numpy(x)).numpy(), theirs @ x
    if scheme == "central":  # PyLops has zeros at both ends
        inside = [slice(None)] * 3
        inside[axis] = slice(1, -1)
        found, expected = found[tuple(inside)], expected[tuple(inside)]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("scheme", ["forward", "backward"])
def test_the_gradient_and_its_adjoint(scheme: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(SIZES), rng.standard_normal((3, *SIZES))
    theirs = pylops.Gradient(SIZES, kind=scheme, edge=False)
    ours = Gradient(("A", "B", "C"), SIZES, scheme=scheme, boundary="replicate")
    np.testing.assert_allclose(ours(torch.from_numpy(x)).numpy(), theirs @ x, atol=1e-14)
    np.testing.assert_allclose(ours.H(torch.from_numpy(y)).numpy(), theirs.H @ y, atol=1e-14)


def test_the_laplacian_inside_of_the_grid() -> None:
    x = np.random.default_rng(0).standard_normal(SIZES)
    theirs = pylops.Laplacian(
        SIZES, axes=(0, 1, 2), weights=(1, 1, 1), sampling=(1, 1, 1), edge=False
    )
    ours = Laplacian(("A", "B", "C"), SIZES)
    inside = (slice(1, -1),) * 3
    found = ours(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found[inside], (theirs @ x)[inside], atol=1e-14)
