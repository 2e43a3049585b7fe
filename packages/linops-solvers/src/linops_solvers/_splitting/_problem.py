"""The problems that these methods solve: least squares with a penalty, or a sum of functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from linops_core.siblings import check_vector

from .._proximals._proximal import Proximal, checked_proximal, function_of_map, map_sketch
from .._proximals._separable import Proximals, map_of_all_blocks
from .._shared._adjoint_check import check_adjoint
from .._shared._checks import check_like, check_unchanged, version_of
from .._shared._precision import OperatorPair, at_least_single, in_given_precision
from .._shared._products import LARGEST_OF_PRODUCTS, is_moderate
from .._shared._space import Space
from .._shared._stacked import Operators, Vectors, one_vector, stacked_operator


class PenalizedProblem:
    """|A x - y|^2 / 2 + g(L x), in at least single precision; in the units of an extreme A and y.

    In these units, a step is one over the square of the unit of A longer, and x is the unit of y
    over that of A.
    """

    def __init__(
        self,
        owner: str,
        A: Operators,
        adjoint: Operators | None,
        y: Vectors,
        proximal: Proximals,
        x0: Tensor | None,
        L: Operators | None = None,
        L_adjoint: Operators | None = None,
        *,
        needs_convex: bool = True,
    ) -> None:
        A, adjoint = stacked_operator(owner, "A", A, adjoint)
        y = one_vector(owner, "y", y, A)
        check_vector(owner, "y", y)
        self.owner, self.dtype = owner, y.dtype
        self.A = OperatorPair(owner, A, adjoint, y.dtype)
        self.y, self.unit = at_least_single(y), 1.0
        space = self.A.input
        if L is None:
            self.L = OperatorPair(owner, _itself, _itself, self.y.dtype, spaces=(space, space))
        else:
            L, L_adjoint = stacked_operator(owner, "L", L, L_adjoint)
            self.L = OperatorPair(owner, L, L_adjoint, y.dtype, "L", input_space=space)
            proximal = map_of_all_blocks(owner, "proximal", proximal, L, self.L.output)
        one = cast(Proximal, proximal)  # checked_proximal refuses a sequence
        self.proximal = given = checked_proximal(
            owner, "proximal", one, y.dtype, self.L.output, needs_convex=needs_convex
        )
        self._value = function_of_map(one, self.L.output)
        unit = self.A.output.unit_of(owner, self.y)
        if self.y.dtype != self.dtype or not is_moderate(unit):  # half precision has a small range
            self.y, self.unit = self.y / unit, unit
        self.target = self.A.adjoint(self.y)
        self.A, self.unit_of_A = self.A.in_moderate_unit(
            space.unit_of(owner, self.target), LARGEST_OF_PRODUCTS, self.target
        )
        if self.unit_of_A != 1:
            self.target = self.target / self.unit_of_A
        self.unit_of_x = of_x = self.unit / self.unit_of_A
        if of_x != 1 or self.unit_of_A != 1:
            square = self.unit_of_A**2
            self.proximal = lambda z, step: given(z * of_x, step / square) / of_x
        self._normal = self.A.normal()
        self._version = version_of(self.target)
        check_adjoint(self.A, self.y, self.target)
        self.norm_of_target, self.norm_of_y = self.A.norms_of([self.target], [self.y])
        self.x0: Tensor | None = None
        if x0 is not None:
            check_vector(owner, "x0", x0)
            self.x0 = at_least_single(x0) / of_x
            check_like(owner, "x0", self.x0, "the output of the adjoint", self.target)

    def first(self) -> Tensor:
        """Return x0, or zeros."""
        return torch.zeros_like(self.target) if self.x0 is None else self.x0

    def normal(self, x: Tensor) -> Tensor:
        """Return A^H A x, by the closed form where there is one."""
        image = self._normal(x)
        check_like(self.owner, "the output of the adjoint", image, "x", x)
        return image

    def gradient(self, x: Tensor) -> Tensor:
        """Return A^H (A x - y)."""
        image = self.normal(x)
        check_unchanged(self.owner, "A", self.target, self._version, image)
        return image - self.target

    def fingerprint(self) -> dict[str, tuple[Space, Tensor]]:
        """Return vectors that tell this problem from another one, for a checkpoint."""
        pair, split, x = self.A, self.L, self.first()
        vectors = {"y": (pair.output, self.y), "x0": (pair.input, x), **pair.sketch(x)}
        if split.name == "L":
            vectors |= split.sketch(x)
        image = split.forward(pair.input.random_like(x.detach()))
        sketch = map_sketch(self.proximal, image, self.dtype, self.unit_of_x)
        return {**vectors, "the proximal map": (split.output, sketch)}

    def misfit(self, x: Tensor) -> float:
        """Return |A x - y|."""
        return self.A.norms_of([], [self.A.forward(x) - self.y])[0]

    def objective(self, misfit: Callable[[], float], z: Tensor) -> dict[str, float]:
        """Return |A x - y|^2 / 2 + g(z), asking for the norm; nothing if only a map is known."""
        if self._value is None:
            return {}
        norm = misfit() * self.unit
        # A product of large numbers is infinite, where a power of one raises OverflowError.
        return {"objective": norm * norm / 2 + self._value(z * self.unit_of_x).item()}

    def result(self, x: Tensor) -> Tensor:
        """Return x in the unit and the precision of y, in new memory."""
        space, unit = self.A.input, self.unit_of_x
        return in_given_precision(self.owner, x, self.dtype, unit, space, of_y=self.unit)


class TwoFunctions:
    """f and g of a sum, in at least single precision, each by its proximal map and its space."""

    def __init__(
        self,
        owner: str,
        f: tuple[Proximal, Space],
        g: tuple[Proximal, Space],
        dtype: torch.dtype,
    ) -> None:
        self._values = function_of_map(*f), function_of_map(*g)
        (map_of_f, space_of_f), (map_of_g, space_of_g) = f, g
        self.f = checked_proximal(owner, "proximal_f", map_of_f, dtype, space_of_f)
        self.g = checked_proximal(owner, "proximal_g", map_of_g, dtype, space_of_g)

    def objective(self, of_f: Tensor, of_g: Callable[[], Tensor]) -> dict[str, float]:
        """Return the sum for the arguments of f and g; nothing if only a map is known.

        That of g is only asked for if there is a sum.
        """
        f, g = self._values
        return {"objective": (f(of_f) + g(of_g())).item()} if f and g else {}


def floors_of(eps_abs: float, *vectors: tuple[Space, Tensor]) -> list[float]:
    """Return the absolute tolerances of residuals that are like these vectors."""
    counts = [space.count(x) if eps_abs else 0 for space, x in vectors]
    return [eps_abs * math.sqrt(count) for count in counts]


def _itself(x: Tensor) -> Tensor:
    return x
