import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad

from linops_core import Diagonal, NamedLinop, Role, SplitError
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import FiniteDifference, Gradient, Laplacian, SymmetrizedGradient
from linops_imaging._differences._stencil import BOUNDARIES
from nameddim import ND

SCHEMES = ["forward", "backward", "central"]
GRID = ("Nx", "Ny")


class TestFiniteDifference(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return FiniteDifference("Nx", 4, "central", "replicate", shape=("C", "Nx", "..."), to="M")

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


class TestGradient(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Gradient(GRID, [3, 4], boundary="circular", to=("Mx", "My"))


@pytest.mark.variant
class TestGradientThatKeepsNames(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Gradient(GRID, [3, 2], scheme="backward", shape=("Nx", "C", "Ny"))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestTileOfAGradient(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        G = Gradient(GRID, [5, 4], boundary="circular", shape=("C", *GRID), to=("Mx", "My"))
        coils, rows = slice(0, 2), slice(0, 4)
        return G.split_forward(
            [coils, slice(3, 5), rows], [slice(0, 2), coils, slice(0, 3), slice(1, 4)]
        )

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


class TestSymmetrizedGradient(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return SymmetrizedGradient(GRID, [3, 2], boundary="replicate", to=("Mx", "My"))


@pytest.mark.variant
class TestTileOfASymmetrizedGradient(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        E = SymmetrizedGradient(GRID, [3, 2], shape=GRID, to=("Mx", "My"))
        return E.split(E, {ND("S"): slice(0, 2), ND("Mx"): slice(1, 3)})


class TestLaplacian(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Laplacian(GRID, [3, 4], "circular", to=("Mx", "My"))


def difference_matrix(size: int, scheme: str, boundary: str) -> Tensor:
    """Return the matrix of differences along one axis, point by point."""
    matrix = torch.zeros(size, size, dtype=torch.float64)

    def add(row: int, column: int, factor: float) -> None:
        if boundary == "circular":
            column %= size
        elif boundary == "replicate":
            column = min(max(column, 0), size - 1)
        if 0 <= column < size:
            matrix[row, column] += factor

    for i in range(size):
        if scheme == "second":
            for column, factor in ((i - 1, 1), (i, -2), (i + 1, 1)):
                add(i, column, factor)
        else:
            ahead, behind = i + (scheme != "backward"), i - (scheme != "forward")
            add(i, ahead, 1 / (ahead - behind))
            add(i, behind, -1 / (ahead - behind))
    return matrix


def along(axis: int, sizes: Sequence[int], scheme: str, boundary: str) -> Tensor:
    """Return the matrix of differences along one axis of a grid."""
    whole = torch.ones(1, 1, dtype=torch.float64)
    for number, size in enumerate(sizes):
        eye = torch.eye(size, dtype=torch.float64)
        own = difference_matrix(size, scheme, boundary) if number == axis else eye
        whole = torch.kron(whole, own)
    return whole


def check_matrix(A: NamedLinop, expected: Tensor) -> None:
    torch.testing.assert_close(A.to_dense(dtype=torch.float64), expected, rtol=0, atol=1e-15)
    torch.testing.assert_close(A.H.to_dense(dtype=torch.float64), expected.mT, rtol=0, atol=1e-15)


some_sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(some_sizes, st.sampled_from(SCHEMES), st.sampled_from(BOUNDARIES), st.data())
def test_differences_are_the_matrix_along_any_axis(
    sizes: list[int], scheme: str, boundary: str, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(sizes) - 1))
    x = torch.randn(sizes, dtype=torch.complex128)
    names = [f"N{number}" for number in range(len(sizes))]
    D = FiniteDifference(names[axis], sizes[axis], scheme, boundary, shape=names)
    matrix = along(axis, sizes, scheme, boundary).to(x.dtype)
    torch.testing.assert_close(D(x).flatten(), matrix @ x.flatten())
    torch.testing.assert_close(D.H(x).flatten(), matrix.mH @ x.flatten())
    first = FiniteDifference(names[0], sizes[0], scheme, boundary, shape=(names[0], "..."))
    matrix = along(0, sizes, scheme, boundary).to(x.dtype)
    torch.testing.assert_close(first(x).flatten(), matrix @ x.flatten())


@given(some_sizes, st.sampled_from(SCHEMES), st.sampled_from(BOUNDARIES))
def test_a_gradient_is_the_differences_one_after_the_other(
    sizes: list[int], scheme: str, boundary: str
) -> None:
    names = [f"N{number}" for number in range(len(sizes))]
    G = Gradient(names, sizes, "D", scheme, boundary, shape=names)
    check_matrix(G, torch.cat([along(a, sizes, scheme, boundary) for a in range(len(sizes))]))


@given(some_sizes, st.sampled_from(SCHEMES), st.sampled_from(BOUNDARIES))
def test_a_symmetrised_gradient_has_the_frobenius_norm_of_the_matrices(
    sizes: list[int], scheme: str, boundary: str
) -> None:
    ndim, names = len(sizes), [f"N{number}" for number in range(len(sizes))]
    E = SymmetrizedGradient(names, sizes, "D", "S", scheme, boundary, shape=names)
    v = torch.randn(ndim, *sizes, dtype=torch.float64)
    jacobian = torch.stack(
        [
            torch.stack([along(a, sizes, scheme, boundary) @ part.flatten() for part in v])
            for a in range(ndim)
        ]
    )
    symmetric = (jacobian + jacobian.transpose(0, 1)) / 2
    result = E(v).flatten(1)
    entries = [(a, b) for a in range(ndim) for b in range(a, ndim)]
    for entry, (a, b) in zip(result, entries, strict=True):
        torch.testing.assert_close(entry, symmetric[a, b] * (1 if a == b else math.sqrt(2)))
    torch.testing.assert_close(result.square().sum(0), symmetric.square().sum((0, 1)))
    matrix = E.to_dense(dtype=torch.float64)
    check_matrix(E, matrix)


@given(some_sizes, st.sampled_from(BOUNDARIES))
def test_a_laplacian_is_its_own_adjoint_and_mostly_minus_the_normal_of_the_gradient(
    sizes: list[int], boundary: str
) -> None:
    names = [f"N{number}" for number in range(len(sizes))]
    matrix = sum(along(a, sizes, "second", boundary) for a in range(len(sizes)))
    assert isinstance(matrix, Tensor)
    L = Laplacian(names, sizes, boundary, shape=names)
    check_matrix(L, matrix)
    check_matrix(L.H, matrix)
    for scheme in ("forward", "backward"):
        G = Gradient(names, sizes, "D", scheme, boundary, shape=names)
        normal = -G.N.to_dense(dtype=torch.float64)
        assert torch.equal(normal, matrix) is (boundary != "zeros")


def test_differences_of_a_parabola_are_known() -> None:
    x = torch.arange(5.0) ** 2
    known = {
        ("forward", "zeros"): [1, 3, 5, 7, -16],
        ("forward", "circular"): [1, 3, 5, 7, -16],
        ("forward", "replicate"): [1, 3, 5, 7, 0],
        ("backward", "zeros"): [0, 1, 3, 5, 7],
        ("backward", "circular"): [-16, 1, 3, 5, 7],
        ("backward", "replicate"): [0, 1, 3, 5, 7],
        ("central", "zeros"): [0.5, 2, 4, 6, -4.5],
        ("central", "circular"): [-7.5, 2, 4, 6, -4.5],
        ("central", "replicate"): [0.5, 2, 4, 6, 3.5],
    }
    for (scheme, boundary), expected in known.items():
        assert FiniteDifference("N", 5, scheme, boundary)(x).tolist() == expected


def test_the_components_come_first() -> None:
    G = Gradient(GRID, [3, 4], shape=("C", "Nx", "T", "Ny"))
    x = torch.randn(2, 3, 5, 4)
    y = G(x)
    assert G.oshape == ("D", "C", "Nx", "T", "Ny") and y.shape == (2, 2, 3, 5, 4)
    for part, dim, size in zip(y, GRID, (3, 4), strict=True):
        own = FiniteDifference(dim, size, shape=("C", "Nx", "T", "Ny"))
        assert torch.equal(part, own(x))


def test_the_normal_keeps_the_names_so_that_it_can_be_added() -> None:
    G = Gradient(GRID, [4, 5], boundary="replicate")
    assert G.N.ishape == G.N.oshape == ("...", *GRID)
    A = G.N + 0.1 * G.N
    x = torch.randn(4, 5)
    torch.testing.assert_close(A(x), 1.1 * G.H(G(x)))


def test_the_grid_is_cut_where_the_output_has_other_names() -> None:
    kept, G = Gradient(GRID, [6, 6]), Gradient(GRID, [6, 6], to=("Mx", "My"))
    for dim in GRID:
        with pytest.raises(SplitError, match=f"Gradient .*: {dim} cannot be split: .*; give to="):
            kept.split(kept, {ND(dim): slice(0, 2)})
        assert kept.support(dim) is None and kept.role(dim) is Role.OPAQUE
    assert kept.role("D") is G.role("D") is G.role("Mx") is Role.OUTPUT
    rows = G.split(G, {ND("Mx"): slice(2, 4)})
    assert rows.support("Nx") == slice(2, 5) and rows.support("Ny") == slice(0, 6)
    along_y = rows.split(rows, {ND("D"): slice(1, 2)})
    assert along_y.support("Nx") == slice(2, 4) and along_y.support("Mx") == slice(0, 2)
    assert rows.H.support("Nx") == slice(2, 5)
    x = torch.randn(6, 6)
    part = rows.split(rows, {ND("Nx"): slice(2, 5)})
    assert torch.equal(part(x[2:5]), G(x)[:, 2:4])


def test_components_of_a_field_read_and_write_what_they_need() -> None:
    E = SymmetrizedGradient(GRID, [4, 4], to=("Mx", "My"))
    assert E.role("D") is Role.INPUT and E.role("S") is Role.OUTPUT
    first = E.split(E, {ND("S"): slice(0, 1)})
    assert first.support("D") == slice(0, 1)
    second = E.split(E, {ND("D"): slice(1, 2)})
    assert second.support("S") == slice(1, 3)
    assert first.split(first, {ND("D"): slice(1, 2)}).support("Nx") == slice(0, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_dtype_stays(dtype: torch.dtype, boundary: str) -> None:
    G = Gradient(GRID, [4, 3], boundary=boundary)
    x = torch.arange(12.0).view(4, 3).to(dtype)
    y = G(x)
    assert y.dtype == G.H(y).dtype == dtype
    wide = G(x.to(torch.complex128))
    assert torch.equal(y.to(torch.complex128), wide)
    assert torch.equal(G.H(y).to(torch.complex128), G.H(wide))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
def test_differences_of_integers_do_not_wrap(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 0, 1, 1]).to(dtype)
    for A in (FiniteDifference("N", 4), Laplacian(("N",), [4])):
        assert A(x).dtype == A.H(x).dtype == torch.int64
        assert torch.equal(A(x), A(x.double()).long())
    central = FiniteDifference("N", 4, "central")
    assert torch.equal(central(x), central(x.float()))
    E = SymmetrizedGradient(GRID, [2, 1])
    field = x.view(2, 2, 1)
    assert torch.equal(E(field), E(field.float()))


def test_what_is_not_finite_stays_where_it_is() -> None:
    D = FiniteDifference("N", 5, boundary="replicate")
    x = torch.zeros(5)
    x[-1] = math.inf
    assert D(x).isfinite().tolist() == [True, True, True, False, True]
    assert D.H(x).isfinite().all()  # the last difference is 0, whatever x is


def test_lazily_conjugated_and_negated_input() -> None:
    G = Gradient(GRID, [3, 4])
    x = torch.randn(3, 4, dtype=torch.complex64)
    assert torch.equal(G(x.conj()), G(x).conj())
    assert torch.equal(G(x.conj().imag), -G(x).imag)


def test_the_input_is_not_written_to_and_nothing_is_shared() -> None:
    for size in (1, 3):
        D = FiniteDifference("N", size, "forward", "replicate")
        x = torch.randn(size)
        before = x.clone()
        D(x).add_(1)
        D.H(x).add_(1)
        assert torch.equal(x, before)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_dual_numbers_without_a_transform() -> None:
    G = Gradient(GRID, [3, 4])
    x, v = torch.randn(2, 3, 4)
    with forward_ad.dual_level():
        y, change = forward_ad.unpack_dual(G(forward_ad.make_dual(x, v)))
    assert change is not None
    assert torch.equal(y, G(x)) and torch.equal(change, G(v))


def test_the_adjoint_is_matched_in_single_precision() -> None:
    for scheme in SCHEMES:
        G = Gradient(GRID, [12, 7], scheme=scheme, boundary="replicate", shape=GRID)
        dottest(G, dtypes=[torch.float32, torch.complex64])


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: FiniteDifference("N", 3, ["central"]), ValueError, "scheme must be one of .* got"),  # type: ignore[arg-type]
        (lambda: FiniteDifference("N", 3, "upwind"), ValueError, "scheme must be one of .* got"),
        (lambda: FiniteDifference("N", 3, boundary="same"), ValueError, "boundary must be one of"),
        (lambda: FiniteDifference("N", 0), ValueError, "size must be at least 1, got 0"),
        (lambda: FiniteDifference("N", 2.0), TypeError, "size must be an integer, got 2.0"),  # type: ignore[arg-type]
        (lambda: FiniteDifference("N", 3, shape=("M",)), ValueError, r"dims must be .* \(M\)"),
        (lambda: FiniteDifference("...", 3), ValueError, "dims must be different named dimensions"),
        (lambda: FiniteDifference("N", 3, to="..."), ValueError, "to must name the 1 dimensions"),
        (
            lambda: Gradient((), []),
            ValueError,
            "dims must be different named dimensions of the input",
        ),
        (
            lambda: Gradient(("Nx", "Nx"), [3, 3], shape=GRID),
            ValueError,
            "dims must be different named dimensions",
        ),
        (lambda: Gradient(GRID, [3, 3], "..."), ValueError, "oshape must have"),
        (lambda: Gradient(GRID, [3]), ValueError, "sizes must be 2 positive integers"),
        (lambda: Gradient(GRID, [3, 3], to=("M",)), ValueError, "to must name the 2 dimensions"),
        (lambda: Gradient(GRID, [3, 3], "Nx"), ValueError, "oshape must have different dim"),
        (lambda: SymmetrizedGradient(GRID, [3, 3], "D", "D"), ValueError, "in_dim and out_dim"),
        (lambda: SymmetrizedGradient(GRID, [3, 3], scheme=""), ValueError, "scheme must be one of"),
        (lambda: Laplacian(GRID, [3, 3], "x"), ValueError, "Laplacian: boundary must be one of"),
    ],
)
def test_bad_arguments_are_refused(make, error: type[Exception], match: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=match):
        make()


def test_a_neighbour_says_where_the_grid_stands() -> None:
    x = torch.randn(3, 2, 4, dtype=torch.float64)
    D = Diagonal(torch.ones(3, 2, 4, dtype=torch.float64), ("Ny", "C", "Nx"))
    for free, whole in [
        (FiniteDifference("Ny", 3), FiniteDifference("Ny", 3, shape=D.ishape)),
        (Laplacian("NxNy", [4, 3]), Laplacian("NxNy", [4, 3], shape=D.ishape)),
        (Gradient("NxNy", [4, 3]), Gradient("NxNy", [4, 3], shape=D.ishape)),
        (
            SymmetrizedGradient("NxNy", [4, 3]) @ Gradient("NxNy", [4, 3]),
            SymmetrizedGradient("NxNy", [4, 3], shape=D.ishape)
            @ Gradient("NxNy", [4, 3], shape=D.ishape),
        ),
    ]:
        A, B = free @ D, (D @ free.H).H
        assert A.ishape == B.ishape == whole.ishape
        assert A.oshape == B.oshape == whole.oshape
        torch.testing.assert_close(A(x), whole(x))
        torch.testing.assert_close(B(x), whole(x))
        torch.testing.assert_close(A.N(x), whole.H(whole(x)))
    assert Gradient("NxNy", [4, 3]).H.fitted_to((ND("C"), ND("Nx"), ND("Ny"))) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: FiniteDifference("Nx", 3, boundary="replicate", **k),
        lambda **k: FiniteDifference("Nx", 3, boundary="replicate", to="Mx", **k),
        lambda **k: Gradient(GRID, [3, 3], boundary="replicate", **k),
        lambda **k: Gradient(GRID, [3, 3], to=("Mx", "My"), **k),
        lambda **k: Laplacian(GRID, [3, 3], boundary="circular", to=("Mx", "My"), **k),
        lambda **k: SymmetrizedGradient(GRID, [3, 3], to=("Mx", "My"), **k),
    ],
)
def test_a_neighbour_says_in_which_order_a_free_normal_has_the_grid(
    make: Callable[..., NamedLinop],
) -> None:
    """All dimensions have the same size: another order would be no error but other values."""
    for order in permutations(("Nx", "Ny", "Z")):
        A, placed = make(), make(shape=order)
        sizes = {"Nx": 3, "Ny": 3, "Z": 3, "D": 2}
        lengths = [sizes[dim.name] for dim in placed.ishape]
        D = Diagonal(torch.randn(lengths, dtype=torch.complex128), placed.ishape)
        M, of_D = placed.to_dense(sizes).to(torch.complex128), D.to_dense()
        N = M.mH @ M
        cases: list[tuple[NamedLinop, Tensor]] = [
            (A.N @ D, N @ of_D),
            (D @ A.N, of_D @ N),
            (D.H @ A.N @ D, of_D.mH @ N @ of_D),
            (A.N.H @ D, N @ of_D),
            (D @ A.N.H, of_D @ N),
            (D + 2j * A.N.H, of_D + 2j * N),
            (D.normal(A.N), of_D.mH @ N @ of_D),
        ]
        for linop, matrix in cases:
            assert linop.is_endomorphism and placed.ishape in (linop.ishape, linop.oshape)
            x = torch.randn(lengths, dtype=torch.complex128)
            torch.testing.assert_close(linop(x).flatten(), matrix @ x.flatten())
