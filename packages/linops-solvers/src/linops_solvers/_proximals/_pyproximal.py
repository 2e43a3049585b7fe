"""Proximal maps of PyProximal, from the definition of the function, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import check_flags, optional_module

from ._from_values import ExternalFunction, has_values_of, map_of_source, random_points
from ._projections import box, l1_ball, l2_ball
from ._proximal import ProximalMap
from ._quadratics import l2_squared
from ._shrinkage import group_soft_threshold, huber, l0, nuclear_norm, soft_threshold

if TYPE_CHECKING:
    from pyproximal.ProxOperator import ProxOperator

Form: TypeAlias = Callable[[Any, Sequence[int]], tuple[ProximalMap, Sequence[int]]]
"""Our map for an operator of PyProximal, and the shape in which it takes a vector."""


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
        l2_ball(of.radius, _weight(of.center, shape)),
        shape,
    ),
    "Huber": lambda of, shape: (huber(1 / of.alpha, of.alpha), shape),
    "Nuclear": lambda of, shape: (nuclear_norm(float(of.sigma)), of.dim),
}


def from_pyproximal(
    operator: ProxOperator,
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float64,
    by_value: bool = False,
) -> ProximalMap:
    r"""Return the proximal map of the function of a ``ProxOperator`` of PyProximal.

    What counts is the function, ``operator(x)``. If one of our maps has the same values, it is
    returned, also where the operator's ``prox`` is that of another function (``Huber``, ``L0``).
    Otherwise the operator's ``prox`` is called, if it passes the tests of :func:`from_proximal`.

    Parameters
    ----------
    operator : pyproximal.ProxOperator
    shape : sequence of int
        Shape of the tensors that the map gets; PyProximal's vectors are these, flattened.
    dtype, by_value
        As in :func:`from_proximal`.

    Returns
    -------
    ProximalMap
        Ours for ``L1``, ``L2`` without an operator, ``L21``, ``Huber``, ``Box``, ``Euclidean``,
        ``EuclideanBall``, ``L1Ball``, ``Nuclear`` and ``L0`` with ``sigma=1``: with gradients, on
        any device. The others are as in :func:`from_proximal`.

    Raises
    ------
    ImportError
        If PyProximal is not installed (the extra ``pyproximal``).
    TypeError
        If ``operator`` is not a ProxOperator; when called, if z is complex and the tests were not.
    ValueError
        If ``prox`` is not the map of the function, or depends on earlier calls.
    NotImplementedError
        When called, if gradients are recorded and the map is not ours.

    Warns
    -----
    UserWarning
        With ``by_value``, if ``prox`` is not the map of the function.
    """
    check_flags("from_pyproximal", by_value=by_value)
    owner = "from_pyproximal"
    if not isinstance(
        operator, optional_module("pyproximal", owner, package="linops-solvers").ProxOperator
    ):
        raise TypeError(f"{owner}: operator must be a ProxOperator, got {type(operator)}")
    source = ExternalFunction(
        owner,
        f"{type(operator).__name__} of PyProximal",
        lambda x: operator(x.reshape(-1)),
        lambda z, step: operator.prox(z.reshape(-1), step),
    )
    ours, points = _ours(operator, tuple(shape)), random_points(tuple(shape), torch.float64)
    if ours is not None and has_values_of(source, ours, points):
        return ours
    return map_of_source(source, tuple(shape), dtype, by_value)


def to_pyproximal(proximal: ProximalMap, shape: Sequence[int]) -> ProxOperator:
    """Return a proximal map as a ``ProxOperator`` of PyProximal, which its solvers take.

    Parameters
    ----------
    proximal : ProximalMap
        One of ours, or your own with its value (:func:`separable`).
    shape : sequence of int
        Shape of the tensors that the map gets; PyProximal's vectors are these, flattened.

    Returns
    -------
    pyproximal.ProxOperator
        On NumPy vectors, in their dtype.

    Raises
    ------
    ImportError
        If PyProximal is not installed (the extra ``pyproximal``).
    TypeError
        If ``proximal`` is not a ProximalMap.
    NotImplementedError
        When its value is asked for, if only the map is known.
    """
    owner = "to_pyproximal"
    if not isinstance(proximal, ProximalMap):
        raise TypeError(f"{owner}: proximal must be a ProximalMap, got {type(proximal)}")
    return _operator_class(
        optional_module("pyproximal", owner, package="linops-solvers").ProxOperator
    )(proximal, tuple(shape))


@cache
def _operator_class(base: Any) -> Any:
    """Return the class of PyProximal's operators that hold one of our maps."""

    class MapOperator(base):  # type: ignore[misc]  # which is known once PyProximal is imported
        def __init__(self, proximal: ProximalMap, shape: tuple[int, ...]) -> None:
            super().__init__(None, False)
            self.proximal, self.shape = proximal, shape

        def _tensor(self, x: Any) -> Tensor:
            return torch.from_numpy(x.copy()).reshape(self.shape)

        def __call__(self, x: Any) -> float:
            return float(self.proximal.value(self._tensor(x)))

        def prox(self, x: Any, tau: float, **_: object) -> Any:
            return self.proximal(self._tensor(x), float(tau)).reshape(x.shape).numpy()

    return MapOperator


def _ours(operator: Any, shape: tuple[int, ...]) -> ProximalMap | None:
    """Return our map of the function, if there is one for its class."""
    make = _FORMS.get(type(operator).__name__)
    numbers = vars(operator)
    sigma, is_simple = numbers.get("sigma"), type(operator).__name__ in ("L0", "L1")
    has_weights = getattr(sigma, "ndim", 0) > 0 and not is_simple
    if make is None or callable(sigma) or has_weights or numbers.get("Op") is not None:
        return None
    result, inside = make(operator, shape)
    if tuple(inside) == shape:
        return result
    value = result.value

    def mapped(z: Tensor, step: float) -> Tensor:
        return result(z.reshape(tuple(inside)), step).reshape(z.shape)

    return ProximalMap(mapped, None, value_in=lambda x, space: value(x.reshape(tuple(inside))))
