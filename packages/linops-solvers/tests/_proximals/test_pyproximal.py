from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_solvers import from_pyproximal, huber, l0, separable, soft_threshold, to_pyproximal

np = pytest.importorskip("numpy")
pyproximal = pytest.importorskip("pyproximal")
SHAPE = (3, 4)


def points(*shape: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [
        scale * torch.randn(shape, dtype=torch.float64, generator=generator)
        for scale in (0.3, 1, 3)
    ]


OURS = {
    "l1": lambda: pyproximal.L1(0.7),
    "l1 with weights": lambda: pyproximal.L1(np.linspace(0.1, 2, 12)),
    "l2": lambda: pyproximal.L2(b=np.linspace(-1, 1, 12), sigma=0.6),
    "l21": lambda: pyproximal.L21(3, 0.8),
    "box": lambda: pyproximal.Box(-0.5, 0.8),
    "norm": lambda: pyproximal.Euclidean(0.9),
    "ball": lambda: pyproximal.EuclideanBall(np.linspace(-0.1, 0.1, 12), 1.5),
    "ball around a number": lambda: pyproximal.EuclideanBall(0.1, 1.5),
    "l1 ball": lambda: pyproximal.L1Ball(12, 1.4),
    "nuclear norm": lambda: pyproximal.Nuclear(SHAPE, 0.5),
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("step", [0.3, 2.0])
def test_ours_are_used_where_they_are_known(name: str, step: float) -> None:
    source = OURS[name]()
    proximal = from_pyproximal(source, SHAPE)
    for z in points(*SHAPE):
        expected = source.prox(z.flatten().numpy().copy(), step)
        atol = 1e-4 if name == "l1 ball" else 1e-14  # theirs is a bisection
        np.testing.assert_allclose(proximal(z, step).flatten(), expected, rtol=1e-12, atol=atol)
        assert proximal(z.float(), step).dtype == torch.float32
    z = points(*SHAPE)[1].requires_grad_()
    (gradient,) = torch.autograd.grad(proximal(z, step).sum(), z)
    assert gradient.shape == z.shape


def test_a_map_that_is_not_that_of_its_function_is_replaced() -> None:
    """Huber leaves its quadratic part at alpha, not alpha + t; L0 cuts at t, not sqrt(2 t)."""
    z = points(*SHAPE)[1]
    for source, right in ((pyproximal.Huber(0.5), huber(2.0, 0.5)), (pyproximal.L0(1.0), l0())):
        ours = from_pyproximal(source, SHAPE)
        torch.testing.assert_close(ours(z, 0.7), right(z, 0.7))
        theirs = source.prox(z.flatten().numpy().copy(), 0.7)
        assert abs(theirs - ours(z, 0.7).flatten().numpy()).max() > 0.1


CALLED: dict[str, tuple[Any, bool]] = {
    "l1 around": (lambda: pyproximal.L1(0.7, g=np.linspace(-1, 1, 12)), True),
    "half space": (lambda: pyproximal.HalfSpace(np.ones(12), 1.0), True),
    "weighted nuclear norm": (lambda: pyproximal.Nuclear((4, 3), np.array([0.3, 0.2, 0.1])), True),
    "log": (lambda: pyproximal.Log(1.5, 2.0), False),
}


@pytest.mark.parametrize("name", CALLED)
def test_others_are_called(name: str) -> None:
    make, is_convex = CALLED[name]
    source, z = make(), points(*SHAPE)[2]
    proximal = from_pyproximal(source, SHAPE)
    result = proximal(z, 0.7)
    np.testing.assert_allclose(result.flatten(), source.prox(z.flatten().numpy().copy(), 0.7))
    assert proximal.is_convex == is_convex
    if name == "l1 around":
        torch.testing.assert_close(
            proximal.value(z),
            0.7 * (z - torch.linspace(-1, 1, 12).double().view(SHAPE)).abs().sum(),
        )
    with pytest.raises(NotImplementedError, match="from_pyproximal: z must not require gradients"):
        proximal(z.requires_grad_(), 0.7)


class Wrong(pyproximal.ProxOperator):  # type: ignore[misc, name-defined]
    """A soft threshold of half the weight, or one that grows with each call."""

    def __init__(self, grows: bool) -> None:
        super().__init__(None, False)
        self.weight, self.grows = 0.5, grows

    def __call__(self, x: Any) -> float:
        return float(abs(x).sum())

    def prox(self, x: Any, tau: float) -> Any:
        self.weight += self.grows
        return soft_threshold(self.weight)(torch.from_numpy(x), tau).numpy()


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"prox must minimise f\(x\) .*, got .* from Wrong"):
        from_pyproximal(Wrong(False), SHAPE)
    with pytest.raises(
        ValueError, match="from_pyproximal: prox must be the same in each call, got"
    ):
        from_pyproximal(Wrong(True), SHAPE)
    with pytest.raises(ValueError, match="from_pyproximal: prox must minimise"):
        from_pyproximal(pyproximal.L0(3.0), SHAPE)  # whose value has no weight
    wrong: Any = soft_threshold()
    with pytest.raises(TypeError, match="from_pyproximal: operator must be a ProxOperator, got"):
        from_pyproximal(wrong, SHAPE)
    with pytest.warns(UserWarning, match="prox must minimise .*; the map of its value is used"):
        counted = from_pyproximal(pyproximal.L0(3.0), SHAPE, by_value=True)
    z = points(*SHAPE)[1]
    torch.testing.assert_close(counted(z, 0.7), l0()(z, 0.7))
    with pytest.raises(TypeError, match="to_pyproximal: proximal must be a ProximalMap, got"):
        to_pyproximal(wrong.proximal, SHAPE)
    monkeypatch.setitem(sys.modules, "pyproximal", None)
    with pytest.raises(ImportError, match=r"pip install 'linops-solvers\[pyproximal\]'"):
        from_pyproximal(wrong, SHAPE)


def test_a_map_for_pyproximal() -> None:
    there = to_pyproximal(soft_threshold(0.5), SHAPE)
    assert isinstance(there, pyproximal.ProxOperator)
    for z in points(*SHAPE):
        x, before = z.flatten().numpy(), z.clone()
        expected = pyproximal.L1(0.5).prox(x.copy(), 0.7)
        np.testing.assert_allclose(there.prox(x, 0.7), expected, atol=1e-15)
        np.testing.assert_allclose(there(x), 0.5 * abs(x).sum())
        np.testing.assert_allclose(there.proxdual(x, 0.7), pyproximal.L1(0.5).proxdual(x, 0.7))
        assert torch.equal(z, before)
    own = to_pyproximal(separable(lambda z, step: z.clamp(min=0)), SHAPE)
    with pytest.raises(NotImplementedError, match="only the map is known"):
        own(np.ones(12))
