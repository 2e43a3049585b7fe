"""Proximal maps derived from others: of a conjugate, and in another basis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import is_unitary

from .._shared._checks import check_callable
from .._shared._space import Space, spaces_of
from ._proximal import Proximal, ProximalMap, check_arguments, checked_proximal, is_infinite


def in_basis(W: NamedLinop, proximal: Proximal) -> ProximalMap:
    r"""The proximal map of :math:`g(x) = f(W x)` for a unitary W, given the proximal map of f.

    It is :math:`\mathrm{prox}_{t g}(z) = W^H \mathrm{prox}_{t f}(W z)`, for instance for an
    orthonormal wavelet transform or a Fourier transform (P. L. Combettes and J.-C. Pesquet,
    "Proximal splitting methods in signal processing", 2011, table 10.1). The result is complex if
    W z is complex.

    Parameters
    ----------
    W : NamedLinop
        Unitary: W.N and W.H.N are identities.
    proximal : function
        The proximal map of f, a function of coefficients and a step.

    Raises
    ------
    TypeError
        If W is not an operator, or ``proximal`` is not a function.
    ValueError
        If W.N or W.H.N is not known to be an identity.

    Examples
    --------
    >>> import torch
    >>> from linops_core import FFT
    >>> from linops_solvers import soft_threshold
    >>> few_waves = in_basis(FFT(1), soft_threshold(1.0))
    >>> few_waves(torch.tensor([1.0, 1.0, 1.0, 1.0]), 1.0).real
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if not isinstance(W, NamedLinop):
        raise TypeError(f"in_basis: W must be a NamedLinop, got {type(W)}")
    if not is_unitary(W):
        raise ValueError(
            f"in_basis: W must be unitary, with identities as W.N and W.H.N, got {W.signature}"
        )

    def of_space(space: Space) -> Proximal:
        _, back = spaces_of("in_basis", W, space)
        inside = checked_proximal(
            "in_basis", "proximal", proximal, torch.float32, back, needs_convex=False
        )
        return lambda z, step: W.H(inside(W(z), step))

    is_convex = not isinstance(proximal, ProximalMap) or proximal.is_convex
    value: Callable[[Tensor, Space], Tensor] | None = None
    if isinstance(proximal, ProximalMap) and (of_image := proximal.value_in) is not None:

        def value(x: Tensor, space: Space) -> Tensor:
            return of_image(W(x), spaces_of("in_basis", W, space)[1])

    return ProximalMap(of_space(Space()), None, of_space, is_convex, value_in=value)


def conjugate(proximal: Proximal) -> ProximalMap:
    r"""The proximal map of the convex conjugate :math:`g^*`, by the identity of Moreau.

    It uses the proximal map of g; see section 2.5 of the reference of :func:`box`. A function that
    is not convex, :func:`l0`, raises a ValueError.

    Examples
    --------
    The conjugate of the 1-norm keeps magnitudes within 1:

    >>> from linops_solvers import soft_threshold
    >>> conjugate(soft_threshold())(torch.tensor([3.0, -0.5]), 7.0)
    tensor([ 1.0000, -0.5000])
    """
    check_callable("conjugate", "proximal", proximal)
    if not isinstance(proximal, ProximalMap):
        return ProximalMap(_conjugate_of(proximal), None)
    if not proximal.is_convex:
        raise ValueError(
            "conjugate: the function must be convex, got a map that is made of l0, "
            "which has no such conjugate"
        )
    map_in = proximal.map_in
    return replace(
        proximal,
        proximal=_conjugate_of(proximal.proximal),
        map_in=map_in and (lambda space: _conjugate_of(map_in(space))),
        value_in=None,
    )


def _conjugate_of(proximal: Proximal) -> Proximal:
    def of_conjugate(z: Tensor, step: float) -> Tensor:
        check_arguments("conjugate", z, step)
        if not isinstance(step, Tensor) and not step:
            raise ValueError("conjugate: step must be positive, got 0; at step 0 use z itself")
        if is_infinite(step):
            raise ValueError("conjugate: step must be finite, got inf; use a large number")
        return z - step * proximal(z / step, 1 / step)

    return of_conjugate
