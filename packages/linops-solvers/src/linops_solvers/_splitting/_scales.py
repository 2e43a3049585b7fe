"""Lengths of dual steps that follow the scales of the functions, and so the units of a problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from .._proximals._proximal import Proximal
from .._proximals._separable import Proximals, maps_of_blocks
from .._shared._precision import OperatorPair
from .._shared._space import Space, norms_of
from .._shared._stacked import StackedOperators

_MOST = 40  # exponent of the longest step that is tried


@torch.no_grad()
def first_sigma(
    K: OperatorPair, penalty: Proximal, maps: Proximals, map_of_g: Proximal, x0: Tensor
) -> float | None:
    """Return the size of the dual step, or None if no map shows a scale.

    Of several operators, each output gets a unit u_k, so that its dual step is that times u_k^2.
    """
    A = K.given[0]
    if not isinstance(A, StackedOperators):
        sigmas = _sigmas(K, lambda z: [z], [penalty], [K.output], map_of_g, x0)
        return None if sigmas is None else sigmas[0]
    if x0.dtype is not K.dtype:  # the range of half precision is too small for such units
        return None
    given = maps_of_blocks(K.owner, "proximal_f", maps, A, K.output, K.dtype)
    spaces = K.output.blocks
    sigmas = _sigmas(K, A.split, given, spaces, map_of_g, x0)
    if sigmas is None:
        return None
    A.units = [math.sqrt(sigma / sigmas[0]) for sigma in sigmas]
    return sigmas[0]


def _sigmas(
    K: OperatorPair,
    split: Callable[[Tensor], Sequence[Tensor]],
    maps: Sequence[Proximal],
    spaces: Sequence[Space],
    map_of_g: Proximal,
    x0: Tensor,
) -> list[float] | None:
    """Return a dual step size for each block of K x; None if a block has no scale.

    It should be |p| / (|K| |x|) at the solution. Where z is K x, a map with the natural step t
    pulls by |z|^2 / t: that is w |z|^2 with w |z - y|^2 / 2, about w |z|_1 with w |z|_1. It pulls
    as much at most, where |p| is |z| / t. All pulls sum to zero at the solution, so at least it
    pulls as much as the others. The step size is the geometric mean of both. A map without a
    natural step, as that of a projection, pulls as much as the others.
    """
    x = _typical(K, split, maps, spaces, map_of_g, x0)
    noise = K.input.random_like(x)
    noise = noise * (_norm(K.input, x) / (_norm(K.input, noise) or 1.0))
    # A typical x is smooth. An operator such as a gradient is small for it, but not for its noise.
    pairs = zip(split(K.forward(x)), split(K.forward(noise)), spaces, strict=True)
    blocks = [max(pair, key=partial(_norm, space)) for *pair, space in pairs]
    terms = [*zip(maps, blocks, spaces, strict=True), (map_of_g, x, K.input)]
    norms = [_norm(space, z) for _, z, space in terms]
    squares = [norm * norm for norm in norms]  # infinite if it is large, where ** raises
    steps = [_natural_step(*term) for term in terms]
    pulls = [square / t if t else 0.0 for square, t in zip(squares, steps, strict=True)]
    sigmas = []
    for pull, square in zip(pulls[:-1], squares[:-1], strict=True):
        others = sum(pulls) - pull
        least = min(pull or others, others or pull)
        sigmas.append(math.sqrt((pull or least) * least) / square if square else 0.0)
    return sigmas if all(0 < sigma < math.inf for sigma in sigmas) else None


def _typical(
    K: OperatorPair,
    split: Callable[[Tensor], Sequence[Tensor]],
    maps: Sequence[Proximal],
    spaces: Sequence[Space],
    map_of_g: Proximal,
    x0: Tensor,
) -> Tensor:
    """Return an x of about the norm of the solution: x0, or one that fits the data of a map."""
    if _norm(K.input, x0):
        return x0
    zeros = torch.zeros_like(K.forward(x0))
    for number, (proximal, space) in enumerate(zip(maps, spaces, strict=True)):
        block = split(zeros)[number]
        data = proximal(block.clone(), 2.0**_MOST)
        if _norm(space, data):
            parts = [data if n == number else part for n, part in enumerate(split(zeros))]
            x = K.adjoint(torch.cat([p.flatten() for p in parts]).reshape(zeros.shape))
            norm_of_x, bent = _norm(K.input, x), _norm(space, split(K.forward(x))[number])
            if norm_of_x and bent:
                return x * (norm_of_x / bent) ** 2
    data = map_of_g(x0.clone(), 2.0**_MOST)
    return data if _norm(K.input, data) else K.input.random_like(x0)


def _natural_step(proximal: Proximal, z: Tensor, space: Space) -> float | None:
    """Return the power of two t for which the map goes half of its way, if there is one."""

    def way(exponent: int) -> float:
        return _norm(space, z - proximal(z.clone(), 2.0**exponent))

    half = way(_MOST) / 2
    low, high = -_MOST, _MOST
    if not half or way(low) >= half:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if way(middle) < half else (low, middle)
    return float(2.0**high)


def _norm(space: Space, x: Tensor) -> float:
    """Return the norm, 0 if it is not finite."""
    return norms_of("pdhg", (space, [x]))[0] if bool(x.isfinite().all()) else 0.0
