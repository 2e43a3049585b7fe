"""The state of an operator over ranks: the names of the whole operator, on every rank."""

import torch
from torch import nn

from linops_core import Dense, Diagonal, Stack
from linops_distributed import distribute_linop
from linops_distributed.testing import Ranked
from linops_split import batch_linop


def test_all_ranks_have_the_state_of_an_operator_that_all_have(ranks: Ranked) -> None:
    first, second = (
        Dense(nn.Parameter(torch.rand(4, 3)), ("M", "N"), ("N",), ("M",)) for _ in "ab"
    )
    chain = Diagonal(torch.rand(4), ("M",)) @ first
    stack = Stack(first, second, odim_and_idx=("K", 0))

    def program(rank: int) -> None:
        for linop, dim in ((chain, "M"), (chain, "N"), (stack, "K")):
            A = distribute_linop(linop, ranks.mesh(r=ranks.n_ranks), {dim: "r"})
            for own, whole in ((A, linop), (A.H, linop.H)):
                result, wanted = (each.state_dict(keep_vars=True) for each in (own, whole))
                assert [*result] == [*wanted]
                assert all(result[name] is tensor for name, tensor in wanted.items())

    ranks.run(program)


def test_the_state_of_a_share_that_was_sent_has_the_names_of_the_whole(two: Ranked) -> None:
    def program(rank: int) -> None:
        S = Dense(torch.rand(4, 3), ("M", "N"), ("N",), ("M",))
        mesh = two.mesh(r=2)
        A = distribute_linop(S if rank == 0 else None, mesh, {"M": "r"}, scatter_from=0)
        assert {name: tuple(t.shape) for name, t in A.state_dict().items()} == {"weight": (2, 3)}

    two.run(program)


def test_operators_in_tiles_train_over_ranks(two: Ranked) -> None:
    def program(rank: int) -> None:
        S = Dense(nn.Parameter(torch.ones(4, 3)), ("M", "N"), ("N",), ("M",))
        A = distribute_linop(batch_linop(S, {"M": 1}), two.mesh(r=2), {"M": "r"})
        x = torch.arange(3.0)
        torch.autograd.backward(A(x).square().sum() / 2)
        assert S.weight.grad is not None
        torch.testing.assert_close(S.weight.grad, 3 * x.expand(4, 3))
        assert [*A.state_dict()] == ["weight"]

    two.run(program)
