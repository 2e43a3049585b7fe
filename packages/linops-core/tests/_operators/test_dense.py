import pytest
import torch
from torch import nn

from linops_core import Dense
from nameddim import ND

W = torch.tensor([[1.0, 2j], [0.0, 1.0], [3.0, 0.0]])


def test_known_products() -> None:
    A = Dense(W)
    assert (A.ishape, A.oshape) == (("N",), ("M",))
    assert A(torch.tensor([1.0, 1.0])).tolist() == [1 + 2j, 1, 3]
    assert A.H(torch.tensor([1.0, 1.0, 1.0])).tolist() == [4, 1 - 2j]
    assert A.N(torch.tensor([0.0, 1.0])).tolist() == [2j, 5]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (1, 2, 3)])
def test_the_dimensions_before_those_of_a_matrix_are_a_batch(batch: tuple[int, ...]) -> None:
    weight = torch.randn(*batch, 4, 5, dtype=torch.complex128)
    x = torch.randn(*batch, 5, dtype=torch.complex128)
    A = Dense(weight)
    torch.testing.assert_close(A(x), (weight @ x[..., None])[..., 0])
    torch.testing.assert_close(A.H(A(x)), (weight.mH @ weight @ x[..., None])[..., 0])
    assert A.shape == Dense(weight, (*A.ishape[:-1], "M", "N"), A.ishape, A.oshape).shape
    assert A.ishape == (*("B", "B1", "B2")[: len(batch)], "N")
    if batch:
        part = A.split(A, {ND("B"): slice(0, 1)})
        torch.testing.assert_close(part(x[:1]), A(x)[:1])


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_weight_that_is_no_matrix_needs_names(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have 2 dimensions for weightshape \(M, N\)"):
        Dense(torch.ones(shape))
    assert Dense(torch.ones(shape), "AB"[: len(shape)], (), "AB"[: len(shape)]).ishape == ()


def test_coil_maps_are_batches_of_a_column() -> None:
    maps = torch.randn(2, 3, 4, dtype=torch.complex64)
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    x = torch.randn(3, 4, dtype=torch.complex64)
    torch.testing.assert_close(S(x), maps * x)
    torch.testing.assert_close(S.H(S(x)), (maps.conj() * maps).sum(0) * x)


def test_einsum_strings() -> None:
    A = Dense.from_einstr(torch.ones(2, 3), "MxN,N->Mx")
    assert (A.ishape, A.oshape) == (("N",), ("Mx",))


def test_einsum_strings_take_broadcast_dimensions() -> None:
    w, x = torch.randn(1, 3, 4), torch.randn(2, 4)
    A = Dense.from_einstr(w, "BMN,BN->BM", ["B"])
    assert A.size("B") is None
    torch.testing.assert_close(A(x), x @ w[0].mT)
    with pytest.raises(ValueError, match="weight must have size 1 along the broadcast dimension B"):
        Dense.from_einstr(w.expand(2, 3, 4), "BMN,BN->BM", broadcast_dims=["B"])


@pytest.mark.parametrize("text", ["MN,N", "MN->M", "MN,N,K->M"])
def test_a_string_that_is_no_product_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Dense: an einsum string must look like 'MN,N->M', got"):
        Dense.from_einstr(torch.ones(2, 3), text)


@pytest.mark.parametrize(
    ("dims", "ishape", "oshape", "broadcast", "message"),
    [
        (("M", "Q"), ("N",), ("M", "N"), (), r"every dimension of the weight must be a named one"),
        (
            ("...", "N"),
            ("...", "N"),
            ("...",),
            (),
            r"must be a named one of the input .* got \.\.\.",
        ),
        (("M", "N"), ("N", "K"), ("M",), (), r"of one side alone must be in the weight, got K"),
        (("M", "N"), ("...", "N"), ("M",), (), r"of one side alone must be in the weight, got \."),
        (("M", "N"), ("N",), ("M",), ("M",), r"a broadcast dimension must be in the input and in"),
        (("(1)", "N"), ("N",), ("(1)",), (), r"dimensions must have names, got \(1\)"),
    ],
)
def test_names_that_make_no_product_are_refused(
    dims: tuple[str], ishape: tuple[str], oshape: tuple[str], broadcast: tuple[str], message: str
) -> None:
    with pytest.raises(ValueError, match=rf"Dense: .*{message}"):
        Dense(torch.ones(1, 1), dims, ishape, oshape, broadcast)


def test_nothing_is_broadcast_that_was_not_asked_for() -> None:
    A = Dense(torch.ones(1, 2), ("B", "N"), ("B", "N"), ("B",))
    with pytest.raises(ValueError, match=r"Dense: B must have size 1, got 3"):
        A(torch.ones(3, 2))
    asked = Dense(torch.ones(1, 2), ("B", "N"), ("B", "N"), ("B",), ("B",))
    assert asked(torch.ones(3, 2)).tolist() == [2, 2, 2]
    assert asked.H(torch.ones(3)).shape == (3, 2)


@pytest.mark.parametrize("weight", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("x", [torch.float32, torch.complex64, torch.complex128])
def test_dtypes_promote_as_in_torch(weight: torch.dtype, x: torch.dtype) -> None:
    A = Dense(W.real.to(weight) / 3)
    y = A(torch.ones(2, dtype=x))
    dtype = torch.promote_types(weight, x)
    assert y.dtype == A.N(torch.ones(2, dtype=x)).dtype == dtype
    torch.testing.assert_close(y, (A.weight.to(dtype) @ torch.ones(2, dtype=dtype)))


def test_a_view_with_a_conjugate_bit_is_read_right() -> None:
    A = Dense(W.real.contiguous())
    x = torch.tensor([1 + 2j, 3j]).conj()
    assert x.is_conj()
    torch.testing.assert_close(A(x), A(x.resolve_conj()))
    torch.testing.assert_close(Dense(W.conj())(x), Dense(W.conj().resolve_conj())(x))


def test_a_tile_reads_a_view() -> None:
    weight = nn.Parameter(W.clone())
    A = Dense(weight)
    tile = A.split(A, {ND("N"): slice(1, 2)})
    assert tile.weight is weight
    assert tile(torch.ones(1)).tolist() == [2j, 1, 0]


def test_the_order_of_summation_is_that_of_the_names_given_and_not_of_a_set() -> None:
    dims = tuple("PQRSTUVW")
    A = Dense(torch.ones([1] * 8), dims, dims[1:], dims[:1])
    assert A._forward.letters == ("abcdefgh", "bcdefgh", "a")


def test_broadcast_dimensions_that_are_no_names_are_refused() -> None:
    with pytest.raises(TypeError, match="NamedDimension: a name must be a string, got tensor"):
        Dense(W, broadcast_dims=torch.ones(2, 3))  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("dims", [("N", "C"), ("C", "N"), ("K", "N", "C")])
def test_long_sums_in_single_precision(dims: tuple[str, ...]) -> None:
    """A float32 to which ones are added stays at 2^24."""
    n = 2**24 + 64
    lengths = {"N": n // 8 if "K" in dims else n, "K": 8, "C": 1}
    inside = [dim for dim in dims if dim != "C"]
    A = Dense(torch.ones([lengths[dim] for dim in dims]), dims, ("...", *inside), ("...", "C"))
    x = torch.ones([lengths[dim] for dim in inside])
    assert A(x).tolist() == [n]
    assert A(x[None]).tolist() == [[n]]
