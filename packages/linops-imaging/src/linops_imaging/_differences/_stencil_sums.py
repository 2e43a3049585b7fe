"""The base class of finite differences: sums of stencils between components of fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from linops_core import GridNames, GridOperator, NamedLinop, Role, linear_function
from linops_core.siblings import Memo
from nameddim import ND, NamedDimension, NamedShape, as_dims

from .._checks import sizes_of_grid
from ._stencil import (
    BOUNDARIES,
    Run,
    SlicePair,
    Stencil,
    StencilPlan,
    Term,
    apply_stencil_plan,
    stencil_plan,
    stencil_runs,
)

Dim: TypeAlias = NamedDimension | str


_PLANS = {way: Memo[StencilPlan]() for way in ("forward", "back")}
"""The plans of the forward and of the adjoint operator."""


class StencilSums(GridOperator[SlicePair]):
    """The base class of finite differences; subclasses give the stencils."""

    saved_with: ClassVar[tuple[type, ...]] = (SlicePair, Run, Term)

    is_real = True
    grid_keys = ("grid", "result")

    def __init__(
        self,
        dims: Sequence[Dim],
        sizes: Sequence[int],
        stencil: Stencil,
        boundary: str,
        shape: Sequence[Dim] | None,
        to: Sequence[Dim] | None,
        terms: Sequence[Term],
        of: Dim | None = None,
        into: Dim | None = None,
    ) -> None:
        owner = type(self).__name__
        if boundary not in BOUNDARIES:
            raise ValueError(f"{owner}: boundary must be one of {[*BOUNDARIES]}, got {boundary!r}")
        names = GridNames.along(owner, dims, shape, to)
        lengths = sizes_of_grid(owner, sizes, len(names.grid), name="sizes")
        sides = as_dims(() if of is None else (of,)), as_dims(() if into is None else (into,))
        if of is not None and sides[0] == sides[1]:
            raise ValueError(f"{owner}: in_dim and out_dim must differ, got {of!r} for both")
        whole = NamedShape(
            (*sides[0], *names.names),
            (*sides[1], *names.output),
            batch_shape=names.batch,
            grid=names.grid,
            result=names.result,
            in_component=sides[0],
            out_component=sides[1],
        )
        n_inputs = 1 + max(term.input for term in terms)
        n_outputs = 1 + max(term.output for term in terms)
        pairs = [SlicePair(range(n), range(n)) for n in lengths]
        axes = [*pairs, SlicePair(range(n_inputs), range(n_outputs))]
        super().__init__(whole, axes, names.is_free)
        self._runs: list[Sequence[Run]] = [stencil_runs(stencil, n, boundary) for n in lengths]
        self._terms = tuple(terms)
        factors = (*stencil.values(), *(term.factor for term in terms))
        self._keeps_integers = all(isinstance(factor, int) for factor in factors)

    @staticmethod
    def fn(linop: StencilSums, x: Tensor, /) -> Tensor:
        """Return the sums."""
        return linear_function(linop._forward, linop._back, linop._countable(x))

    @staticmethod
    def adj_fn(linop: StencilSums, x: Tensor, /) -> Tensor:
        """Return the adjoint applied to x."""
        return linear_function(linop._back, linop._forward, linop._countable(x))

    def _countable(self, x: Tensor) -> Tensor:
        """Return x in a dtype that can hold the result, with lazy conjugates resolved."""
        if x.is_floating_point() or x.is_complex():
            return x.resolve_conj().resolve_neg()
        return x.long() if self._keeps_integers else x.to(torch.get_default_dtype())

    @property
    def _numbers(self) -> list[int]:
        """The axes of the grid, which follow the axis of the components."""
        shift = not self.shape.other_shapes["in_component"]
        return [axis + shift if axis >= 0 else axis for axis in self.grid_axes[0]]

    def _forward(self, x: Tensor) -> Tensor:
        of, into = self.axis_dims[-1]
        x = x if of else x.unsqueeze(0)
        y = apply_stencil_plan(x, self._plan("forward"), self._numbers)
        return y if into else y.squeeze(0)

    def _back(self, y: Tensor) -> Tensor:
        of, into = self.axis_dims[-1]
        y = y if into else y.unsqueeze(0)
        x = apply_stencil_plan(y, self._plan("back"), self._numbers)
        return x if of else x.squeeze(0)

    def _plan(self, way: str) -> StencilPlan:
        """Return the plan of the forward or adjoint operator; it is made once."""
        plan = _PLANS[way].get(self)
        if plan is None:
            terms, pairs, runs = self._terms, self._axes, self._runs
            if way == "back":
                terms = tuple([term.reverse for term in terms])
                pairs = tuple([pair.reverse for pair in pairs])
                runs = [[run.reverse for run in each] for each in runs]
            plan = stencil_plan(terms, pairs, runs)
            if not is_dynamo_compiling():
                _PLANS[way].keep(self, plan)
        return plan

    @property
    def axis_dims(self) -> Sequence[tuple[NamedDimension | None, ...]]:
        """The dimensions of each axis of the grid, and the dimensions of the components."""
        shapes = self.shape.other_shapes
        read, into = ((*shapes[name], None)[0] for name in ("in_component", "out_component"))
        return [*zip(shapes["grid"], shapes["result"], strict=True), (read, into)]

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the same operator for an input with these dimensions; see :class:`NamedLinop`."""
        shapes = self.shape.other_shapes
        of, into = shapes["in_component"], shapes["out_component"]
        if self.is_adjoint:
            of, into = into, of
        if not self._is_free or dims[: len(of)] != of:
            return None
        return self._fitted_by_name(dims[len(of) :], (of, into))

    def support(self, dim: Dim) -> slice | None:
        """Return what a tile reads or writes along the grid; see :meth:`NamedLinop.support`."""
        dim = ND.infer(dim)
        axes = [axis for axis, dims in enumerate(self.axis_dims) if dim in dims]
        if not axes or self.role(dim) is Role.OPAQUE:
            return None
        (axis,) = axes
        is_output = self.axis_dims[axis].index(dim) == 1
        pieces = []
        for step in self._plan("forward").steps:
            if axis == len(self._runs):
                number = step.term.output if is_output else step.term.input
                pieces.append(slice(number, number + 1))
            else:
                pieces += [run.written if is_output else run.read for run in step.runs[axis]]
        starts, stops = [piece.start for piece in pieces], [piece.stop for piece in pieces]
        return slice(min(starts, default=0), max(stops, default=0))
