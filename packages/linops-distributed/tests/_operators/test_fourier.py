"""Fourier transforms of grids that are cut across ranks, against those of one process."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from linops_core import (
    DCT,
    FFT,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    PadDim,
    Scalar,
    SplitError,
    Window,
)
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed.testing import Ranked
from linops_distributed.testing.strategies import MESHES, GridCase
from linops_multigpu import BatchSpec
from linops_solvers import conjugate_gradients
from linops_split.siblings import tensors_read_by

Made = Callable[[], NamedLinop]
Source = NamedLinop | Callable[[Window], NamedLinop]
N, K = ("Nx", "Ny", "Nz"), ("Kx", "Ky", "Kz")
AXES = "rows", "columns"


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.complex128, generator=generator)


def sense(maps: Tensor, mask: Tensor, norm: str = "ortho", centered: bool = False) -> NamedLinop:
    """Return (image) -> (C, k-space): mask F maps, with as many dimensions as the mask."""
    here, there = N[: mask.ndim], K[: mask.ndim]
    S = Dense(maps, ("C", *here), here, ("C", *here))
    F = FFT(mask.ndim, norm=norm, centered=centered)
    return Diagonal(mask, there) @ F @ S


@st.composite
def cases(draw: st.DrawFn, n_ranks: int) -> GridCase:
    sizes = {str(dim): draw(st.integers(1, 5)) for dim in ("C", *N)}
    grid = [sizes[dim] for dim in N]
    norm, centered = draw(st.sampled_from(["ortho", "backward", "forward"])), draw(st.booleans())
    maps = random(sizes["C"], *grid, seed=1).requires_grad_(draw(st.booleans()))
    A = sense(maps, random(*grid, seed=2), norm, centered)
    kind = draw(st.sampled_from(["sense", "adjoint", "normal", "transform", "same names", "DCT"]))
    there = K
    if kind in ("transform", "same names", "DCT"):
        there = N if kind == "same names" or (kind == "DCT" and draw(st.booleans())) else K
        dims = draw(st.permutations([0, 1, 2]))
        shape = draw(st.permutations(["C", *N]))
        here, to = [N[at] for at in dims], [there[at] for at in dims]
        if kind == "DCT":
            A = DCT(here, shape, to)
        else:
            A = FFT(dims=here, shape=shape, to=to, norm=norm, centered=centered)
        A = Scalar(1j) @ A if draw(st.booleans()) else A
    elif kind != "sense":
        A = A.H if kind == "adjoint" else A.N
    mesh = draw(st.sampled_from(MESHES[n_ranks]))
    names = [*mesh]
    placement: dict[str, str] = {}
    sides = [draw(st.permutations(N)), draw(st.permutations(there))]
    if there == N:
        sides = sides[:1]
    said = draw(st.sampled_from([(0,), (1,), (0, 1)]))
    for number, side in enumerate(sides):
        if len(sides) == 1 or number in said:
            placement.update(zip(side, names, strict=False))
    if len(mesh) == 2 and draw(st.booleans()):  # coils along one of them
        name = draw(st.sampled_from(names))
        placement = {dim: other for dim, other in placement.items() if other != name}
        placement["C"] = name
    sizes |= {k: sizes[n] for n, k in zip(N, K, strict=True)}
    sizes |= {f"{dim}1": sizes[dim] for dim in (*N, *K)}  # of normals
    return GridCase(A, mesh, placement, sizes, draw(st.booleans()))


def whole(A: DistributedLinop, y: Tensor) -> Tensor:
    return A.full_output(y.detach())


@settings(max_examples=settings().max_examples // 4)
@given(st.data())
def test_it_is_the_operator_of_one_process(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    A = case.linop
    x, y = case.vector(A.ishape, 3).requires_grad_(), case.vector(A.oshape, 4)
    weights = [w for w in A.buffers() if w.requires_grad]
    z = A(x)
    loss = (z * y.conj()).real.sum() + z.abs().square().sum()
    gradients = torch.autograd.grad(loss, [x, *weights])
    with torch.no_grad():
        wanted = [A(x), A.H(y), A.N(x), A.H.N(y)]

    def program(rank: int) -> None:
        B = case.made(ranks.mesh(**case.mesh))
        C = B.H
        assert isinstance(C, DistributedLinop)
        here, there = B.local_input(x.detach()), B.local_output(y)
        with torch.no_grad():
            for linop, v, right in zip((B, C, B.N, C.N), (here, there) * 2, wanted, strict=True):
                assert isinstance(linop, DistributedLinop)
                torch.testing.assert_close(whole(linop, linop(v)), right)
        mine = here.clone().requires_grad_()
        z = B(mine)
        loss = (z * there.conj()).real.sum() + z.abs().square().sum()
        result = torch.autograd.grad(loss, [mine, *weights])
        torch.testing.assert_close(result[0], B.local_input(gradients[0]))
        for gradient, right in zip(result[1:], gradients[1:], strict=True):
            torch.testing.assert_close(gradient, right)

    ranks.run(program)


SLAB = {"Nz": "r", "Kx": "r"}
GRID = 5, 4, 7


def leaving(grid: tuple[int, ...], before: int, after: int, n_ranks: int, rank: int) -> int:
    """Return how many points a rank has before and not after, of all points, one by one."""

    def is_of(point: tuple[int, ...], axis: int) -> bool:
        return point[axis] // -(-grid[axis] // n_ranks) == rank

    points = product(*map(range, grid))
    return sum(is_of(point, before) and not is_of(point, after) for point in points)


@pytest.mark.parametrize("norm", ["ortho", "backward"])
def test_no_byte_more_is_sent_than_must_be(ranks: Ranked, norm: str) -> None:
    """One exchange each way, of what a rank has and lacks afterwards; none for F^H F, a number."""
    n = ranks.n_ranks

    def program(rank: int) -> None:
        mesh = ranks.mesh(r=n)
        sizes = dict(zip(N, GRID, strict=True))
        F = distribute_linop(FFT(3, norm=norm), mesh, SLAB, sizes=sizes)
        S = sense(random(2, *GRID, seed=1), random(*GRID, seed=2), norm)
        A = distribute_linop(S, mesh, SLAB)
        x, y = F.local_input(random(*GRID)), A.local_output(random(2, *GRID))
        for B, v, n_images, moves in (
            (F, x, 1, [(2, 0)]),
            (F.H, F.local_output(random(*GRID)), 1, [(0, 2)]),
            (F.N, x, 1, []),
            (F.H.N, F.local_output(random(*GRID)), 1, []),
            (A, x, 2, [(2, 0)]),
            (A.H, y, 2, [(0, 2)]),
            (A.N, x, 2, [(2, 0), (0, 2)]),
        ):
            assert isinstance(B, DistributedLinop)
            B(v)
            B.ranks.log = []
            B(v)
            wanted = [16 * n_images * leaving(GRID, *move, n, rank) for move in moves]
            assert [sent.n_bytes for sent in B.ranks.log] == (wanted if n > 1 else [])
            assert all(sent.kind == "exchange" for sent in B.ranks.log)

    ranks.run(program)


@pytest.mark.parametrize("ranks", [4], indirect=True)
@pytest.mark.parametrize(
    ("placement", "n_exchanges"),
    [
        ({"Nz": "r"}, 1),
        ({"Kz": "r"}, 1),
        ({"Nz": "r", "Kz": "r"}, 2),
        ({"Ny": "r", "Nz": "c", "Kx": "r", "Ky": "c"}, 2),
        ({"Ny": "r", "Nz": "c"}, 2),
        ({"Ny": "r", "Nz": "c", "Ky": "r", "Kz": "c"}, 4),
        ({"Nz": "r", "C": "c"}, 1),
    ],
)
def test_exchanges_are_as_few_as_there_can_be(
    placement: dict[str, str], n_exchanges: int, ranks: Ranked
) -> None:
    F = FFT(3, ("C",))
    x = random(2, *GRID)

    def program(rank: int) -> None:
        sizes = dict(zip(("C", *N), (2, *GRID), strict=True))
        A = distribute_linop(F, ranks.mesh(r=2, c=2), placement, sizes=sizes)
        A(A.local_input(x))
        A.ranks.log = []
        torch.testing.assert_close(A.full_output(A(A.local_input(x))), F(x))
        assert sum(sent.kind == "exchange" for sent in A.ranks.log) == n_exchanges

    ranks.run(program)


def test_a_transform_of_one_dimension_is_cut_along_its_batch_meanwhile(ranks: Ranked) -> None:
    """What is exchanged first may be a lazy conjugate, or a real number."""
    x = random(3, 5)

    def program(rank: int) -> None:
        mesh, sizes = ranks.mesh(r=ranks.n_ranks), {"C": 3, "Nx": 5}
        A = distribute_linop(FFT(1, ("C",)), mesh, {"Nx": "r"}, sizes=sizes)
        for v in (x, x.conj(), x.imag, x.conj().imag):
            result = A.full_output(A(A.local_input(v)))
            torch.testing.assert_close(result, torch.fft.fft(v, norm="ortho"))

    ranks.run(program)


@pytest.mark.parametrize("ranks", [4], indirect=True)
@pytest.mark.parametrize("mesh_shape", [(4,), (2, 2)])
def test_conjugate_gradients(ranks: Ranked, mesh_shape: tuple[int, ...]) -> None:
    A = sense(random(2, 3, 4, 5, seed=1), random(3, 4, 5, seed=2), centered=True)
    x = random(3, 4, 5)
    right = A.N(x) + x
    placement = {"Nz": "rows", "Kx": "rows"}
    if len(mesh_shape) == 2:
        placement = {"Ny": "rows", "Nz": "columns"}

    def program(rank: int) -> None:
        mesh = ranks.mesh(**dict(zip(AXES, mesh_shape, strict=False)))
        B = distribute_linop(A, mesh, placement)
        normal = B.N
        assert isinstance(normal, DistributedLinop)
        result = conjugate_gradients(
            normal + Identity(B.ishape),
            B.local_input(right),
            gtol=1e-11,
            ltol=0.0,
            max_num_iters=80,
        )
        torch.testing.assert_close(normal.full_output(result), x, rtol=1e-6, atol=1e-8)

    ranks.run(program)


def test_dtensors_in_and_out(ranks: Ranked) -> None:
    A = sense(random(2, *GRID, seed=1), random(*GRID, seed=2))
    x = random(*GRID)
    wanted = A(x)

    def program(rank: int) -> None:
        B = distribute_linop(A, ranks.mesh(r=ranks.n_ranks), SLAB)
        v = distribute_tensor(x, B.ranks.mesh.device_mesh, B.input_placements, src_data_rank=None)
        y = B(v.requires_grad_())
        assert isinstance(y, DTensor) and y.shape == wanted.shape
        assert y.placements == B.output_placements
        torch.testing.assert_close(B.full_output(y.to_local().detach()), wanted)
        y.to_local().abs().square().sum().backward()
        gradient = v.grad
        assert isinstance(gradient, DTensor)
        torch.testing.assert_close(gradient.to_local(), B.local_input(2 * A.N(x)))

    ranks.run(program)


def test_shares_are_cut_again_by_batch_specs(two: Ranked) -> None:
    A = sense(random(3, *GRID, seed=1), random(*GRID, seed=2))
    x = random(*GRID)

    def program(rank: int) -> None:
        mesh = two.mesh(r=2)
        for spec in (BatchSpec({"C": 2}), BatchSpec({"Nz": 1, "C": 1})):
            B = distribute_linop(A, mesh, SLAB, batch_specs=spec)
            torch.testing.assert_close(B.full_output(B(B.local_input(x))), A(x))
            normal = B.N
            assert isinstance(normal, DistributedLinop)
            torch.testing.assert_close(normal.full_output(normal(B.local_input(x))), A.N(x))
        with pytest.raises(SplitError, match="a step of the operator can be cut, got Q"):
            distribute_linop(A, mesh, SLAB, batch_specs=BatchSpec({"Q": 1}))

    two.run(program)


def test_the_normal_of_a_composition_with_a_transform(two: Ranked) -> None:
    D, F, x = Diagonal(random(*GRID, seed=2), K), FFT(3), random(*GRID)

    def program(rank: int) -> None:
        mesh, sizes = two.mesh(r=2), dict(zip(N, GRID, strict=True))
        B = distribute_linop(F, mesh, SLAB, sizes=sizes)
        A = distribute_linop(D, mesh, {"Kx": "r"}) @ B
        y = A.N(B.local_input(x))
        back = B.H
        assert isinstance(back, DistributedLinop)
        torch.testing.assert_close(back.full_output(y), (D @ F).N(x))

    two.run(program)


@pytest.mark.parametrize("ranks", [4], indirect=True)
def test_ranks_without_work_call_dimensions_as_others_do(ranks: Ranked) -> None:
    """They do not have the operators inside, of which normals avoid the names."""
    A = sense(random(1, 1, 1, 1, seed=1), random(1, 1, 1, seed=2)).N
    x = random(1, 1, 1)

    def program(rank: int) -> None:
        B = distribute_linop(A, ranks.mesh(r=4), {"Nx": "r"})
        for normal, wanted in ((B.N, A.N(x)), (B.H.N, A.H.N(x))):
            assert isinstance(normal, DistributedLinop)
            torch.testing.assert_close(normal.full_output(normal(B.local_input(x))), wanted)

    ranks.run(program)


def test_a_normal_is_cut_alike_in_input_and_output(two: Ranked) -> None:
    A = sense(MAPS, MASK).N

    def program(rank: int) -> None:
        B = distribute_linop(A, two.mesh(r=2), {"Nz": "r"})
        assert B.input_placements == B.output_placements == (Shard(2),)

    two.run(program)


def test_an_inner_operator_of_a_normal_is_distributed_alike(two: Ranked) -> None:
    weights = Diagonal(random(3, 5).real, ("Kx", "Ky"))
    F, x = FFT(dims=("Nx", "Ny"), shape=("Nx", "Ny"), to=("Kx", "Ky")), random(3, 5)

    def program(rank: int) -> None:
        A = distribute_linop(F, two.mesh(r=2), {"Nx": "r", "Ky": "r"}, sizes={"Nx": 3, "Ny": 5})
        inner = distribute_linop(weights, two.mesh(r=2), {"Ky": "r"})
        for right in (inner, Scalar(2.0), Identity(("Kx", "Ky"))):
            normal = A.normal(right)
            whole = F.normal(weights if right is inner else right)
            assert isinstance(normal, DistributedLinop)
            torch.testing.assert_close(normal.full_output(normal(A.local_input(x))), whole(x))
        cases: list[tuple[Any, type[Exception], str]] = [
            (
                torch.ones(3, 5),
                TypeError,
                r"DistributedLinop \(Nx, Ny\) -> .* must be a NamedLinop",
            ),
            (Scalar(2.0, ("Q",)), ValueError, "DistributedLinop .* must act on the output space"),
            (weights, ValueError, "Ky must have one size"),
            (FFT(dims=("Kx", "Ky")), NotImplementedError, "FFT .*: Ky must be a batch dimension"),
        ]
        for wrong, error, message in cases:
            with pytest.raises(error, match=message):
                A.normal(wrong)

    two.run(program)


def test_a_normal_that_is_summed_is_cut_in_its_input_alone(two: Ranked) -> None:
    """As before there were transforms: an output of its own name is not placed by itself."""
    A = Dense(random(4, 6), ("M", "N"), ("N",), ("M",)).N
    x = random(6)

    def program(rank: int) -> None:
        B = distribute_linop(A, two.mesh(r=2), {"N": "r"})
        torch.testing.assert_close(B(B.local_input(x)), A(x))

    two.run(program)


# Operators that no rank holds

MAPS, MASK = random(2, *GRID, seed=1), random(*GRID, seed=2)


def check_share(A: DistributedLinop) -> None:
    """Values, and that a rank holds its maps and its part of the mask alone."""
    whole, x = sense(MAPS, MASK), random(*GRID)
    torch.testing.assert_close(A.full_output(A(A.local_input(x))), whole(x))
    normal = A.N
    assert isinstance(normal, DistributedLinop)
    torch.testing.assert_close(normal.full_output(normal(A.local_input(x))), whole.N(x))
    stored = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors_read_by(A)}
    nz, kx = (piece.stop - piece.start for dim, piece in sorted(A.window.items())[::-1])
    assert sum(stored.values()) == 16 * (2 * 5 * 4 * nz + kx * 4 * 7)


def test_of_an_operator_that_one_rank_has(ranks: Ranked) -> None:
    def program(rank: int) -> None:
        source = ranks.n_ranks - 1
        linop = sense(MAPS, MASK) if rank == source else None
        check_share(distribute_linop(linop, ranks.mesh(r=ranks.n_ranks), SLAB, scatter_from=source))

    ranks.run(program)


def load_maps(share: Window) -> NamedLinop:
    maps = MAPS[..., share["Nz"]].clone()  # type: ignore[index]
    assert maps.numel()
    return Dense(maps, ("C", *N), N, ("C", *N))


def load_mask(share: Window) -> NamedLinop:
    mask = MASK[share["Kx"]].clone()  # type: ignore[index]
    assert mask.numel()
    return Diagonal(mask, K)


def test_of_functions_with_a_transform_between(ranks: Ranked) -> None:
    """Also where a rank has points of one grid and none of the other."""

    def program(rank: int) -> None:
        mesh = ranks.mesh(r=ranks.n_ranks)
        sources: list[Source] = [load_maps, FFT(3), load_mask]
        check_share(distribute_linop(sources, mesh, SLAB, sizes={"Nz": 7, "Kx": 5}))

    ranks.run(program)


def test_functions_that_do_not_fit(two: Ranked) -> None:
    def refused(sources: list[Source], error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            distribute_linop(sources, two.mesh(r=2), SLAB, sizes={"Nz": 7, "Kx": 5})

    def program(rank: int) -> None:
        refused([load_maps, load_mask], ValueError, "the operator of a function expects")
        refused([lambda share: FFT(3)], SplitError, "in which an FFT across ranks is an operator")
        refused([load_maps, FFT(3, norm="ortho" if rank else "forward")], ValueError, "placement")

    two.run(program)


def test_a_rank_that_has_no_k_space(ranks: Ranked) -> None:
    F = FFT(3)
    x = random(2, 3, 7)

    def program(rank: int) -> None:
        mesh = ranks.mesh(r=ranks.n_ranks)
        sizes = dict(zip(N, x.shape, strict=True))
        A = distribute_linop(F, mesh, SLAB, sizes=sizes)
        y = A(A.local_input(x))
        torch.testing.assert_close(A.full_output(y), F(x))
        back = A.H
        assert isinstance(back, DistributedLinop)
        torch.testing.assert_close(back.full_output(back(y)), x)

    ranks.run(program)


def test_a_name_with_two_lengths_along_the_chain(two: Ranked) -> None:
    """It is no length to count with, where another dimension than that is cut."""
    pad = PadDim("Nx", 5, 6, N, N)
    A = FFT(3) @ pad
    x = random(*GRID)

    def program(rank: int) -> None:
        B = distribute_linop(A, two.mesh(r=2), {"Nz": "r", "Ky": "r"}, sizes={"Nz": 7, "Ky": 4})
        torch.testing.assert_close(B.full_output(B(B.local_input(x))), A(x))

    two.run(program)


# What is refused


@pytest.mark.parametrize(
    ("made", "placement", "sizes", "error", "match"),
    [
        (
            lambda: FFT(1),
            {"Nx": "r"},
            {"Nx": 4},
            SplitError,
            r"no other dimension of known size can be cut along .r. while Nx is whole; give "
            r"sizes=, or a placement other than \{'Nx': 'r'\}",
        ),
        (
            lambda: FFT(1, ("C",)),
            {"Nx": "r", "Kx": "r"},
            {"Nx": 4},
            SplitError,
            "Nx cannot be split: a Fourier transform mixes all of its grid",
        ),
        (
            lambda: FFT(3),
            {"Nz": "r", "Ny": "r"},
            {"Nz": 4, "Ny": 4, "Nx": 4},
            ValueError,
            "each dimension of a vector must have its own dimension of the mesh, got",
        ),
        (lambda: FFT(3), {"Nz": "r"}, {"Nz": 4}, SplitError, "the size of Kx must be known"),
        (
            lambda: FFT(3),
            {"Nz": "r"},
            {"Nz": 4, "Kz": 5},
            SplitError,
            "Nz and Kz must have the same size, .* got 4 and 5",
        ),
        (
            lambda: FFT(3),
            {"Nz": "r", "C": "r"},
            {"Nz": 4, "Nx": 5},
            SplitError,
            "placement must name dimensions of the operator, got C",
        ),
    ],
)
def test_on_all_ranks_with_words_that_say_it(
    two: Ranked,
    made: Made,
    placement: Mapping[str, str],
    sizes: Mapping[str, int],
    error: type[Exception],
    match: str,
) -> None:
    def program(rank: int) -> None:
        with pytest.raises(error, match=match):
            distribute_linop(made(), two.mesh(r=2), placement, sizes=sizes)

    two.run(program)


def test_another_shape_on_one_rank(two: Ranked) -> None:
    def program(rank: int) -> None:
        sizes = dict(zip(N, GRID, strict=True))
        A = distribute_linop(FFT(3, ("B",)), two.mesh(r=2), SLAB, sizes=sizes)
        A(A.local_input(random(2 + rank, *GRID)))

    for _, error in two.attempt(program):
        assert "input must be the same on all ranks, got" in str(error)


def test_second_derivatives_are_refused(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = distribute_linop(FFT(3), two.mesh(r=2), SLAB, sizes=dict(zip(N, GRID, strict=True)))
        x = A.local_input(random(*GRID)).clone().requires_grad_()
        with pytest.raises(NotImplementedError, match="first derivatives"):
            torch.autograd.grad(A(x).abs().square().sum(), x, create_graph=True)

    two.run(program)
