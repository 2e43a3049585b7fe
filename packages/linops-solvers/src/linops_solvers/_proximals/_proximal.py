r"""Proximal maps :math:`\mathrm{prox}_{t g}(z) = \arg\min_x g(x) + |x - z|^2 / 2t`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import (
    check_flags,
    check_real,
    is_differentiated,
    is_integer,
    real_parts,
)

from .._shared._checks import check_callable, check_like
from .._shared._precision import applied_in_half, at_least_single, to_half
from .._shared._space import Space

Proximal: TypeAlias = Callable[[Tensor, float], Tensor]
"""A proximal map: a function of a tensor z and a step t that returns a tensor like z."""


@dataclass(frozen=True)
class ProximalMap:
    """A proximal map with the properties of its function that solvers need."""

    proximal: Proximal
    dims: tuple[int, ...] | None = ()
    """The axes whose entries depend on each other; () if it is separable, None for all axes."""
    map_in: Callable[[Space], Proximal] | None = None
    """The same map for a vector in a space, if that is a different function."""
    is_convex: bool = True
    owner: str | None = None
    """The name in messages about its arguments; None if they are not checked."""
    value_in: Callable[[Tensor, Space], Tensor] | None = None
    """The function itself, of a vector in a space; None if it is not known."""

    def __post_init__(self) -> None:
        check_flags("ProximalMap", is_convex=self.is_convex)

    def __call__(self, z: Tensor, step: float) -> Tensor:
        """Apply the map; in single precision where z is in half precision."""
        if self.owner is None:
            return self.proximal(z, step)
        check_arguments(self.owner, z, step)
        return to_half(self.proximal(at_least_single(z), step), z.dtype)

    def value(self, x: Tensor) -> Tensor:
        """Return g(x), a real number: the function whose proximal map this is.

        For a set it is 0 within the set, up to rounding, and infinity elsewhere.

        Raises
        ------
        NotImplementedError
            If only the map is known: for a map of your own, or :func:`conjugate`.
        """
        if self.value_in is None:
            raise NotImplementedError(
                f"{self.owner or 'the proximal map'}: only the map is known, and not its function; "
                "give separable(map, value=function)"
            )
        if self.owner is not None:
            check_arguments(self.owner, x, 0.0)
        return self.value_in(x, Space())


def sum_over_parts(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Space], Tensor]:
    """Return the value of a function of which the numbers of all parts of a vector are added."""
    return lambda x, space: space.sum_of(lambda part: function(at_least_single(part)), x)


def squared_magnitudes(x: Tensor) -> Tensor:
    """Return |x|^2 of each entry.

    The second derivative of ``x.abs().square()`` is 0 in torch where x is 0; that of this is 2.
    """
    return real_parts(x).square().sum(-1) if x.is_complex() else x.square()


def absolute_values(x: Tensor) -> Tensor:
    """Return |x| of each entry, with a finite derivative.

    That of torch is NaN for complex numbers below 3e-39 in single precision, such as those of the
    tail of a Gaussian.
    """
    if x.is_complex() and is_differentiated(x):
        x = torch.where(x.detach().abs() < torch.finfo(x.dtype).tiny, 0, x)
    return x.abs()


def indicator(excess: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Space], Tensor]:
    """Return 0 if the relative ``excess`` of each part is that of rounding, else infinity."""
    return sum_over_parts(lambda part: indicator_value(excess(part)))


def indicator_value(excess: Tensor) -> Tensor:
    """Return 0 if no relative excess is more than rounding, else infinity."""
    is_within = (excess <= 64 * torch.finfo(excess.dtype).eps).all()  # False for NaN
    return torch.where(is_within, 0.0, math.inf).to(excess)


def function_of_map(proximal: Proximal, space: Space) -> Callable[[Tensor], Tensor] | None:
    """Return the function of a proximal map, of vectors in a space; None if it is not known."""
    value = proximal.value_in if isinstance(proximal, ProximalMap) else None
    return None if value is None else lambda x: value(x, space)


def separable(
    proximal: Proximal,
    value: Callable[[Tensor], Tensor] | None = None,
    *,
    dims: int | Sequence[int] | None = (),
) -> ProximalMap:
    """Say of your own proximal map that it changes each entry by itself, or only along some axes.

    If several processes have a part of each vector, solvers accept such maps, unless vectors are
    cut along one of the axes, and refuse other functions. A map that knows its axes keeps them.

    Parameters
    ----------
    proximal : function
        A function of z and t.
    value : function, optional
        The function g itself, as a tensor with one real number. Solvers then report the objective.
    dims : int or sequence of int, optional
        The axes along which entries depend on each other; None for all axes. By default there are
        none.

    Examples
    --------
    >>> import torch
    >>> positive = separable(lambda z, step: z.clamp(min=0))
    >>> positive(torch.tensor([-1.0, 2.0]), 1.0)
    tensor([0., 2.])
    >>> quartic = separable(lambda z, step: z, value=lambda x: x.pow(4).sum())
    >>> quartic.value(torch.tensor([1.0, 2.0]))
    tensor(17.)
    """
    check_callable("separable", "proximal", proximal)
    axes = checked_axes("separable", dims) if dims != () else ()
    proximal_map = proximal if isinstance(proximal, ProximalMap) else ProximalMap(proximal, axes)
    if value is None:
        return proximal_map
    check_callable("separable", "value", value)
    return replace(proximal_map, value_in=sum_over_parts(partial(_checked_value, value)))


def _checked_value(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    value = function(x)
    if not isinstance(value, Tensor) or value.ndim or value.is_complex():
        what = (
            f"shape {tuple(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else value
        )
        raise TypeError(
            "separable: value must return a tensor with one real number, without dimensions, got "
            f"{what}; sum over the entries, as x.abs().sum()"
        )
    return value


def map_on_parts(owner: str, name: str, proximal: Proximal, space: Space) -> Proximal:
    """Return the map for parts of vectors; raise an error if it needs the whole vector."""
    if space.is_whole:
        return proximal
    if not isinstance(proximal, ProximalMap):
        raise NotImplementedError(
            f"{owner}: {name} must be marked as separable if several processes each have a part of "
            f"its argument, got {proximal!r}; if it is separable, wrap it in "
            "linops_solvers.separable"
        )
    if proximal.map_in is not None:
        return replace(proximal, proximal=proximal.map_in(space), map_in=None)
    dims, axes = proximal.dims, space.cut
    if dims == ():
        return proximal
    names = ", ".join(sorted(map(str, space.totals.cut)))
    complaint = (
        f"{owner}: {name} must not couple entries along {names}, because it is cut over several "
        "processes, got a map that does"
    )
    if dims is None or axes is None:
        raise NotImplementedError(complaint)

    def uncut(z: Tensor, step: float) -> Tensor:
        if {dim % z.ndim for dim in dims} & {axis % z.ndim for axis in axes}:
            raise NotImplementedError(f"{complaint}, along the axes {dims}")
        return proximal(z, step)

    return ProximalMap(uncut, is_convex=proximal.is_convex)


_ANNOTATIONS = ("Proximal", "ProximalMap", Proximal, ProximalMap)
"""What factories of proximal maps return."""


def checked_proximal(
    owner: str,
    name: str,
    proximal: Proximal,
    dtype: torch.dtype,
    space: Space | None = None,
    *,
    needs_convex: bool = True,
) -> Proximal:
    """Return the map for solvers; raise an error unless it is a function of z and t.

    For half precision it is the map in single precision. If processes have parts of the vectors, it
    is the map for parts. A function that is known not to be convex is refused, unless the caller
    allows it.
    """
    if isinstance(proximal, (list, tuple)):
        raise TypeError(
            f"{owner}: {name} must be one proximal map, got {len(proximal)}; for several "
            "proximal maps, give as many operators, as L of admm or K of pdhg"
        )
    check_callable(owner, name, proximal)
    # A factory that was not called, of ours or with the same annotation.
    if getattr(proximal, "__annotations__", {}).get("return") in _ANNOTATIONS:
        factory = getattr(proximal, "__name__", repr(proximal))
        arguments = "..." if inspect.signature(proximal).parameters else ""
        raise TypeError(
            f"{owner}: {name} must be a function of z and t, got {factory}, which must be called "
            f"to make one: {factory}({arguments})"
        )
    try:
        inspect.signature(proximal).bind(None, None)
    except TypeError as error:
        wanted = f"{name} must be a function of z and t"
        raise TypeError(f"{owner}: {wanted}, got {proximal!r}: {error}") from None
    except ValueError:
        pass  # some functions in C have no signature
    if needs_convex and isinstance(proximal, ProximalMap) and not proximal.is_convex:
        raise ValueError(
            f"{owner}: the function of {name} must be convex, got a map that is made of l0, with "
            "which the steps may not converge; linops_solvers.proximal_gradient takes it"
        )
    proximal = map_on_parts(owner, name, proximal, space or Space())
    inside = applied_in_half(owner, proximal, dtype, name, may_write=True)

    def apply(z: Tensor, step: float) -> Tensor:
        x = inside(z, step)
        check_like(owner, f"what {name} returns", x, "its argument", z)
        return x

    return apply


def map_sketch(proximal: Proximal, z: Tensor, dtype: torch.dtype, unit: float = 1.0) -> Tensor:
    """Return a sum of results for z at scales from 1e-7 to 1e7, which differs between maps.

    At one scale alone, thresholds above it would all give 0, and bounds above it would give z.
    Other scales than 1 are left out if squares, in the unit of the map, leave the range of the
    dtype.
    """
    range_of = torch.finfo(dtype)
    lowest, highest = math.sqrt(range_of.tiny) / unit, math.sqrt(range_of.max) / unit
    scales = [16.0**exponent for exponent in range(-6, 7)]
    scales = [scale for scale in scales if scale == 1 or lowest < scale < highest]
    # In new memory each, because a map may write into its argument, or into its last result.
    return reduce(torch.add, (proximal(z * scale, 1.0) / scale for scale in scales))


def checked_weight(owner: str, weight: float | Tensor) -> float | Tensor:
    """Return the weight of a penalty in at least single precision; it must not be negative."""
    if not isinstance(weight, Tensor):
        return check_real(owner, "weight", weight, 0)
    weight = at_least_single(weight)
    if weight.is_complex() or not bool(((weight >= 0) & weight.isfinite()).all()):
        raise ValueError(f"{owner}: weight must be at least 0 and finite, got {weight}")
    return weight


def check_arguments(owner: str, z: Tensor, step: float) -> None:
    """Raise an error for a tensor that cannot hold the result, or a negative step."""
    if not isinstance(z, Tensor):
        raise TypeError(
            f"{owner}: x must be a torch.Tensor, got {type(z)}; convert it by torch.as_tensor(x)"
        )
    if not isinstance(step, Tensor):
        check_real(owner, "step", step, 0, may_be_inf=True)
    if not (z.is_floating_point() or z.is_complex()):
        raise TypeError(
            f"{owner}: x must have floating-point or complex numbers, got {z.dtype}; convert it by "
            "x.float()"
        )


def fitted_weight(
    owner: str, weight: float | Tensor, x: Tensor, name: str = "weight"
) -> float | Tensor:
    """Return a weight or a centre in the precision of x; it must broadcast to the shape of x."""
    is_complex = isinstance(weight, complex) or (isinstance(weight, Tensor) and weight.is_complex())
    if is_complex and not x.is_complex():
        raise TypeError(f"{owner}: {name} must be real for real x, got {weight}")
    if not isinstance(weight, Tensor):
        return weight
    lengths = zip(reversed(weight.shape), reversed(x.shape), strict=False)
    if weight.ndim > x.ndim or any(size not in (1, length) for size, length in lengths):
        raise ValueError(
            f"{owner}: {name} must be broadcast to {tuple(x.shape)}, got shape "
            f"{tuple(weight.shape)}"
        )
    return weight.to(x.dtype if is_complex else x.dtype.to_real())


def is_infinite(step: float) -> bool:
    """Return whether a step is infinite: the map then gives the nearest minimiser of g."""
    return not isinstance(step, Tensor) and step == math.inf


def weight_and_step(
    owner: str, weight: float | Tensor, x: Tensor, step: float
) -> tuple[float | Tensor, float]:
    """Return a weight in the precision of x, and the step; an infinite step is in the weight.

    Their product is then not NaN where the weight is 0.
    """
    fitted = fitted_weight(owner, weight, x)
    if not is_infinite(step):
        return fitted, step
    if isinstance(fitted, Tensor):
        return torch.where(fitted > 0, math.inf, fitted), 1.0
    return math.inf if fitted else 0.0, 1.0


def checked_axes(owner: str, dim: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the axes that are given, or None for all of them."""
    if dim is None:
        return None
    dims = tuple(dim) if isinstance(dim, Iterable) else (dim,)
    if not dims or not all(map(is_integer, dims)):
        raise TypeError(f"{owner}: dim must be one or several integers, got {dim!r}")
    return dims


def axes_of(owner: str, dims: Sequence[int] | None, x: Tensor) -> tuple[int, ...]:
    """Return the axes of x as sorted numbers that are not negative."""
    if dims is None:
        return tuple(range(x.ndim))
    axes = {each + x.ndim * (each < 0) for each in dims}
    if len(axes) < len(dims) or not axes <= set(range(x.ndim)):
        given = dims[0] if len(dims) == 1 else tuple(dims)
        raise ValueError(
            f"{owner}: dim must be different axes of x, got {given!r} for shape {tuple(x.shape)}"
        )
    return tuple(sorted(axes))
