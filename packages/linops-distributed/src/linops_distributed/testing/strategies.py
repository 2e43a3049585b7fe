"""Random operators over ranks, and checks against their matrices or one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import torch
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing.strategies import Known, trees
from linops_split.testing import cuttable_dims
from nameddim import ND

from .._distribute import distribute_linop
from .._operators._distributed import DistributedLinop
from .._ranks._mesh import RankMesh
from .._ranks._transport import Sent, Transport
from .._shares._sources import shares_of_all

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

__all__ = [
    "MESHES",
    "Case",
    "GridCase",
    "cases",
    "check_gradients",
    "check_plan",
    "check_values",
]

MESHES: dict[int, list[dict[str, int]]] = {
    1: [{"rows": 1}],
    2: [{"rows": 2}, {"rows": 1, "columns": 2}],
    3: [{"rows": 3}],
    4: [{"rows": 4}, {"rows": 2, "columns": 2}],
}
"""Shapes of meshes by number of ranks."""


@dataclass
class Case:
    """An operator, the sizes of a mesh, and a placement."""

    known: Known
    mesh: dict[str, int]
    placement: dict[str, str]
    ordered: bool
    seed: int

    def made(self, mesh: DeviceMesh) -> DistributedLinop:
        """Return the operator over the ranks of a mesh of these sizes."""
        return distribute_linop(self.known.linop, mesh, self.placement, ordered=self.ordered)

    @property
    def input(self) -> Tensor:
        """A whole input, the same on all ranks."""
        return self._vector(self.known.linop.ishape, 0)

    @property
    def output(self) -> Tensor:
        """A whole vector like an output, the same on all ranks."""
        return self._vector(self.known.linop.oshape, 1)

    def _vector(self, side: tuple[object, ...], seed: int) -> Tensor:
        lengths = [self.known.spaces.sizes[str(dim)] for dim in side]
        generator = torch.Generator().manual_seed(self.seed + seed)
        return torch.randn(lengths, dtype=torch.complex128, generator=generator)


@dataclass
class GridCase:
    """An operator with a grid, the sizes of a mesh, and a placement."""

    linop: NamedLinop
    mesh: dict[str, int]
    placement: dict[str, str]
    sizes: dict[str, int]
    """Of all dimensions of the input and the output."""
    ordered: bool

    def made(self, mesh: DeviceMesh) -> DistributedLinop:
        """Return the operator over the ranks of a mesh of these sizes."""
        return distribute_linop(
            self.linop, mesh, self.placement, sizes=self.sizes, ordered=self.ordered
        )

    def vector(self, side: tuple[object, ...], seed: int) -> Tensor:
        """Return a whole vector with these dimensions, the same on all ranks."""
        generator = torch.Generator().manual_seed(seed)
        lengths = [self.sizes[str(dim)] for dim in side]
        return torch.randn(lengths, dtype=torch.complex128, generator=generator)


@st.composite
def cases(draw: st.DrawFn, n_ranks: int) -> Case:
    """Draw an operator, a mesh of this number of ranks, and a placement.

    A dimension of the input and one of the output may be on the same dimension of the mesh.
    """
    # Parts of an operator that is linear over the reals only may return real or complex numbers.
    known = draw(trees().filter(lambda known: known.linop.is_complex_linear))
    mesh = draw(st.sampled_from(MESHES[n_ranks]))
    dims = draw(st.permutations(cuttable_dims(known.linop)))
    chosen = dims[: draw(st.integers(min(1, len(dims)), min(len(mesh), len(dims))))]
    names = draw(st.permutations([*mesh]))
    placement = {str(dim): name for dim, name in zip(chosen, names, strict=False)}
    sides = [{*known.linop.ishape}, {*known.linop.oshape}]
    for dim, name in zip(chosen, names, strict=False):
        side, other_side = sides if dim in sides[0] else sides[::-1]
        if dim in side - other_side:
            others = {str(one): name for one in dims if one in other_side - side}
            pairs = [{**placement, one: name} for one in others if one not in placement]
            pairs = [pair for pair in pairs if _is_one(known.linop, mesh, pair)]
            placement = draw(st.sampled_from([placement, *pairs]))
    return Case(known, mesh, placement, draw(st.booleans()), draw(st.integers(0, 99)))


def _is_one(linop: NamedLinop, mesh: dict[str, int], placement: dict[str, str]) -> bool:
    """Return whether no part has two dimensions on the same dimension of the mesh."""
    pairs = {ND.infer(dim): name for dim, name in placement.items()}
    numbers = range(prod(mesh.values()))
    ranks = Transport(RankMesh(mesh, dict.fromkeys(mesh, 0), numbers), is_dry=True)
    try:
        shares_of_all(linop, ranks, pairs, {})
    except ValueError as error:
        if "must have its own dimension of the mesh" not in str(error):
            raise
        return False
    return True


def check_values(case: Case, mesh: DeviceMesh) -> None:
    """Check A, A.H, A.N and A.H.N against the matrix; all ranks call it."""
    M, x, y = case.known.matrix, case.input, case.output

    def applied(matrix: Tensor, x: Tensor, like: Tensor) -> Tensor:
        return case.known.product(x, matrix).reshape(like.shape)

    A = case.made(mesh)
    with torch.no_grad():
        actual = A.full_output(A(A.local_input(x)))
        torch.testing.assert_close(actual + 0j, applied(M, x, y))
        B = A.H
        assert isinstance(B, DistributedLinop)
        actual = B.full_output(B(A.local_output(y)))
        torch.testing.assert_close(actual + 0j, applied(M.mH, y, x))
        actual = B.full_output(A.N(A.local_input(x)))
        torch.testing.assert_close(actual + 0j, applied(M.mH @ M, x, x))
        actual = A.full_output(B.N(A.local_output(y)))
        torch.testing.assert_close(actual + 0j, applied(M @ M.mH, y, y))


def check_gradients(case: Case, mesh: DeviceMesh) -> None:
    """Check gradients to the input and to weights against those of one process."""
    linop = case.known.linop
    weights = [w for w in linop.parameters() if w.requires_grad]

    def gradients(A: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        z = A(x)
        loss = (z * y.conj()).real.sum() + z.abs().square().sum()
        grads = torch.autograd.grad(loss, [x, *weights], allow_unused=True)
        pairs = zip(grads, [x, *weights], strict=True)
        return [torch.zeros_like(w) if one is None else one for one, w in pairs]

    wanted = gradients(linop, case.input, case.output)
    A = case.made(mesh)
    grads = gradients(A, A.local_input(case.input), A.local_output(case.output))
    torch.testing.assert_close(grads, [A.local_input(wanted[0]), *wanted[1:]])


def check_plan(case: Case, mesh: DeviceMesh) -> None:
    """Check that this rank sends what its plan says."""
    A = case.made(mesh)
    x, y = A.local_input(case.input), A.local_output(case.output)

    def sent(linop: NamedLinop, vector: Tensor) -> tuple[Sent, ...]:
        linop(vector)  # ranks may compare in a first call
        A.ranks.log = []
        linop(vector)
        return tuple(A.ranks.log)

    with torch.no_grad():
        plan = A.plan(like=x).of_rank(A.ranks.mesh.rank)
        for work, linop, vector in (
            ("forward", A, x),
            ("adjoint", A.H, y),
            ("normal", A.N, x),
        ):
            actual = sent(linop, vector)
            assert plan.sent(work) == actual
            assert plan.n_bytes(work) == sum(one.n_bytes for one in actual)
