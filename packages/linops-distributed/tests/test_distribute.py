"""Random operators over ranks, against their matrices: values, derived operators, gradients."""

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing.strategies import Known, trees
from linops_distributed import DistributedLinop, Sent, distribute_linop, plan_mesh
from linops_distributed.testing import Ranked
from linops_split.testing import cuttable_dims

MESHES: dict[int, list[tuple[int, ...]]] = {
    1: [(1,)],
    2: [(2,), (1, 2)],
    3: [(3,)],
    4: [(4,), (2, 2)],
}
NAMES = "rows", "columns"


@dataclass
class Case:
    """An operator, a mesh and what is cut along it; vectors for all ranks."""

    known: Known
    mesh_shape: tuple[int, ...]
    placement: dict[str, str]
    ordered: bool
    seed: int

    def made(self, ranks: Ranked) -> DistributedLinop:
        mesh = ranks.mesh(**dict(zip(NAMES, self.mesh_shape, strict=False)))
        return distribute_linop(self.known.linop, mesh, self.placement, ordered=self.ordered)

    def vector(self, side: tuple[str, ...], seed: int = 0) -> Tensor:
        lengths = [self.known.spaces.sizes[str(dim)] for dim in side]
        generator = torch.Generator().manual_seed(self.seed + seed)
        return torch.randn(lengths, dtype=torch.complex128, generator=generator)


@st.composite
def cases(draw: st.DrawFn, n_ranks: int) -> Case:
    # Of an operator that is linear over the reals only, parts may return real or complex numbers.
    known = draw(trees().filter(lambda known: known.linop.is_complex_linear))
    shape = draw(st.sampled_from(MESHES[n_ranks]))
    dims = draw(st.permutations(cuttable_dims(known.linop)))
    chosen = dims[: draw(st.integers(min(1, len(dims)), min(len(shape), len(dims))))]
    names = draw(st.permutations(NAMES[: len(shape)]))
    placement = {str(dim): name for dim, name in zip(chosen, names, strict=False)}
    return Case(known, shape, placement, draw(st.booleans()), draw(st.integers(0, 99)))


def applied(known: Known, matrix: Tensor, x: Tensor, like: Tensor) -> Tensor:
    return known.product(x, matrix).reshape(like.shape)


@given(st.data())
def test_it_is_its_matrix(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    M = case.known.matrix
    x, y = case.vector(case.known.linop.ishape), case.vector(case.known.linop.oshape, 1)

    def program(rank: int) -> None:
        A = case.made(ranks)
        with torch.no_grad():
            found = A.full_output(A(A.local_input(x)))
            torch.testing.assert_close(found + 0j, applied(case.known, M, x, y))
            B = A.H
            assert isinstance(B, DistributedLinop)
            found = B.full_output(B(A.local_output(y)))
            torch.testing.assert_close(found + 0j, applied(case.known, M.mH, y, x))
            found = B.full_output(A.N(A.local_input(x)))
            torch.testing.assert_close(found + 0j, applied(case.known, M.mH @ M, x, x))
            found = A.full_output(B.N(A.local_output(y)))
            torch.testing.assert_close(found + 0j, applied(case.known, M @ M.mH, y, y))

    ranks.run(program)


@given(st.data())
def test_gradients_are_those_of_one_process(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    linop = case.known.linop
    x = case.vector(linop.ishape).requires_grad_()
    y = case.vector(linop.oshape, 1)
    weights = [w for w in linop.parameters() if w.requires_grad]
    loss = (linop(x) * y.conj()).real.sum() + linop(x).abs().square().sum()
    wanted = torch.autograd.grad(loss, [x, *weights], allow_unused=True)

    def program(rank: int) -> None:
        A = case.made(ranks)
        mine = A.local_input(x.detach()).clone().requires_grad_()
        z = A(mine)
        loss = (z * A.local_output(y).conj()).real.sum() + z.abs().square().sum()
        found = torch.autograd.grad(loss, [mine, *weights], allow_unused=True)
        torch.testing.assert_close(found[0], A.local_input(wanted[0]))
        for gradient, other in zip(found[1:], wanted[1:], strict=True):
            other = torch.zeros_like(gradient) if other is None else other
            torch.testing.assert_close(gradient, other)

    ranks.run(program)


def logged(A: DistributedLinop, linop: NamedLinop, x: Tensor) -> tuple[Sent, ...]:
    A.ranks.log = []
    linop(x)
    return tuple(A.ranks.log)


@settings(max_examples=15)  # each is run without data, and with data for what is sent
@given(st.data())
def test_a_plan_is_what_is_logged_and_needs_no_ranks(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    x, y = case.vector(case.known.linop.ishape), case.vector(case.known.linop.oshape, 1)
    mesh = dict(zip(NAMES, case.mesh_shape, strict=False))
    placed = plan_mesh(case.known.linop, mesh, case.placement, ordered=case.ordered, like=x)

    def program(rank: int) -> None:
        A = case.made(ranks)
        mine, other = A.local_input(x), A.local_output(y)
        with torch.no_grad():
            plan = A.plan(like=mine)
            A(mine), A.H(other), A.N(mine)
            for work, found in (
                ("forward", logged(A, A, mine)),
                ("adjoint", logged(A, A.H, other)),
                ("normal", logged(A, A.N, mine)),
            ):
                for planned in (plan, placed):
                    assert planned.of_rank(rank).sent(work) == found
                    assert planned.of_rank(rank).n_bytes(work) == sum(s.n_bytes for s in found)
        assert sorted(rank for one in plan.plans for rank in one.ranks) == [*range(ranks.n_ranks)]

    ranks.run(program)
