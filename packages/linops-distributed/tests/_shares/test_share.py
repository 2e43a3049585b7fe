"""Shares of an operator that one rank has, or that a function makes."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from linops_core import FFT, Dense, Diagonal, NamedLinop, SplitError, Window
from linops_core.testing.strategies import trees
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed._shares._share import _distinct
from linops_distributed.testing import Ranked
from linops_split.siblings import tensors_read_by
from linops_split.testing import cuttable_dims
from nameddim import NamedShape

MAPS = torch.randn(5, 8, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
X = torch.randn(8, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))


def sense(maps: torch.Tensor) -> NamedLinop:
    return FFT(1, batch_shape=("C",)) @ Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))


def check(A: DistributedLinop) -> None:
    whole = sense(MAPS)
    torch.testing.assert_close(A.full_output(A(X)), whole(X))
    torch.testing.assert_close(A.N(X), whole.N(X))
    # No more than the maps of the coils of this rank, in memory of their own.
    stored = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors_read_by(A)}
    assert sum(stored.values()) == A.sharding.lengths["C"] * 8 * 16  # type: ignore[index]


@pytest.mark.parametrize("source", [0, -1])
def test_of_an_operator_that_one_rank_has(ranks: Ranked, source: int) -> None:
    def program(rank: int) -> None:
        mesh, root = ranks.mesh(r=ranks.n_ranks), source % ranks.n_ranks
        linop = sense(MAPS) if rank == root else None
        check(distribute_linop(linop, mesh, {"C": "r"}, scatter_from=root))

    ranks.run(program)


def test_on_a_mesh_that_is_transposed(four: Ranked) -> None:
    """Its rows and columns ascend, and the ranks of all of it do not: 0, 2, 1, 3."""

    def program(rank: int) -> None:
        mesh = DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("r", "q"))
        linop = sense(MAPS) if rank == 2 else None
        check(distribute_linop(linop, mesh, {"C": "q"}, scatter_from=2))
        load = lambda share: sense(MAPS[share["C"]].clone())  # noqa: E731
        check(distribute_linop(load, mesh, {"C": "r"}, sizes={"C": 5}))

    four.run(program)


def test_of_a_function(ranks: Ranked) -> None:
    asked: list[slice] = []

    def load(share: Window) -> NamedLinop:
        asked.append(share["C"])  # type: ignore[index]
        return sense(MAPS[share["C"]].clone())  # type: ignore[index]

    def program(rank: int) -> None:
        check(distribute_linop(load, ranks.mesh(r=ranks.n_ranks), {"C": "r"}, sizes={"C": 5}))

    ranks.run(program)
    step = -(-5 // ranks.n_ranks)
    wanted = [slice(start, min(start + step, 5)) for start in range(0, 5, step)]
    assert sorted(asked, key=lambda piece: piece.start) == wanted


@given(st.data())
def test_of_any_operator(two: Ranked, data: st.DataObject) -> None:
    known = data.draw(trees(depth=1).filter(lambda known: known.linop.is_complex_linear))
    dims = cuttable_dims(known.linop)
    placement = {str(dim): "r" for dim in dims[:1]}
    lengths = [known.spaces.sizes[str(dim)] for dim in known.linop.ishape]
    x = torch.randn(lengths, dtype=torch.complex128)

    def program(rank: int) -> None:
        linop = None if rank else known.linop.with_weights(torch.Tensor.detach)
        try:
            A = distribute_linop(linop, two.mesh(r=2), placement, scatter_from=0)
        except Exception as error:  # a function that cannot be sent
            assert "pickle" in str(error), error
            return
        result = A.full_output(A(A.local_input(x))).flatten()
        torch.testing.assert_close(result + 0j, known.product(x))

    two.run(program)


def refused(two: Ranked, made: object, match: str, **kwargs: object) -> None:
    def program(rank: int) -> None:
        with pytest.raises(
            (NotImplementedError, SplitError, TypeError, ValueError, RuntimeError)
        ) as e:
            distribute_linop(made, two.mesh(r=2), {"C": "r"}, **kwargs)  # type: ignore[arg-type]
        assert match in str(e.value)

    two.run(program)


def test_what_is_refused(two: Ranked) -> None:
    refused(two, None, "linop must be a NamedLinop on rank 0", scatter_from=0)
    refused(two, sense(MAPS), "scatter_from must be a rank of the mesh", scatter_from=2)
    refused(two, Diagonal(torch.ones(3), ("N",)), "must be one of", scatter_from=0)
    refused(two, lambda share: sense(MAPS), "the size of C must be given")
    refused(two, lambda share: sense(MAPS), "C must have size", sizes={"C": 5})
    refused(two, lambda share: 3, "must return a NamedLinop", sizes={"C": 5})
    refused(two, lambda share: FFT(dims=("C",)), "C cannot be split", sizes={"C": 5})
    refused(
        two,
        lambda share: Diagonal(
            torch.ones(1 + share["C"].start, 3)[:1].expand(share["C"].stop - share["C"].start, 3),
            ("C", "N" if share["C"].start else "M"),
        ),
        "the shape must be the same on all ranks",
        sizes={"C": 4},
    )


MASK = torch.randn(8, dtype=torch.complex128, generator=torch.Generator().manual_seed(3))


def masked(maps: Tensor, mask: Tensor) -> NamedLinop:
    """Return maps along C of images along B, and a mask that all of them share."""
    S = Dense(maps, ("C", "Nx"), ("B", "Nx"), ("B", "C", "Nx"))
    return Diagonal(mask, ("Kx",)) @ FFT(1, batch_shape=("B", "C")) @ S


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("mesh", [{"r": 4}, {"r": 2, "b": 2}])
def test_weights_of_shares_are_trained(four: Ranked, mesh: dict[str, int], sent: bool) -> None:
    """As in one process: those that are cut by themselves, and copies of others alike."""
    maps, mask = torch.cat([MAPS, MAPS])[:8].clone(), MASK.clone()
    batch = torch.stack([X, 2 * X])
    whole = masked(maps.requires_grad_(), mask.requires_grad_())
    wanted = torch.autograd.grad(whole(batch).abs().square().sum(), [maps, mask])

    def load(share: Window) -> NamedLinop:
        own = maps.detach()[share["C"]].clone().requires_grad_()  # type: ignore[index]
        return masked(own, mask.detach().clone().requires_grad_())

    def program(rank: int) -> None:
        where = four.mesh(**mesh)
        placement = {"C": "r", "B": "b"} if "b" in mesh else {"C": "r"}
        sizes = {"C": 8, "B": 2}
        if sent:
            linop = None if rank else whole
            A = distribute_linop(linop, where, placement, sizes=sizes, scatter_from=0)
        else:
            A = distribute_linop(load, where, placement, sizes=sizes)
        weights = [w for w in (*A.parameters(), *A.buffers()) if w.requires_grad]
        loss = A(A.local_input(batch)).abs().square().sum()
        for weight, result in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            is_mask = weight.shape == mask.shape
            piece = A.window["C"]  # type: ignore[index]
            torch.testing.assert_close(result, wanted[1] if is_mask else wanted[0][piece])
        assert len(weights) == 2

    four.run(program)


def test_weights_that_ranks_do_not_share_alike(two: Ranked) -> None:
    class Hidden(NamedLinop):
        """It does not say which dimensions its weight has."""

        def __init__(self) -> None:
            super().__init__(NamedShape(("C",)))
            self.weight = torch.nn.Parameter(torch.ones(()))

        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            y: Tensor = linop.weight * x
            return y

        adj_fn = fn

        def why_opaque(self, dim: object) -> None:
            return None

    text = "that require gradients, must be copies of each other or be cut"
    refused(two, lambda share: Hidden(), text, sizes={"C": 4})
    mask = MASK.clone().requires_grad_()  # of which a rank without work has no copy
    refused(two, lambda share: masked(MAPS[:1], mask), text, sizes={"C": 1})


def test_a_weight_and_its_bits_as_integers_are_two_tensors() -> None:
    weight = torch.ones(3)
    A = (
        Diagonal(weight, ("N",))
        @ Diagonal(weight.view(torch.int32), ("N",))
        @ Diagonal(weight, ("N",))
    )
    assert {tensor.dtype for tensor in _distinct(A)} == {torch.float32, torch.int32}
    assert len(_distinct(A)) == 2
