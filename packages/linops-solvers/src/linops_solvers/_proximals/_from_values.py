"""Proximal maps of other libraries, from the definition of the function: its value."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from linops_core.siblings import check_flags

from ._proximal import Proximal, ProximalMap
from ._quadratics import l2_squared
from ._shrinkage import group_soft_threshold, l0, nuclear_norm, soft_threshold

# On both sides of 1: with a step of 1 alone, a map that ignores its step would pass.
_STEPS = (0.4, 1.7)


@dataclass(frozen=True)
class ExternalFunction:
    """A function of another library and its map, both on NumPy arrays of the given shape."""

    owner: str
    name: str
    value_of: Callable[[Any], Any]
    map_of: Callable[[Any, float], Any]

    def value(self, x: Tensor) -> float:
        """Return the source's value; a set says whether x is in it."""
        value = self.value_of(_array(x))
        if _is_bool(value):
            return 0.0 if value else math.inf
        return float(value.real)

    def is_set_at(self, x: Tensor) -> bool:
        """Return whether the value says only whether x is in a set."""
        return _is_bool(self.value_of(_array(x)))

    def prox(self, z: Tensor, step: float) -> Tensor:
        """Return what the source's map makes of a copy, as some write into their argument."""
        result = torch.tensor(self.map_of(_array(z), step))
        return result.reshape(z.shape).to(z.device, torch.promote_types(result.dtype, z.dtype))

    def calling(self, dtype: torch.dtype) -> Proximal:
        """Return the source's map, for tensors of the kind with which it was tested."""

        def proximal(z: Tensor, step: float) -> Tensor:
            if z.requires_grad and torch.is_grad_enabled():
                raise NotImplementedError(
                    f"{self.owner}: z must not require gradients, which {self.name} does not have, "
                    "got one that does; pass z.detach()"
                )
            if z.is_complex() and not dtype.is_complex:
                raise TypeError(
                    f"{self.owner}: z must be real, as {self.name} was tested with {dtype}, got "
                    f"{z.dtype}; pass dtype=torch.complex128"
                )
            return self.prox(z, float(step)).to(z.dtype)

        return proximal


def from_proximal(
    value: Callable[[Any], Any],
    proximal: Callable[[Any, float], Any],
    shape: Sequence[int],
    *,
    dtype: torch.dtype = torch.float64,
    by_value: bool = False,
) -> ProximalMap:
    r"""Return the proximal map of a function of another library, of which value and map are given.

    It is for every library whose maps are functions of NumPy arrays, such as SPORCO, pyunlocbox and
    SCICO. What counts is ``value``. ``proximal`` must pass these tests at random points: it returns
    the same twice, and no other point that is tried has a smaller
    :math:`g(x) + |x - z|^2 / 2t`.

    Parameters
    ----------
    value : function
        g: a number for an array; for a set True and False.
    proximal : function
        Its map, ``proximal(array, t)``.
    shape : sequence of int
        Shape of the arrays.
    dtype : torch.dtype
        float64 or complex128: the numbers of the tests. The map takes complex tensors only if it
        was tested with them.
    by_value : bool
        What to do if ``proximal`` is not the map of ``value``: by default it is refused. If True,
        ours is returned with a warning, if one of ours has this value.

    Returns
    -------
    ProximalMap
        Ours if ``value`` is that of a multiple of ``l0``, ``soft_threshold``, ``l2_squared``,
        ``group_soft_threshold`` or ``nuclear_norm``: with gradients, on any device. Otherwise
        ``proximal`` is called on the CPU, without gradients. The map is marked as convex unless the
        tests show that it is not.

    Raises
    ------
    TypeError
        When called, if z is complex and the tests were not.
    ValueError
        If ``proximal`` is not the map of ``value``, or depends on earlier calls.
    NotImplementedError
        When called, if gradients are recorded and the map is not ours.

    Warns
    -----
    UserWarning
        With ``by_value``, if ``proximal`` is not the map of ``value``.

    Examples
    --------
    >>> import torch
    >>> from linops_solvers import from_proximal
    >>> def shrunk(z, t):
    ...     return z / (1 + t)
    >>> ours = from_proximal(lambda x: (x**2).sum() / 2, shrunk, (3,))
    >>> ours(torch.tensor([1.0, 2.0, 4.0]), 1.0)
    tensor([0.5000, 1.0000, 2.0000])
    """
    check_flags("from_proximal", by_value=by_value)
    name = getattr(proximal, "__qualname__", repr(proximal))
    source = ExternalFunction("from_proximal", name, value, proximal)
    return map_of_source(source, tuple(shape), dtype, by_value)


def map_of_source(
    source: ExternalFunction, shape: tuple[int, ...], dtype: torch.dtype, by_value: bool
) -> ProximalMap:
    """Return the map of :func:`from_proximal`."""
    if dtype not in (torch.float64, torch.complex128):
        raise TypeError(f"{source.owner}: dtype must be float64 or complex128, got {dtype}")
    points, generator = random_points(shape, dtype), torch.Generator().manual_seed(1)
    ours = _map_with_values_of(source, points)
    complaint = _what_is_wrong(source, points, generator)
    if ours is not None:
        if complaint is None:
            return ours
        if by_value:
            warnings.warn(f"{complaint}; the map of its value is used", UserWarning, stacklevel=3)
            return ours
    if complaint is not None:
        advice = "write the map of your function with linops_solvers"
        if ours is not None:
            advice = "pass by_value=True for the map of its value"
        raise ValueError(f"{complaint}; {advice}")
    pairs = [(a, b) for i, a in enumerate(points) for b in points[:i]]
    pairs += [(z, z + 0.1 * _random(z, generator)) for z in points]
    return ProximalMap(
        source.calling(dtype),
        None,
        is_convex=all(_is_firm(source, *pair) for pair in pairs),
        value_in=lambda x, space: torch.tensor(source.value(x), dtype=x.real.dtype),
    )


def random_points(shape: tuple[int, ...], dtype: torch.dtype) -> list[Tensor]:
    """Return random points of several scales."""
    generator = torch.Generator().manual_seed(0)
    scales = (0.5, 1.0, 2.0, 4.0)
    return [scale * torch.randn(shape, dtype=dtype, generator=generator) for scale in scales]


def has_values_of(source: ExternalFunction, ours: ProximalMap, points: Sequence[Tensor]) -> bool:
    """Return whether our function has the values of the source, also at points of our map."""
    inside = [ours(z, step) for z in points for step in _STEPS]
    values = [(source.value(x), float(ours.value(x))) for x in points]
    # Of a set, its own tolerance decides whether a projection is in it.
    values += [(source.value(0.999 * x), float(ours.value(0.999 * x))) for x in inside]
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in values)


def _map_with_values_of(source: ExternalFunction, points: Sequence[Tensor]) -> ProximalMap | None:
    """Return a multiple of one of our maps that has the source's values."""
    makers: list[Callable[[float], ProximalMap]] = [l0, soft_threshold, l2_squared]
    n_dims = points[0].ndim
    axes: list[int | tuple[int, ...]] = [*range(n_dims), tuple(range(n_dims))]
    makers += [partial(group_soft_threshold, dim=each) for each in axes]
    makers += [nuclear_norm] if n_dims == 2 else []
    for make in makers:
        unit = float(make(1.0).value(points[0])) or math.inf  # 0 only without entries
        weight = source.value(points[0]) / unit
        if 0 < weight < math.inf:
            ours = make(weight)
            if has_values_of(source, ours, points):
                return ours
    return None


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def _array(x: Tensor) -> Any:
    return x.detach().resolve_conj().resolve_neg().cpu().numpy().copy()


def _random(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, generator=generator)


def _near(p: Tensor, z: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield points around p, and p with one entry changed."""
    entries = range(min(p.numel(), 16))

    def changed(entry: int, value: Tensor) -> Tensor:
        x = p.clone()
        x.view(-1)[entry] = value
        return x

    for entry in entries:
        yield changed(entry, torch.zeros((), dtype=p.dtype))
        yield changed(entry, z.reshape(-1)[entry])
    units = (1, -1, 1j, -1j) if p.is_complex() else (1, -1)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            yield p + scale * _random(p, generator)
        for entry in entries:
            for unit in units:
                yield changed(entry, p.view(-1)[entry] + scale * unit)


def _what_is_wrong(
    source: ExternalFunction, points: Sequence[Tensor], generator: torch.Generator
) -> str | None:
    """Return why the source's map is not that of its value, or None."""
    for z in points:
        for step in _STEPS:
            p, again = source.prox(z, step), source.prox(z, step)
            if not torch.allclose(p, again, rtol=1e-9, atol=1e-12):
                return (
                    f"{source.owner}: prox must be the same in each call, got results of "
                    f"{source.name} that differ by {float((p - again).abs().max()):.1g}"
                )
            # A projection is on the border of a set, where rounding decides whether it is in it.
            reached = 0.0 if source.is_set_at(p) else source.value(p)
            least = reached + float((p - z).abs().square().sum()) / (2 * step)
            others = [z, torch.zeros_like(z), *_near(p, z, generator)]
            others += [source.prox(other, step) for other in points]
            for x in others:
                envelope = source.value(x) + float((x - z).abs().square().sum()) / (2 * step)
                if envelope < least - 1e-5 * abs(least) - 1e-9:
                    return (
                        f"{source.owner}: prox must minimise f(x) + |x - z|^2 / 2t, got "
                        f"{least:.6g} from {source.name} where {envelope:.6g} is reached"
                    )
    return None


def _is_firm(source: ExternalFunction, a: Tensor, b: Tensor) -> bool:
    """Return whether a map of a convex function can have these two results."""
    return all(
        float((p - q).abs().square().sum()) <= float(((p - q).conj() * (a - b)).sum().real) + 1e-9
        for p, q in ((source.prox(a, step), source.prox(b, step)) for step in _STEPS)
    )
