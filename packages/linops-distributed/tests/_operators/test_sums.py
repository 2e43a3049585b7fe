"""What is sent: one sum where there must be one, and none where there need not be."""

from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from linops_core import FFT, Chain, Convolution, Dense, Stack
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed.testing import Ranked
from linops_multigpu import BatchSpec

W = torch.randn(5, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
V = torch.randn(3, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))


def chain() -> Chain:
    """(N) -> (M) with L inside."""
    A = Dense(W, ("M", "L"), ("L",), ("M",)) @ Dense(V, ("L", "N"), ("N",), ("L",))
    assert isinstance(A, Chain)
    return A


def made(ranks: Ranked, dim: str) -> DistributedLinop:
    return distribute_linop(chain(), ranks.mesh(r=ranks.n_ranks), {dim: "r"})


@pytest.mark.parametrize(
    ("dim", "of_forward", "of_adjoint", "of_normal"),
    [("M", [], [4], [4]), ("N", [5], [], [5]), ("L", [5], [4], [5, 4])],
)
def test_sums_are_those_that_the_placement_implies(
    ranks: Ranked, dim: str, of_forward: list[int], of_adjoint: list[int], of_normal: list[int]
) -> None:
    def program(rank: int) -> None:
        A = made(ranks, dim)
        x = A.local_input(torch.ones(4, dtype=torch.complex128))
        y = A.local_output(torch.ones(5, dtype=torch.complex128))
        A(x), A.H(y), A.N(x)
        for linop, v, wanted in (
            (A, x, of_forward),
            (A.H, y, of_adjoint),
            (A.N, x, of_normal),
        ):
            A.ranks.log = []
            linop(v)
            sizes = [] if ranks.n_ranks == 1 else [16 * n for n in wanted]
            assert [sent.n_bytes for sent in A.ranks.log] == sizes
            assert all(sent.n_ranks == ranks.n_ranks for sent in A.ranks.log)

    ranks.run(program)


def test_a_sum_over_two_dimensions_of_the_mesh_is_one(ranks: Ranked) -> None:
    if ranks.n_ranks != 4:
        pytest.skip("needs a mesh of 2 x 2")

    def program(rank: int) -> None:
        mesh = ranks.mesh(a=2, b=2)
        A = distribute_linop(chain(), mesh, {"N": "b", "L": "a"})
        x = torch.ones(4, dtype=torch.complex128)
        torch.testing.assert_close(A(A.local_input(x)), W @ V @ x)
        A.ranks.log = []
        A(A.local_input(x))
        assert [(sent.mesh_dims, sent.n_ranks) for sent in A.ranks.log] == [(("a", "b"), 4)]

    ranks.run(program)


def test_two_dimensions_of_a_chain_on_one_dimension_of_the_mesh(ranks: Ranked) -> None:
    """Its parts take turns: a sum over the first one, between them; then the second one is cut."""

    def program(rank: int) -> None:
        A = distribute_linop(chain(), ranks.mesh(r=ranks.n_ranks), {"N": "r", "M": "r"})
        x, y = torch.ones(4, dtype=torch.complex128), torch.ones(5, dtype=torch.complex128)
        torch.testing.assert_close(A.full_output(A(A.local_input(x))), W @ V @ x)
        back = A.H
        assert isinstance(back, DistributedLinop)
        result = back.full_output(back(A.local_output(y)))
        torch.testing.assert_close(result, (W @ V).mH @ y)
        A.ranks.log = []
        A(A.local_input(x))
        assert [sent.n_bytes for sent in A.ranks.log] == ([48] if ranks.n_ranks > 1 else [])

    ranks.run(program)


def test_ordered_sums_are_those_in_the_order_of_the_ranks(ranks: Ranked) -> None:
    """To the bit, of numbers that rounding tells apart, and the same on every rank."""
    n, m = ranks.n_ranks, 1001
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(m, n, dtype=torch.float32, generator=generator)
    weight *= 10.0 ** torch.randint(-4, 5, (m, n), generator=generator)
    wanted = weight[:, 0].clone()
    for column in weight.T[1:]:
        wanted += column

    def program(rank: int) -> Tensor:
        mesh = ranks.mesh(r=n)
        linop = Dense(weight, ("M", "N"), ("N",), ("M",))
        A = distribute_linop(linop, mesh, {"N": "r"}, ordered=True)
        return A(torch.ones(1))

    for result in ranks.run(program):
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(four: Ranked, dtype: torch.dtype) -> None:
    """As on one device and in tiles; what is sent remains in half precision."""
    weight = torch.tensor([[2048.0, 1, 1, 2], [4e4, 4e4, -4e4, -4e4]]).to(dtype)
    A = Dense(weight, ("M", "N"), ("N",), ("M",))
    kernel = torch.tensor([1.0, 2048, 1]).to(dtype)  # 1 more is lost in both dtypes
    C = Convolution(kernel, dims="N", to="K", shape="N", grid_size=(4,))
    x = torch.ones(4, dtype=dtype)

    def program(rank: int) -> None:
        mesh = four.mesh(r=4)
        B = distribute_linop(A, mesh, {"N": "r"})
        for _ in range(2):  # a first call compares
            B.ranks.log = []
            y = B(B.local_input(x))
            assert y.dtype == dtype and torch.equal(y, A(x))
        log = B.ranks.log
        assert log is not None and [sent.n_bytes for sent in log] == [y.nbytes]
        D = distribute_linop(C, mesh, {"N": "r", "K": "r"}).H  # it sums halos
        assert isinstance(D, DistributedLinop)
        assert torch.equal(D.full_output(D(D.local_input(x))), C.H(x))

    four.run(program)


@pytest.mark.parametrize("dim", ["M", "N", "L"])
def test_dtensors_in_and_out(ranks: Ranked, dim: str) -> None:
    x = torch.randn(4, dtype=torch.complex128)

    def program(rank: int) -> None:
        A = made(ranks, dim)
        assert A.input_placements == ((Shard(0),) if dim == "N" else (Replicate(),))
        assert A.output_placements == ((Shard(0),) if dim == "M" else (Replicate(),))
        whole = distribute_tensor(
            x, A.ranks.mesh.device_mesh, A.input_placements, src_data_rank=None
        )
        y = A(whole)
        assert isinstance(y, DTensor) and y.shape == (5,)
        assert y.placements == A.output_placements
        torch.testing.assert_close(A.full_output(y.to_local()), W @ V @ x)
        torch.testing.assert_close(A(A.local_input(x)), y.to_local())
        if ranks.n_ranks > 1:
            wrong = Replicate() if dim == "N" else Shard(0)
            other = distribute_tensor(x, A.ranks.mesh.device_mesh, [wrong], src_data_rank=None)
            with pytest.raises(ValueError, match="a DTensor must be on the mesh"):
                A(other)

    ranks.run(program)


def test_a_gradient_through_dtensors(ranks: Ranked) -> None:
    x = torch.randn(4, dtype=torch.complex128)

    def program(rank: int) -> None:
        A = made(ranks, "N")
        whole = distribute_tensor(
            x, A.ranks.mesh.device_mesh, A.input_placements, src_data_rank=None
        )
        y = A(whole.requires_grad_())
        assert isinstance(y, DTensor)
        y.to_local().abs().square().sum().backward()
        gradient = whole.grad
        assert isinstance(gradient, DTensor)
        wanted = 2 * (W @ V).mH @ (W @ V @ x)
        torch.testing.assert_close(gradient.to_local(), A.local_input(wanted))

    ranks.run(program)


def test_shares_are_cut_again_by_batch_specs(ranks: Ranked) -> None:
    def program(rank: int) -> None:
        mesh = ranks.mesh(r=ranks.n_ranks)
        maps = torch.arange(40.0, dtype=torch.float64).reshape(5, 8)
        S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
        A = FFT(1, batch_shape=("C",)) @ S
        B = distribute_linop(A, mesh, {"C": "r"}, batch_specs=BatchSpec({"C": 2}))
        x = torch.ones(8, dtype=torch.complex128)
        torch.testing.assert_close(B.full_output(B(x)), A(x))
        torch.testing.assert_close(B.N(x), A.N(x))

    ranks.run(program)


def test_gradients_flow_through_the_whole_output(ranks: Ranked) -> None:
    weight = W.clone().requires_grad_()
    whole = Dense(weight, ("M", "N"), ("N",), ("M",))
    x = V[:, 0].clone().requires_grad_()
    wanted = torch.autograd.grad(whole(x).abs().pow(3).sum(), [x, weight])

    def program(rank: int) -> None:
        A = distribute_linop(whole, ranks.mesh(r=ranks.n_ranks), {"M": "r"})
        y = A.full_output(A(x))
        torch.testing.assert_close(y, whole(x))
        result = torch.autograd.grad(y.abs().pow(3).sum(), [x, weight])
        torch.testing.assert_close(result, wanted)

    ranks.run(program)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("side", ["idim_and_idx", "odim_and_idx"])
def test_shares_of_real_and_of_complex_operands(
    ranks: Ranked, side: str, dtype: torch.dtype
) -> None:
    weights = [V.real[:, :3], V[:, 1:], W.real[:3], W[:3]]

    def program(rank: int) -> None:
        own = [torch.nn.Parameter(w.clone()) for w in weights]
        along: dict[str, Any] = {side: ("K", 0)}
        A = Stack(*[Dense(w, ("M", "N")) for w in own], **along)
        B = distribute_linop(A, ranks.mesh(r=ranks.n_ranks), {"K": "r"})
        sizes = [n or 0 for n in A.sizes("input")]
        x = torch.arange(1.0, 1 + prod(sizes)).reshape(sizes).to(dtype).requires_grad_()
        for _ in range(2):
            y = B(B.local_input(x))
            torch.testing.assert_close(y, B.local_output(A(x)))
            normal = B.N(B.local_input(x))
            torch.testing.assert_close(normal, B.local_input(A.N(x)))
        result = torch.autograd.grad(y.abs().square().sum(), own, allow_unused=True)
        share = y if side == "idim_and_idx" else B.full_output(y)
        wanted = torch.autograd.grad(A(x).abs().square().sum(), own)
        assert share.dtype == torch.complex128
        for gradient, whole in zip(result, wanted, strict=True):
            torch.testing.assert_close(gradient, whole)

    ranks.run(program)


def test_a_whole_output_that_is_smaller_than_the_number_of_ranks(ranks: Ranked) -> None:
    def program(rank: int) -> None:
        mesh = ranks.mesh(r=ranks.n_ranks)
        A = distribute_linop(FFT(1, batch_shape=("C",)), mesh, {"C": "r"}, sizes={"C": 1})
        x = torch.ones(1, 4, dtype=torch.complex64)
        y = A(A.local_input(x))
        assert y.shape == (int(rank == 0), 4)
        torch.testing.assert_close(A.full_output(y), torch.fft.fft(x, norm="ortho"))

    ranks.run(program)
