"""Proximal maps of PyProximal, from the definition of the function."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from ._projections import box, l1_ball, l2_ball
from ._proximal import Proximal, ProximalMap
from ._quadratics import l2_squared
from ._shrinkage import group_soft_threshold, huber, l0, nuclear_norm, soft_threshold

if TYPE_CHECKING:
    from pyproximal.ProxOperator import ProxOperator

Form: TypeAlias = Callable[[Any, Sequence[int]], tuple[ProximalMap, Sequence[int]]]
"""Our map for an operator of PyProximal, and the shape in which it takes a vector."""

_POINTS, _STEPS = 4, (0.4, 1.7)


def _weight(value: Any, shape: Sequence[int]) -> float | Tensor:
    return float(value) if getattr(value, "ndim", 0) == 0 else torch.as_tensor(value).reshape(shape)


# What is computed is compared with the values of the source, so that another parameter is seen.
_FORMS: Mapping[str, Form] = {
    "L0": lambda of, shape: (l0(_weight(of.sigma, shape)), shape),
    "L1": lambda of, shape: (soft_threshold(_weight(of.sigma, shape)), shape),
    "L1Ball": lambda of, shape: (l1_ball(of.radius), shape),
    "L2": lambda of, shape: (
        l2_squared(of.sigma, 0.0 if of.b is None else _weight(of.b, shape)),
        shape,
    ),
    "L21": lambda of, shape: (group_soft_threshold(of.sigma, 0), (of.ndim, -1)),
    "Box": lambda of, shape: (box(_weight(of.lower, shape), _weight(of.upper, shape)), shape),
    "Euclidean": lambda of, shape: (group_soft_threshold(of.sigma, 0), (-1,)),
    "EuclideanBall": lambda of, shape: (
        l2_ball(of.radius, torch.as_tensor(_weight(of.center, shape)).expand(shape)),
        shape,
    ),
    "Huber": lambda of, shape: (huber(1 / of.alpha, of.alpha), shape),
    "Nuclear": lambda of, shape: (nuclear_norm(float(of.sigma)), of.dim),
}


def from_pyproximal(operator: ProxOperator, shape: Sequence[int]) -> ProximalMap:
    r"""Return the proximal map of the function of a ``ProxOperator`` of PyProximal.

    What counts is the function, ``operator(x)``. If one of our maps has the same values, it is
    returned, also where the operator's ``prox`` is that of another function (``Huber``, ``L0``).
    Otherwise
    the operator's ``prox`` is called, if it passes these tests at random points: it returns the
    same twice, and no other point that is tried has a smaller :math:`g(x) + |x - z|^2 / 2t`.

    Parameters
    ----------
    operator : pyproximal.ProxOperator
    shape : sequence of int
        Shape of the tensors that the map gets; PyProximal's vectors are these, flattened.

    Returns
    -------
    ProximalMap
        Ours for ``L1``, ``L2`` without an operator, ``L21``, ``Huber``, ``Box``, ``Euclidean``,
        ``EuclideanBall``, ``L1Ball``, ``Nuclear`` and ``L0`` with ``sigma=1``: with gradients, on
        any device. The others run on the CPU and have no gradients. It is marked as convex unless
        the tests show that it is not.

    Raises
    ------
    ImportError
        If PyProximal is not installed (the extra ``pyproximal``).
    TypeError
        If ``operator`` is not a ProxOperator.
    ValueError
        If ``prox`` is not the map of the function, or depends on earlier calls.
    NotImplementedError
        When called, if gradients are recorded and the map is not ours.
    """
    owner = "from_pyproximal"
    try:
        library = importlib.import_module("pyproximal")
    except ModuleNotFoundError as error:
        if error.name != "pyproximal":
            raise
        raise ImportError(
            f"{owner}: pyproximal must be installed: pip install 'linops-solvers[pyproximal]'"
        ) from error
    if not isinstance(operator, library.ProxOperator):
        raise TypeError(f"{owner}: operator must be a ProxOperator, got {type(operator)}")
    generator = torch.Generator().manual_seed(0)
    points = [
        scale * torch.randn(tuple(shape), dtype=torch.float64, generator=generator)
        for scale in (0.5, 1.0, 2.0, 4.0)[:_POINTS]
    ]
    ours = _ours(operator, tuple(shape))
    if ours is not None and _has_values_of(operator, ours, points):
        return ours
    _check_minimum(owner, operator, points, generator)
    pairs = [(points[i], points[j]) for i in range(_POINTS) for j in range(i)]
    pairs += [
        (z, z + 0.1 * torch.randn(z.shape, dtype=z.dtype, generator=generator)) for z in points
    ]
    is_convex = all(_is_firm(operator, *pair) for pair in pairs)
    return ProximalMap(
        _calling(operator),
        None,
        is_convex=is_convex,
        value_in=lambda x, space: torch.tensor(_value(operator, x), dtype=x.real.dtype),
    )


def _ours(operator: Any, shape: tuple[int, ...]) -> ProximalMap | None:
    """Return our map of the function, if there is one for its class."""
    make = _FORMS.get(type(operator).__name__)
    numbers = vars(operator)
    sigma, is_simple = numbers.get("sigma"), type(operator).__name__ in ("L0", "L1")
    has_weights = getattr(sigma, "ndim", 0) > 0 and not is_simple
    if make is None or callable(sigma) or has_weights or numbers.get("Op") is not None:
        return None
    known, inside = make(operator, shape)
    if tuple(inside) == shape:
        return known
    value = known.value

    def mapped(z: Tensor, step: float) -> Tensor:
        return known(z.reshape(tuple(inside)), step).reshape(z.shape)

    return ProximalMap(mapped, None, value_in=lambda x, space: value(x.reshape(tuple(inside))))


def _array(x: Tensor) -> Any:
    return x.detach().resolve_conj().resolve_neg().reshape(-1).cpu().numpy().copy()


def _value(operator: Any, x: Tensor) -> float:
    """Return the source's value; a set says whether x is in it."""
    found = operator(_array(x))
    return (0.0 if found else math.inf) if isinstance(found, bool) else float(found)


def _prox(operator: Any, z: Tensor, step: float) -> Tensor:
    # A copy, because some operators write into their argument.
    return torch.from_numpy(operator.prox(_array(z), step)).reshape(z.shape).to(z)


def _calling(operator: Any) -> Proximal:
    def proximal(z: Tensor, step: float) -> Tensor:
        if z.requires_grad and torch.is_grad_enabled():
            raise NotImplementedError(
                f"from_pyproximal: z must not require gradients, which {type(operator).__name__} "
                "of PyProximal does not have, got one that does; pass z.detach()"
            )
        return _prox(operator, z, float(step))

    return proximal


def _has_values_of(operator: Any, ours: ProximalMap, points: Sequence[Tensor]) -> bool:
    inside = [ours(z, step) for z in points for step in _STEPS]
    values = [(_value(operator, x), float(ours.value(x))) for x in points]
    # Of a set, its own tolerance decides whether a projection is in it.
    values += [(_value(operator, 0.999 * x), float(ours.value(0.999 * x))) for x in inside]
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in values)


def _near(p: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield points around p, and p with one entry changed."""
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            yield p + scale * torch.randn(p.shape, dtype=p.dtype, generator=generator)
        for entry in range(min(p.numel(), 16)):
            for sign in (-1, 1):
                change = torch.zeros_like(p).view(-1)
                change[entry] = sign * scale
                yield p + change.view_as(p)


def _check_minimum(
    owner: str, operator: Any, points: Sequence[Tensor], generator: torch.Generator
) -> None:
    for z in points:
        for step in _STEPS:
            p = _prox(operator, z, step)
            again = _prox(operator, z, step)
            if not torch.allclose(p, again, rtol=1e-9, atol=1e-12):
                raise ValueError(
                    f"{owner}: prox must be the same in each call, got results of "
                    f"{type(operator).__name__} that differ by {float((p - again).abs().max()):.1g}"
                )
            is_set = isinstance(operator(_array(p)), bool)
            # On the border of a set, rounding decides.
            reached = 0.0 if is_set else _value(operator, p)
            least = reached + float((p - z).square().sum()) / (2 * step)
            others = [z, torch.zeros_like(z), *_near(p, generator)]
            others += [_prox(operator, other, step) for other in points]
            for x in others:
                found = _value(operator, x) + float((x - z).square().sum()) / (2 * step)
                if found < least - 1e-5 * abs(least) - 1e-9:
                    raise ValueError(
                        f"{owner}: prox must minimise operator(x) + |x - z|^2 / 2t, got "
                        f"{least:.6g} from {type(operator).__name__} where {found:.6g} is reached; "
                        "write the map of your function with linops_solvers"
                    )


def _is_firm(operator: Any, a: Tensor, b: Tensor) -> bool:
    """Return whether a map of a convex function can have these two results."""
    return all(
        float((p - q).square().sum()) <= float(((p - q) * (a - b)).sum()) + 1e-9
        for p, q in ((_prox(operator, a, step), _prox(operator, b, step)) for step in _STEPS)
    )
