import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import (
    FFT,
    Add,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Role,
    Scalar,
    SimpleLinop,
    SplitError,
    Stack,
    Zero,
)
from linops_core.siblings import without_fftshift
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def matrix(n_rows: int, n_columns: int, seed: int = 0, o: str = "M", i: str = "N") -> Dense:
    weight = torch.nn.Parameter(values(n_rows, n_columns, seed=seed))
    return Dense(weight, (o, i), ("...", i), ("...", o))


class TestStackedOutputs(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Stack(matrix(2, 3), matrix(2, 3, 1), matrix(2, 3, 2), odim_and_idx=("K", -1))


class TestStackedInputs(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Stack(matrix(2, 3), matrix(2, 3, 1), idim_and_idx=("K", 1), threaded=True)


@pytest.mark.variant
class TestStackedBoth(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        place = ("K", 0)
        return Stack(matrix(2, 3), matrix(2, 3, 1), idim_and_idx=place, odim_and_idx=place)


def test_the_three_ways_to_stack() -> None:
    A, B = Scalar(2.0, ("N",)), Scalar(3.0, ("N",))
    x = torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    outputs = Stack(A, B, odim_and_idx=("K", 1))
    assert outputs(x[0]).tolist() == [[2, 3], [20, 30]]
    inputs = Stack(A, B, idim_and_idx=("K", 0))
    assert inputs(x).tolist() == [302, 3020]
    both = Stack(A, B, idim_and_idx=("K", 0), odim_and_idx=("K", 1))
    assert both(x).tolist() == [[2, 300], [20, 3000]]
    assert both.ishape == ("K", "N") and both.oshape == ("N", "K")


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (0, ("K", "...", "N")),
        (1, ("...", "K", "N")),
        (2, ("...", "N", "K")),
        (-1, ("...", "N", "K")),
        (-3, ("K", "...", "N")),
    ],
)
def test_the_index_is_that_of_the_new_shape(index: int, names: tuple[str, ...]) -> None:
    A = Stack(Scalar(1.0, ("...", "N")), Scalar(2.0, ("...", "N")), odim_and_idx=("K", index))
    assert A.oshape == names
    y = A(torch.ones(5, 7, 3))
    axis = [i for i, n in enumerate(y.shape) if n == 2]
    assert axis == [{0: 0, 1: 2, 2: 3}[names.index("K")]]
    assert torch.equal(y.select(axis[0], 1), 2 * torch.ones(5, 7, 3))


def test_a_stack_is_a_concatenation_of_blocks_of_one() -> None:
    linops = [matrix(2, 3, seed) for seed in range(3)]
    stacked = Stack(*linops, odim_and_idx=("K", 0)).resolved(ishape=(ND("N"),))
    flat = Concat(*linops, odim="M").resolved(ishape=(ND("N"),))
    torch.testing.assert_close(stacked.to_dense(), flat.to_dense())


def test_the_size_of_the_new_dimension_is_the_number_of_operands() -> None:
    A = Stack(matrix(2, 3), matrix(2, 3), idim_and_idx=("J", 0), odim_and_idx=("K", 0))
    assert [A.size(dim) for dim in "JKMNQ"] == [2, 2, 2, 3, None]
    assert (str(A.idim), str(A.odim)) == ("J", "K")
    assert (str(A.H.idim), str(A.H.odim)) == ("K", "J")
    with pytest.raises(ValueError, match=r"Stack: J must have size 2, got 3 in an input of shape"):
        A(torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"Chain: K must have one size, got 2 in Stack"):
        Diagonal(torch.ones(3), ("K",)) @ Stack(Scalar(1, ()), Scalar(2, ()), odim_and_idx=("K", 0))


def test_two_new_dimensions_are_a_block_diagonal() -> None:
    linops = [matrix(2, 3, seed) for seed in range(2)]
    A = Stack(*linops, idim_and_idx=("J", 1), odim_and_idx=("K", 0)).resolved(
        ishape=(ND("J"), ND("N"))
    )
    zero = torch.zeros(2, 3, dtype=torch.complex128)
    rows = [[linops[0].weight, zero], [zero, linops[1].weight]]
    dense = torch.cat([torch.cat(row, 1) for row in rows])
    torch.testing.assert_close(A.to_dense(), dense)
    torch.testing.assert_close(A.H.to_dense(), dense.mH)
    torch.testing.assert_close(A.N.to_dense(), dense.mH @ dense)
    torch.testing.assert_close(A.H.N.to_dense(), dense @ dense.mH)


def test_a_tile_holds_the_operands_that_it_is_about() -> None:
    linops = [matrix(2, 3, seed) for seed in range(4)]
    A = Stack(*linops, odim_and_idx=("K", 0), threaded=True, num_workers=2)
    assert A.role("K") is Role.OUTPUT and A.H.role("K") is Role.INPUT
    part = A.split(A, {ND("K"): slice(1, 3)})
    assert isinstance(part, Stack) and part.linops == A.linops[1:3]
    assert (part.size("K"), part.threaded, part.num_workers) == (2, True, 2)
    one = part.split(part, {ND("K"): slice(0, 1), ND("N"): slice(0, 2)})
    x = values(2)
    torch.testing.assert_close(one(x), (linops[1].weight[:, :2] @ x)[None])
    assert A.split(A, {ND("K"): slice(None)}) is A


def test_two_new_dimensions_are_cut_apart() -> None:
    linops = [matrix(2, 3, seed) for seed in range(3)]
    A = Stack(*linops, idim_and_idx=("J", 0), odim_and_idx=("K", -1), threaded=True)
    assert (A.role("J"), A.role("K")) == (Role.INPUT, Role.OUTPUT)
    J, K = ND.infer(("J", "K"))
    whole = A.to_dense().reshape(2, 3, 3, 3)  # M, K, J, N
    pieces = [slice(start, stop) for start in range(3) for stop in range(start + 1, 4)]
    for here in pieces:
        for there in pieces:
            part = A.split(A, {J: here, K: there, ND("M"): slice(0, 1)})
            wanted = whole[:1, there, here].flatten(0, 1).flatten(1)
            torch.testing.assert_close(part.to_dense(), wanted, check_dtype=False)
            torch.testing.assert_close(part.H.to_dense(), wanted.mH, check_dtype=False)
        of_one = A.split(A, {K: here})
        torch.testing.assert_close(
            of_one.to_dense(), whole[:, here].flatten(0, 1).flatten(1), check_dtype=False
        )
        assert of_one.support("J") in (here, None)
    same = A.split(A, {J: slice(1, 3), K: slice(1, 3)})
    assert isinstance(same, Stack) and same.linops == A.linops[1:] and same.threaded


def test_what_is_zero_must_be_of_known_size_to_be_cut_apart() -> None:
    def plain() -> NamedLinop:
        return SimpleLinop(lambda x: x, lambda y: y, ishape=("N",), oshape=("M",))

    A = Stack(plain(), plain(), idim_and_idx=("J", 0), odim_and_idx=("K", 0))
    match = r"blocks are zero along \(J, K\); to cut there, each dimension of the input alone or of"
    with pytest.raises(SplitError, match=match):
        A.split(A, {ND("J"): slice(0, 1)})


def test_an_operand_without_the_inner_dimension_is_zero_in_all_tiles_but_the_first() -> None:
    through = Chain(
        Dense(values(2, 3), ("L", "N"), ("N",), ("L",)),
        Dense(values(3, 2), ("M", "L"), ("L",), ("M",)),
    )
    A = Stack(through, Identity(("N",), ("M",)), odim_and_idx=("K", 0))
    assert A.role("L") is Role.INNER
    tiles = [A.split(A, {ND("L"): slice(k, k + 1)}) for k in range(2)]
    assert isinstance(tiles[1], Stack) and isinstance(tiles[1].linops[1], Zero)
    torch.testing.assert_close(sum(tile.to_dense() for tile in tiles), A.to_dense())


def test_the_normal_runs_inside_of_the_operands() -> None:
    linops = [matrix(2, 3, seed) for seed in range(3)]
    outputs = Stack(*linops, odim_and_idx=("K", 0), threaded=True, num_workers=2)
    assert isinstance(outputs.N, Add)
    assert (outputs.N.threaded, outputs.N.num_workers) == (True, 2)
    both = Stack(*linops, idim_and_idx=("J", 0), odim_and_idx=("K", 0), threaded=True)
    assert isinstance(both.N, Stack) and both.N.role("J") is Role.BATCH and both.N.threaded
    assert both.N.is_endomorphism and (both.N @ both.N).ishape == both.ishape
    inputs = Stack(*linops, idim_and_idx=("K", 0))
    assert isinstance(inputs.N, Chain)
    zero = Zero(("...", "N"), ("...", "M"), sizes={"N": 3, "M": 2})
    unlike = Stack(matrix(2, 3), zero, odim_and_idx=("K", 0))
    assert isinstance(unlike.N, Add)
    torch.testing.assert_close(unlike.N.to_dense(), matrix(2, 3).N.to_dense())


def test_a_name_that_the_normals_take_is_no_obstacle() -> None:
    place = ("N1", 0)
    stack = Stack(matrix(2, 3), matrix(2, 3, 1), idim_and_idx=place, odim_and_idx=place)
    A = stack.resolved(ishape=(ND("N1"), ND("N")))
    dense = A.to_dense()
    torch.testing.assert_close(A.N.to_dense(), dense.mH @ dense)


def test_a_zero_in_a_sum_needs_no_sizes() -> None:
    A = Stack(matrix(2, 3), Zero(("...", "N"), ("...", "M")), idim_and_idx=("K", 0))
    x = values(2, 3)
    torch.testing.assert_close(A(x), matrix(2, 3)(x[0]))


def test_results_of_different_dtypes_promote() -> None:
    A = Stack(Scalar(1.0, ("N",)), Scalar(1j, ("N",)), odim_and_idx=("K", 0))
    for x in (torch.ones(1), torch.ones(1, requires_grad=True)):
        assert A(x).tolist() == [[1], [1j]]


def test_results_are_written_into_one_tensor_and_never_alias_an_input() -> None:
    x = torch.ones(3)
    for linops in ([Identity(("N",))], [Identity(("N",))] * 2):
        for side in ("idim_and_idx", "odim_and_idx"):
            keywords: dict[str, Any] = {side: ("K", 0)}
            A = Stack(*linops, **keywords)
            z = x if side == "odim_and_idx" else torch.stack([x] * len(linops))
            kept = z.clone()
            A(z)
            assert torch.equal(z, kept)
    y = Stack(*[Identity(("N",))] * 2, odim_and_idx=("K", 0))(x)
    y.zero_()
    assert x.tolist() == [1, 1, 1]


def test_a_centred_transform_folds_its_shifts_through_a_stack() -> None:
    maps = [Diagonal(values(4, seed=seed), ("N",)) for seed in range(2)]
    S = Stack(*maps, odim_and_idx=("K", 0))
    F = FFT(1, ("K",), (("N",), ("L",)), centered=True)
    A = F @ S
    dense = F.to_dense({"K": 2, "N": 4}) @ S.to_dense()
    torch.testing.assert_close(A.to_dense(), dense)
    torch.testing.assert_close(A.N.to_dense(), dense.mH @ dense)
    assert without_fftshift(S, [ND("K")]) is None
    shifted = without_fftshift(S, [ND("N")])
    assert shifted is not None
    rolled = torch.stack([torch.fft.ifftshift(D.weight) for D in maps])
    torch.testing.assert_close(shifted(torch.ones(4)), rolled)
    opaque = SimpleLinop(torch.clone, torch.clone, ishape=("N",))
    assert without_fftshift(Stack(opaque, *maps, odim_and_idx=("K", 0)), [ND("N")]) is None


@pytest.mark.parametrize("kind", ["Add", "Concat", "Stack"])
def test_copies_adjoints_and_tiles_keep_the_threads(kind: str) -> None:
    linops = [matrix(2, 3, seed) for seed in range(2)]
    options: dict[str, Any] = {"threaded": True, "num_workers": 3}
    made_by: dict[str, Any] = {
        "Add": partial(Add, *linops),
        "Concat": partial(Concat, *linops, odim="M"),
        "Stack": partial(Stack, *linops, odim_and_idx=("K", 0)),
    }
    A = made_by[kind](**options)
    named = A.resolved(ishape=(ND("N"),))
    made = [
        A, A.H, A.conj(), A.H.H, named, copy.copy(A), copy.deepcopy(A), A.to(torch.float64),
        pickle.loads(pickle.dumps(A)), named.split(named, {ND("N"): slice(0, 1)}),
        A.renamed({ND("N"): ND("Q")}),
    ]  # fmt: skip
    for linop in made:
        assert type(linop) is type(A) and (linop.threaded, linop.num_workers) == (True, 3)


@pytest.mark.parametrize(
    ("names", "keywords", "message"),
    [
        ("N", {}, r"Stack: idim_and_idx, odim_and_idx or both must be given, got neither"),
        ("N", {"odim_and_idx": (None, 0)}, r"odim_and_idx must be a dimension and its index, got"),
        ("N", {"odim_and_idx": ("K", None)}, r"the index of K must be from -2 to 1 for \(N\), got"),
        ("N", {"odim_and_idx": ("K", 0.5)}, r"the index of K must be from -2 to 1 .* got 0.5"),
        ("N", {"odim_and_idx": ("K", 2)}, r"the index of K must be from -2 to 1 .* got 2"),
        ("N", {"idim_and_idx": ("K", -3)}, r"the index of K must be from -2 to 1 .* got -3"),
        ("N", {"idim_and_idx": ("N", 0)}, r"idim must be a name that no operand has, got N for"),
        ("N", {"idim_and_idx": ("...", 0)}, r"idim must be a name .* got \.\.\."),
        ("N", {"idim_and_idx": ("()", 0)}, r"idim must be a name .* got \(\)"),
    ],
)
def test_what_is_no_new_dimension_is_refused(
    names: str, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Stack(Scalar(1.0, tuple(names)), Scalar(2.0, tuple(names)), **keywords)


@pytest.mark.parametrize("given", ["K", 0, ("K", 0, 1), None])
def test_what_is_no_pair_of_a_dimension_and_its_index_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"Stack: odim_and_idx must be a dimension and its index"):
        Stack(Scalar(1.0, ("N",)), odim_and_idx=given)


def test_operands_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Stack: all must have one shape"):
        Stack(Scalar(1.0, ("N",)), Scalar(1.0, ("M",)), odim_and_idx=("K", 0))
    with pytest.raises(ValueError, match=r"Stack: N must have one size, got 3"):
        Stack(matrix(2, 3), matrix(2, 4), odim_and_idx=("K", 0))
    with pytest.raises(ValueError, match=r"Stack: there must be at least one operator"):
        Stack(odim_and_idx=("K", 0))
    with pytest.raises(TypeError, match=r"Stack: operands must be NamedLinops"):
        Stack(torch.ones(1), odim_and_idx=("K", 0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"odim must be a name that no operand has, got L"):
        through = Chain(matrix(2, 3, o="L"), matrix(2, 2, i="L"))
        Stack(through, odim_and_idx=("L", 0))
