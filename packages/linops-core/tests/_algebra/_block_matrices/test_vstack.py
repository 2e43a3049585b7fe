"""VStack, HStack and BlockDiag: known answers, beside the laws that the strategies check."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from linops_core import (
    FFT,
    Add,
    BlockDiag,
    Concat,
    Dense,
    Diagonal,
    HStack,
    Identity,
    NamedLinop,
    Role,
    Scalar,
    SimpleLinop,
    SplitError,
    Stack,
    VStack,
    Zero,
)
from linops_core.testing import BaseNamedLinopTests
from linops_core.testing.strategies import Known, check, flat_stacks
from linops_core.testing.strategies._known import named
from nameddim import ND


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def dense(oshape: str, ishape: str, seed: int = 0, **sizes: int) -> Dense:
    """Return a Dense between dimensions of one letter; those of both are a batch."""
    names = dict.fromkeys(oshape + ishape)
    weight = nn.Parameter(values(*(sizes[name] for name in names), seed=seed))
    return Dense(weight, tuple(names), tuple(ishape), tuple(oshape))


def operands() -> tuple[Dense, Dense]:
    return dense("CPQ", "CN", C=2, P=2, Q=3, N=3), dense("MC", "CN", seed=1, M=2, C=2, N=3)


A, B = operands()


class TestVStack(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        weight = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        return VStack(*operands(), weights=[1, weight])


class TestBlockDiag(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        first, second = operands()
        return BlockDiag(first, second.H, weights=[2j, 1], threaded=True, num_workers=2)


@pytest.mark.variant
class TestHStack(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return HStack(*(each.H for each in operands()), weights=[2j, 1])


@pytest.mark.variant
class TestVStackOfAnyBatch(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        transform = FFT(1, norm="backward")
        sampled = Dense(values(2, 3, seed=2), ("M", "Nx"), ("...", "Nx"), ("...", "M"))
        return VStack(transform, sampled, sizes={"Kx": 3})

    def sizes(self) -> dict[str, int]:
        return {"Nx": 3}


@settings(max_examples=settings().max_examples // 3)  # each is cut into many tiles
@given(flat_stacks())
def test_operators_of_any_shapes_are_their_matrix_whole_and_in_tiles(known: Known) -> None:
    check(named(known))


def test_what_is_shared_stays_in_front_and_the_rest_is_one_dimension() -> None:
    V = VStack(A, B)
    assert (V.ishape, V.oshape) == (("C", "N"), ("C", "Rows"))
    assert (V.size("C"), V.size("Rows")) == (2, 8)
    x = values(2, 3, seed=3)
    y = V(x)
    assert torch.equal(y[:, :6], A(x).reshape(2, 6))
    assert torch.equal(y[:, 6:], B(x).mT)
    S = HStack(A.H, B.H)
    assert (S.ishape, S.oshape) == (("C", "Columns"), ("C", "N"))
    torch.testing.assert_close(S(y), V.H(y))
    D = BlockDiag(A, B.H)
    assert (D.ishape, D.oshape) == (("C", "Columns"), ("C", "Rows"))
    assert (D.size("Columns"), D.size("Rows")) == (5, 9)


def test_without_a_batch_the_matrix_is_that_of_blocks() -> None:
    a, b = A.to_dense(), B.to_dense()
    torch.testing.assert_close(VStack(A, B, batch_dims=()).to_dense(), torch.cat([a, b]))
    torch.testing.assert_close(HStack(A.H, B.H, batch_dims=()).to_dense(), torch.cat([a, b]).mH)
    result = BlockDiag(A, B, batch_dims=()).to_dense()
    torch.testing.assert_close(result, torch.block_diag(a, b))


def test_blocks_are_views_in_the_shapes_of_the_operands() -> None:
    V, x = VStack(A, B, weights=[1, 3]), values(2, 3, seed=3)
    y = V(x)
    first, second = V.blocks(y)
    assert torch.equal(first, A(x)) and torch.equal(second, 3 * B(x))
    assert first.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert second.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert torch.equal(V.from_blocks([first, second]), y)
    adjoint = V.H
    assert isinstance(adjoint, VStack)
    for block, expected in zip(adjoint.blocks(y), (first, second), strict=True):
        assert torch.equal(block, expected)  # of its input, which alone is divided
    D = BlockDiag(A, B.H)
    z = D.from_blocks([x, second], side="input")
    there, back = D.blocks(D(z))
    torch.testing.assert_close(there, A(x))
    torch.testing.assert_close(back, B.H(second))
    for block, expected in zip(D.blocks(z, side="input"), (x, second), strict=True):
        assert torch.equal(block, expected)


def test_blocks_of_other_operators_side_by_side() -> None:
    C = Concat(Diagonal(torch.ones(2), ("N",)), Diagonal(torch.ones(1), ("N",)), idim="N", odim="N")
    assert [block.tolist() for block in C.blocks(torch.arange(3.0))] == [[0, 1], [2]]
    S = Stack(Scalar(2.0, ("N",)), Scalar(3.0, ("N",)), odim_and_idx=("K", 1))
    blocks = S.blocks(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert [block.tolist() for block in blocks] == [[1, 3], [2, 4]]
    assert S.from_blocks(blocks).tolist() == [[1, 2], [3, 4]]


def test_weights_scale_operands_and_their_squares_the_normals() -> None:
    lam = 0.25
    V = VStack(A, B, weights=[1, lam**0.5])
    x = values(2, 3, seed=3)
    torch.testing.assert_close(V.N(x), A.N(x) + lam * B.N(x))


def test_the_normal_is_the_sum_of_the_normals_in_closed_form() -> None:
    mask = Diagonal(torch.tensor([1.0, 0.0, 2.0]), ("Nx",))
    V = VStack(FFT(1, ()), mask, sizes={"Kx": 3})
    assert isinstance(V.N, Add)
    assert [term.name for term in V.N.linops] == ["Identity", "Diagonal.N"]
    assert V.N(torch.ones(3)).tolist() == [2, 1, 5]
    W = VStack(mask, dense("M", "N", M=2, N=3).renamed({ND("N"): ND("Nx")}), batch_dims=())
    torch.testing.assert_close(W.N.to_dense(), W.to_dense().mH @ W.to_dense())


def test_gradients_reach_weights() -> None:
    weight = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    V, x = VStack(A, B, weights=[weight, 1]), values(2, 3, seed=3)
    V(x).abs().square().sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, 4 * A(x).detach().abs().square().sum())
    assert any(parameter is weight for parameter in V.parameters())


def test_a_single_dimension_of_every_output_is_cut_where_it_was_before() -> None:
    V = VStack(dense("M", "N", M=2, N=3), dense("P", "N", seed=1, P=3, N=3), odim="R")
    assert (V.role("R"), V.role("N")) == (Role.OUTPUT, Role.INPUT)
    tile = V.split(V, {ND("R"): slice(1, 4)})
    torch.testing.assert_close(tile.to_dense(), V.to_dense()[1:4])
    assert isinstance(tile, VStack)
    first, second = tile.blocks(torch.arange(3.0))
    assert first.tolist() == [0] and second.tolist() == [1, 2]
    merged = VStack(A, B)
    assert (merged.role("Rows"), merged.role("C")) == (Role.OPAQUE, Role.BATCH)
    with pytest.raises(SplitError, match=r"Rows cannot be split: .* made of the axes"):
        merged.split(merged, {ND("Rows"): slice(0, 2)})
    assert merged.N.role("P") is Role.INNER  # what outputs have is summed over in the normal


def test_a_tile_of_a_batch_takes_blocks_apart() -> None:
    V, x = VStack(A, B), values(2, 3, seed=3)
    tile = V.split(V, {ND("C"): slice(1, 2)})
    assert isinstance(tile, VStack)
    first, second = tile.blocks(tile(x[1:]))
    assert torch.equal(first, A(x)[1:]) and torch.equal(second, B(x)[:, 1:])


def test_a_name_of_the_only_dimension_of_an_output_may_stay() -> None:
    V = VStack(dense("M", "N", M=2, N=3), dense("M", "N", seed=1, M=1, N=3), odim="M")
    assert V.oshape == ("M",) and V.size("M") == 3
    rows = VStack(dense("M", "N", M=2, N=3).renamed({ND("M"): ND("Rows")}))
    assert rows.oshape == ("Rows1",)


def test_a_length_that_one_operand_knows_is_that_of_the_others() -> None:
    C = dense("MN", "NK", M=1, N=2, K=3)
    for V in (VStack(Identity(("N", "K")), C), HStack(Identity(("N", "K")), C.H)):
        assert V.size("Rows") == 4 or V.size("Columns") == 4
        torch.testing.assert_close(V.H.to_dense(), V.to_dense().mH)
    loose = Dense(values(3, 2), ("M", "N"), ("N", "K"), ("M", "K"))  # any K
    V = VStack(loose, C, batch_dims=())
    assert [tuple(block.shape) for block in V.blocks(V(values(2, 3)))] == [(3, 3), (1, 2)]


def test_stacks_are_operands_of_stacks() -> None:
    inner = VStack(A, B, batch_dims=())
    outer = VStack(inner, B, batch_dims=())
    expected = torch.cat([A.to_dense(), B.to_dense(), B.to_dense()])
    torch.testing.assert_close(outer.to_dense(), expected)
    blocks = inner.blocks(outer.blocks(outer(values(2, 3)))[0])
    assert [tuple(block.shape) for block in blocks] == [(2, 2, 3), (2, 2)]


any_size = SimpleLinop(lambda x: x, lambda x: x, ishape=("N",), oshape=("M",))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VStack(), r"VStack: there must be at least one operator, got none"),
        (
            lambda: VStack(A, dense("M", "K", M=1, K=3)),
            r"VStack: all operands must have the same input, got Dense \(C, N\) .*; Dense \(K\)",
        ),
        (
            lambda: HStack(A, dense("M", "K", M=1, K=3)),
            r"HStack: all operands must have the same output, got Dense",
        ),
        (
            lambda: VStack(dense("M", "N", M=1, N=2), dense("M", "N", M=1, N=3)),
            r"VStack: N must have one size, got 2",
        ),
        (
            lambda: BlockDiag(Diagonal(values(2), ("N",)), Diagonal(values(3), ("N",))),
            r"BlockDiag: N must have one size, got 2 .* and 3 .*; batch_dims=\(\) merges them",
        ),
        (
            lambda: VStack(A, B, weights=[1]),
            r"VStack: there must be one weight for each of 2 operands, got 1",
        ),
        (
            lambda: VStack(A, B, odim="N"),
            r"VStack: odim must be a name that no operand has, got N for Dense",
        ),
        (lambda: VStack(A, odim="..."), r"VStack: odim must be a name, got '\.\.\.'"),
        (
            lambda: VStack(A, B, batch_dims="M"),
            r"batch_dims must be batch dimensions of every operand, got M, "
            r"which is no dimension in Dense",
        ),
        (
            lambda: VStack(Diagonal(values(6), ("N",)), Diagonal(values(7), ("N",))),
            r"got 6 in Diagonal .*, and 7 in Diagonal \(N\) -> \(N\), operand 2; make both",
        ),
        (
            lambda: VStack(A, B, batch_dims=["N"]),
            r"got N, which is input in Dense \(C, N\) -> \(C, P, Q\)",
        ),
        (
            lambda: VStack(any_size),
            r"VStack: the size of M in the output of SimpleLinop \(N\) -> \(M\) must be known or "
            r"given in sizes, as an integer of at least 0, got None",
        ),
        (
            lambda: VStack(A, B, sizes={"P": 7}),
            r"VStack: the size of P in the output of Dense .* must be 2, got 7",
        ),
        (
            lambda: VStack(any_size, sizes={"M": -1}),
            r"the size of M .* must be known or given in sizes, as an integer .*, got -1",
        ),
        (
            lambda: VStack(Diagonal(values(2), ("...", "N")), batch_dims=()),
            r"VStack: the '\.\.\.' of Diagonal \(.*\) must be a batch of every operand",
        ),
        (
            lambda: VStack(SimpleLinop(torch.sum, torch.sum, oshape=("()", "()"))),
            r"VStack: the dimensions of the output must have names, got SimpleLinop",
        ),
    ],
)
def test_what_cannot_be_stacked_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_operator_and_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match=r"VStack: operands must be NamedLinops, got"):
        VStack(A, torch.ones(2))  # type: ignore[arg-type]
    wrong: Any
    for wrong in (torch.ones(2), "a"):
        with pytest.raises(TypeError, match=r"VStack: weights must be numbers .* for operand 2"):
            VStack(A, B, weights=[1, wrong])


def test_blocks_that_do_not_fit_are_refused() -> None:
    V = VStack(A, B)
    with pytest.raises(ValueError, match=r"Rows must have size 8, got 7 in an output of shape"):
        V.blocks(torch.ones(2, 7))
    with pytest.raises(ValueError, match=r"side must be 'output', the side .* divide, got 'in"):
        V.blocks(torch.ones(2, 8), side="input")
    with pytest.raises(ValueError, match=r"there must be a block for each of 2 operands, got 1"):
        V.from_blocks([torch.ones(2, 2, 3)])
    with pytest.raises(
        ValueError, match=r"block 0 must be .* shape \(C, P=2, Q=3\), got \(2, 3, 2\)"
    ):
        V.from_blocks([torch.ones(2, 3, 2), torch.ones(2, 2)])
    with pytest.raises(ValueError, match=r"block 1 must have 2 elements along Rows, got shape"):
        V.from_blocks([torch.ones(2, 2, 3), torch.ones(1, 2)])
    with pytest.raises(TypeError, match=r"VStack .*: block 1 must be a Tensor .*, got .*int"):
        V.from_blocks([torch.ones(2, 2, 3), 1])  # type: ignore[list-item]
    S = Stack(FFT(1), FFT(1), odim_and_idx=("K", 0))
    with pytest.raises(ValueError, match=r"blocks must have one shape except along K, .*\(3,\)"):
        S.from_blocks([torch.ones(2), torch.ones(3)])


def test_zeros_and_identities_are_blocks_like_others() -> None:
    V = VStack(Identity(("N",)), Zero(("N",), ("M",), sizes={"M": 2, "N": 3}), sizes={"N": 3})
    x = torch.arange(3.0)
    one, other = V.blocks(V(x))
    assert one.tolist() == [0, 1, 2] and other.tolist() == [0, 0]
    assert V.N(x).tolist() == [0, 1, 2]


def pairs() -> dict[str, tuple[NamedLinop, str]]:
    """Return stacks, each with a dimension that one operand keeps and another sums over."""
    weight = Diagonal(values(2, 3), ("B", "N"))
    matrix = Dense(values(4, 3, seed=1), ("M", "N"), ("B", "N"), ("B", "M"))
    both = Dense(values(3, 3, seed=2), ("P", "N"), ("B", "N"), ("B", "P", "N"))
    return {
        "a column": (VStack(weight, matrix), "N"),
        "a column of more": (VStack(both, matrix, weight), "N"),
        "a column without a batch": (VStack(weight, matrix, batch_dims=()), "N"),
        "its rows": (VStack(weight, matrix), "Rows"),
        "a row": (HStack(weight.H, matrix.H), "N"),
        "a row without a batch": (HStack(weight.H, both.H, batch_dims=()), "N"),
        "the other way": (VStack(weight, matrix).H, "N"),
    }


@pytest.mark.parametrize("name", pairs())
def test_what_one_operand_keeps_and_another_sums_over_is_cut(name: str) -> None:
    A, dim = pairs()[name]
    x = values(*[size for size in A.sizes("input") if size is not None], seed=3)
    assert A.role(dim) in (Role.INPUT, Role.OUTPUT)
    size = A.size(dim)
    assert size is not None
    pieces = [{ND(dim): slice(0, 1)}, {ND(dim): slice(1, size)}]
    if A.role(dim) is Role.INPUT:
        axis = A.ishape.index(ND(dim))
        parts = [
            A.split(A, piece)(x.narrow(axis, s.start, s.stop - s.start))
            for piece in pieces
            for s in piece.values()
        ]
        result = torch.stack(parts).sum(0)
    else:
        result = torch.cat([A.split(A, piece)(x) for piece in pieces], A.oshape.index(ND(dim)))
    torch.testing.assert_close(result, A(x))


def test_normals_of_stacks_keep_the_closed_forms_of_their_parts() -> None:
    A, _ = pairs()["a column"]
    x = values(2, 3, seed=4)
    torch.testing.assert_close(A.N(x), A.H(A(x)))
    assert "Slice" not in repr(A.N)


def test_sizes_of_the_input_tell_those_of_the_output() -> None:
    stack = VStack(FFT(1), Identity(("...", "Nx")), sizes={"Nx": 4})
    assert stack.size("Rows") == 8
    torch.testing.assert_close(stack.blocks(stack(values(4)))[1], values(4))


def test_operands_that_break_their_word_are_refused_by_the_name_of_the_whole() -> None:
    def returning(n: int) -> NamedLinop:
        return SimpleLinop(
            lambda x: x.sum().expand(n), ishape=("N",), oshape=("M",), check=False, sizes={"N": 3}
        )

    pair, x = (returning(1), returning(2)), torch.ones(3)
    K = ("K", 0)
    cases: list[tuple[NamedLinop, Tensor, str]] = [
        (VStack(*pair, sizes={"M": 2}), x, "VStack: an operand must return size 2 along axis 0"),
        (VStack(*pair, sizes={"M": 2}, name="V"), x, "V: an operand must return size 2"),
        (Stack(*pair, odim_and_idx=K), x, "Stack: all operands must return one shape except for"),
        (Stack(*pair, idim_and_idx=K), torch.ones(2, 3), "Stack: all terms must return one shape"),
        (HStack(*pair), torch.ones(6), "HStack: all terms must return one shape"),
        (Add(*pair, name="S"), x, "S: all terms must return one shape"),
    ]
    for linop, of_input, message in cases:
        for is_recorded in (False, True):
            with pytest.raises(ValueError, match=f"^{message}"):
                linop(of_input.clone().requires_grad_(is_recorded))
