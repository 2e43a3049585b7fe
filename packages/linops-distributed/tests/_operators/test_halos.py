"""Grids that are cut in input and output: ranks send each other halos of their shares."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Convolution, Dense, Diagonal, NamedLinop, PadDim, SplitError
from linops_distributed import DistributedLinop, Sent, distribute_linop, plan_mesh
from linops_distributed.testing import Ranked
from linops_distributed.testing.strategies import MESHES, GridCase
from linops_solvers import conjugate_gradients

N, K = ("Nx", "Ny"), ("Kx", "Ky")


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.complex128, generator=generator)


@st.composite
def cases(draw: st.DrawFn, n_ranks: int) -> GridCase:
    """Draw coils of an image, blurred along the grid that is cut, weighted and padded."""
    grid = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    kernel = random(*[draw(st.integers(1, 4)) for _ in grid], seed=3)
    blur = Convolution(
        kernel.requires_grad_(draw(st.booleans())), dims=N, to=K, grid_size=grid, shape=("C", *N)
    )
    sizes = {"C": 2, **dict(zip((*N, *K), grid * 2, strict=True))}
    S = Dense(random(2, *grid, seed=1), ("C", *N), N, ("C", *N))
    W = Diagonal(random(*grid, seed=2), K)
    before = draw(st.integers(0, 2))
    sizes["L"] = sizes["Kx"] + before + draw(st.integers(0, 2))
    P = PadDim("Kx", sizes["Kx"], sizes["L"], ("C", *K), ("C", "L", "Ky"), before=before)
    linop = draw(st.sampled_from([blur, W @ blur @ S, P @ W @ blur @ S, (blur @ S).H, P @ blur]))
    mesh = draw(st.sampled_from(MESHES[n_ranks]))
    names = draw(st.permutations([*mesh]))
    placement = {"Nx": names[0], "Kx": names[0], "L": names[0]}
    if len(mesh) == 2:
        placement |= draw(st.sampled_from([{"Ny": names[1], "Ky": names[1]}, {"C": names[1]}]))
    has = {str(dim) for part in linop.flatten() for dim in part.dims}
    placement = {dim: name for dim, name in placement.items() if dim in has}
    return GridCase(linop, mesh, placement, sizes, draw(st.booleans()))


def whole(A: NamedLinop, y: Tensor) -> Tensor:
    assert isinstance(A, DistributedLinop)
    return A.full_output(y.detach())


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_it_is_that_of_one_process(ranks: Ranked, data: st.DataObject) -> None:
    """Values, normals, and gradients to the input and to weights."""
    case = data.draw(cases(ranks.n_ranks))
    A = case.linop
    x, y = case.vector(A.ishape, 4).requires_grad_(), case.vector(A.oshape, 5)
    weights = [weight for weight in A.parameters() if weight.requires_grad]
    forward = A(x)
    wanted = torch.autograd.grad((forward * y.conj()).real.sum(), [x, *weights])

    def program(rank: int) -> None:
        B = case.made(ranks.mesh(**case.mesh))
        mine = B.local_input(x.detach()).requires_grad_()
        z = B(mine)
        torch.testing.assert_close(whole(B, z), forward.detach())
        torch.testing.assert_close(whole(B.H, B.H(B.local_output(y))), A.H(y).detach())
        torch.testing.assert_close(whole(B.H, B.N(mine)), A.N(x).detach())
        torch.testing.assert_close(whole(B, B.H.N(B.local_output(y))), A.H.N(y).detach())
        loss = (z * B.local_output(y).conj()).real.sum()
        result = torch.autograd.grad(loss, [mine, *weights])
        torch.testing.assert_close([*result], [B.local_input(wanted[0]), *wanted[1:]])

    ranks.run(program)


def sent_by(A: DistributedLinop, x: Tensor) -> list[Sent]:
    A(x)  # ranks may compare what they have in a first call
    A.ranks.log = []
    A(x)
    return [*A.ranks.log]


def test_no_more_is_sent_than_halos(three: Ranked) -> None:
    """Of 11 rows in shares of 4, 4 and 3, a kernel of 5 reads two before and two behind."""
    A = Convolution(random(5, 1), dims=N, to=K, grid_size=(11, 3), shape=N)
    placement = {"Nx": "r", "Kx": "r"}
    row = 3 * 16

    def program(rank: int) -> None:
        B = distribute_linop(A, three.mesh(r=3), placement, sizes={"Ny": 3, "Ky": 3})
        x = torch.ones(11, 3, dtype=torch.complex128)
        n_rows = (2, 4, 2)[rank]  # for a rank at an edge, and for one with two neighbours
        back = B.H
        assert isinstance(back, DistributedLinop)
        results = [sent_by(B, B.local_input(x)), sent_by(back, B.local_output(x))]
        for sent, what in zip(results, ("exchange", "sum"), strict=True):
            assert sent == [
                Sent(f"the {what} of the halos of Nx", "exchange", ("r",), 3, n_rows * row)
            ]
        plan = plan_mesh(A, {"r": 3}, placement, sizes={"Ny": 3, "Ky": 3}, dtype=x.dtype)
        assert [plan.of_rank(rank).n_bytes(work) for work in plan.works] == [
            n_rows * row,
            n_rows * row,
            2 * n_rows * row,
        ]

    three.run(program)


def test_corners_are_sent_once(four: Ranked) -> None:
    """First rows are sent, and then columns with what has arrived of rows."""
    A = Convolution(random(3, 3), dims=N, to=K, grid_size=(4, 4))
    placement = {"Nx": "rows", "Kx": "rows", "Ny": "columns", "Ky": "columns"}

    def program(rank: int) -> None:
        B = distribute_linop(A, four.mesh(rows=2, columns=2), placement)
        sent = sent_by(B, torch.ones(2, 2, dtype=torch.complex128))
        assert [one.n_bytes for one in sent] == [2 * 16, 3 * 16]

    four.run(program)


def test_nothing_is_sent_where_shares_are_read(two: Ranked) -> None:
    A = Convolution(random(1), dims=("Nx",), to=("Kx",), grid_size=(6,))

    def program(rank: int) -> None:
        B = distribute_linop(A, two.mesh(r=2), {"Nx": "r", "Kx": "r"})
        for linop in (B, B.H, B.N):
            assert isinstance(linop, DistributedLinop)
            assert not sent_by(linop, random(3))

    two.run(program)


def test_an_operator_that_one_rank_has(three: Ranked) -> None:
    S = Dense(random(7, 2, seed=1), ("Nx", "C"), ("Nx",), ("Nx", "C"))
    A = Convolution(random(3), dims=("Nx",), to=("Kx",), grid_size=(7,), shape=("Nx", "C")) @ S
    x, placement = random(7), {"Nx": "r", "Kx": "r"}

    def program(rank: int) -> None:
        B = distribute_linop(None if rank else A, three.mesh(r=3), placement, scatter_from=0)
        torch.testing.assert_close(whole(B, B(B.local_input(x))), A(x))
        torch.testing.assert_close(whole(B.H, B.H(B(B.local_input(x)))), A.H(A(x)))

    three.run(program)


def test_solvers_go_over_halos(three: Ranked) -> None:
    A = Convolution(random(3), dims=("Nx",), to=("Kx",), grid_size=(7,))
    y = random(7)
    wanted = conjugate_gradients(A.N, A.H(y), max_num_iters=6, gtol=0.0, ltol=0.0)

    def program(rank: int) -> None:
        B = distribute_linop(A, three.mesh(r=3), {"Nx": "r", "Kx": "r"})
        right = B.H(B.local_output(y))
        x = conjugate_gradients(B.N, right, max_num_iters=6, gtol=0.0, ltol=0.0)
        torch.testing.assert_close(whole(B.H, x), wanted)

    three.run(program)


def test_a_grid_of_unknown_size_is_refused(two: Ranked) -> None:
    A = Convolution(random(3), dims=("Nx",), to=("Kx",))
    placement = {"Nx": "r", "Kx": "r"}

    def program(rank: int) -> None:
        with pytest.raises(SplitError, match="the size of Nx must be known"):
            distribute_linop(A, two.mesh(r=2), placement)
        with pytest.raises(SplitError, match="give grid_size"):
            distribute_linop(A, two.mesh(r=2), placement, sizes={"Nx": 4, "Kx": 4})

    two.run(program)


def test_pairs_that_are_none_are_refused(two: Ranked) -> None:
    """A dimension of both sides beside one of the output, on one dimension of the mesh."""
    A = Dense(random(2, 3), ("C", "B"), ("B",), ("C", "B"))

    def program(rank: int) -> None:
        with pytest.raises(
            ValueError, match=r"its own dimension of the mesh, got \{.C.: .r., .B.: .r.\}"
        ):
            distribute_linop(A, two.mesh(r=2), {"C": "r", "B": "r"})

    two.run(program)
