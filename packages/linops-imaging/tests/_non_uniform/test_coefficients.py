"""Toeplitz normals of transforms of coefficients: a kernel for each pair of them."""

import math
from collections.abc import Mapping, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import Chain, Dense, Diagonal, NamedLinop
from linops_core.testing import BaseNamedLinopTests
from linops_imaging import NUFFT
from linops_imaging._non_uniform._toeplitz import convolution_sizes
from linops_imaging._non_uniform._toeplitz_normal import ToeplitzNormal

SIZES = (5, 4)
LENGTHS = {"C": 2, "T": 8, "Z": 2, "P": 3, "A": 2, "L": 3, "Nx": 5, "Ny": 4}


def random(*lengths: int, dtype: torch.dtype = torch.complex128, seed: int = 0) -> Tensor:
    return torch.randn(lengths, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def locations(*lengths: int) -> Tensor:
    unit = torch.rand(*lengths, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (unit - 0.5) * torch.tensor(SIZES, dtype=torch.float64)


def subspace(
    basis: Tensor, *frames: str, batch: Sequence[str] = ("C",), weight: Sequence[str] = ("T", "A")
) -> NamedLinop:
    """Return the transform of coefficients A, which are A frames T in the subspace."""
    lengths = {**LENGTHS, **dict(zip(weight, basis.shape, strict=True))}
    locs = locations(*(lengths[dim] for dim in frames), LENGTHS["P"])
    F = NUFFT(locs, SIZES, (*frames, "P"), batch_shape=(*batch, *frames), tol=1e-11, toeplitz=True)
    before = tuple("A" if dim == "T" else dim for dim in F.ishape)
    return F @ Dense(basis, weight, before, F.ishape)


@pytest.mark.variant
class TestNormalOfCoefficients(BaseNamedLinopTests):
    rtol = 1e-8

    def check_followed(
        self, way: str, dtype: torch.dtype = torch.complex128, rtol: float | None = None
    ) -> None:
        # In single precision a kernel and the composition are equal to 2e-5 of the largest sum.
        super().check_followed(way, dtype, rtol and 1e-4)

    def make_linop(self) -> NamedLinop:
        normal = subspace(random(8, 2), "T").N
        assert isinstance(normal, ToeplitzNormal)
        return normal

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@given(st.data())
@settings(max_examples=settings().max_examples // 3)
def test_it_is_the_composition(data: st.DataObject) -> None:
    frames = data.draw(st.sampled_from([("T",), ("T", "Z"), ("Z", "T")]))
    batch = data.draw(st.sampled_from([(), ("C",)]))
    dtype = data.draw(st.sampled_from([torch.float64, torch.complex128]))
    names: tuple[str, ...] = ("T", "A")
    if "Z" in frames and data.draw(st.booleans()):
        names = ("A", "Z", "T")
    A = (
        subspace(
            random(*(LENGTHS[dim] for dim in names), dtype=dtype),
            *frames,
            batch=batch,
            weight=names,
        )
        if data.draw(st.booleans())
        else segments(dtype)
    )
    W = Diagonal.from_weight(torch.rand(3, dtype=torch.float64), ("P",), A.oshape)
    x = random(*(LENGTHS[str(dim)] for dim in A.ishape), seed=1)
    y, weighted = A(x), W @ A
    expected = (A.H(y), A.H(W(y)), weighted.H(weighted(x)))
    for normal, known in zip((A.N, A.normal(W), weighted.N), expected, strict=True):
        assert isinstance(normal, ToeplitzNormal)
        torch.testing.assert_close(normal(x), known, atol=1e-9, rtol=0)
        torch.testing.assert_close(normal.H(x), known, atol=1e-9, rtol=0)
    dim = data.draw(st.sampled_from([str(dim) for dim in A.ishape[:-2]]))
    part, at = slice(1, 2), A.ishape.index(dim)
    tile = A.N.split(A.N, {dim: part})
    own = x.narrow(at, 1, 1)
    if dim in A.N.oshape:
        torch.testing.assert_close(tile(own), A.N(x).narrow(at, 1, 1))
    else:
        alone = torch.zeros_like(x)
        alone.narrow(at, 1, 1).copy_(own)
        torch.testing.assert_close(tile(own), A.N(alone))


def segments(dtype: torch.dtype) -> NamedLinop:
    """Return a transform of images L, which are added up with weights of the points."""
    F = NUFFT(locations(3), SIZES, ("P",), batch_shape=("L", "C"), tol=1e-11, toeplitz=True)
    return Dense(random(3, 3, dtype=dtype), ("P", "L"), ("L", "C", "P"), ("C", "P")) @ F


@pytest.mark.parametrize(("dtype", "n_kernels"), [(torch.float64, 6), (torch.complex128, 9)])
def test_pairs_share_a_kernel(dtype: torch.dtype, n_kernels: int) -> None:
    A = subspace(random(24, 3, dtype=dtype), "T")
    assert isinstance(A, Chain)
    normal, x = A.N, random(2, 3, *SIZES)
    normal(x)
    kept = vars(normal)["_kept"]._made[1]
    assert len(kept) == n_kernels
    assert all(kernel.shape == convolution_sizes(SIZES) for kernel in kept.values())
    of_frames = 24 * 8 * math.prod(convolution_sizes(SIZES))
    assert sum(kernel.nbytes for kernel in kept.values()) <= of_frames / 2
    result = dict(kept)
    for linop in (normal.H, normal.split(normal, {"A": slice(1, 3)})):
        linop(x[:, : linop.size(linop.ishape[1])])
    assert kept == result  # tiles and the adjoint have none of their own


def test_frames_have_kernels_where_these_are_fewer() -> None:
    A = subspace(random(3, 3, dtype=torch.float64), "T")
    x = random(2, 3, *SIZES)
    assert not isinstance(A.N, ToeplitzNormal)
    assert any(isinstance(part, ToeplitzNormal) for part in A.N.flatten())
    torch.testing.assert_close(A.N(x), A.H(A(x)), atol=1e-9, rtol=0)


def test_coil_maps_are_outside() -> None:
    maps = Dense(random(2, *SIZES), ("C", "Nx", "Ny"), ("A", "Nx", "Ny"), ("C", "A", "Nx", "Ny"))
    A = subspace(random(8, 2), "T") @ maps
    x = random(2, *SIZES)
    assert isinstance(A.N.flatten()[1], ToeplitzNormal)
    torch.testing.assert_close(A.N(x), A.H(A(x)), atol=1e-9, rtol=0)


def test_a_basis_may_be_the_adjoint_of_another() -> None:
    A, basis = subspace(random(8, 2), "T"), random(8, 2).conj().resolve_conj()
    assert isinstance(A, Chain)
    F, x = A.linops[1], random(2, 2, *SIZES)
    B = F @ Dense(basis, ("T", "A"), F.ishape, A.ishape).H
    assert isinstance(B.N, ToeplitzNormal)
    torch.testing.assert_close(B(x), A(x))
    torch.testing.assert_close(B.N(x), B.H(B(x)), atol=1e-9, rtol=0)


def test_changed_weights_are_noticed_and_get_gradients() -> None:
    basis = random(8, 2)
    A = subspace(basis, "T")
    x = random(2, 2, *SIZES)
    before = A.N(x)
    basis.mul_(1 + 1j)
    torch.testing.assert_close(A.N(x), 2 * before)
    B = subspace(nn.Parameter(basis), "T")
    (weight,) = B.parameters()
    (result,) = torch.autograd.grad(B.N(x).abs().square().sum(), weight)
    (expected,) = torch.autograd.grad(B.H(B(x)).abs().square().sum(), weight)
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(
    "middle",
    [
        Dense(random(3, 3, 3), ("P", "P1", "L"), ("L", "C", "P"), ("C", "P1")),  # mixes points
        Dense(random(2, 3, 3), ("C", "P", "L"), ("L", "C", "P"), ("C", "P")),  # of coils
        Dense(random(3, 2, 3), ("P", "C", "L"), ("L", "C", "P"), ("P",)),  # sums over coils
    ],
)
def test_what_is_no_convolution_is_composed(middle: NamedLinop) -> None:
    F = NUFFT(locations(3), SIZES, ("P",), batch_shape=("L", "C"), tol=1e-11, toeplitz=True)
    A, x = middle @ F, random(3, 2, *SIZES)
    assert not isinstance(A.N, ToeplitzNormal)
    torch.testing.assert_close(A.N(x), A.H(A(x)), atol=1e-9, rtol=0)


def test_an_empty_batch_has_an_empty_result() -> None:
    normal = subspace(random(8, 2), "T").N
    assert normal(random(0, 2, *SIZES)).shape == (0, 2, *SIZES)
