from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import (
    FFT,
    Chain,
    Convolution,
    Dense,
    Diagonal,
    FourierShift,
    Identity,
    NamedLinop,
    PadDim,
    Sampling,
    Scalar,
    VStack,
    Zero,
)
from linops_core.testing.strategies import Known, diagonals, leaves, samplings, scalars, trees
from nameddim import NamedShape

shifts = st.sampled_from([0.25, 1, 3.5])


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def check_solution(known: Known, lam: float) -> None:
    """Compare with the solution of the dense system."""
    y = values(*known.spaces.lengths(known.spaces.ishape))
    x = known.linop.solve_shifted(y, lam)
    normal = known.matrix.mH @ known.matrix
    expected = torch.linalg.solve(normal + lam * torch.eye(len(normal)), y.flatten())
    assert x.shape == y.shape
    torch.testing.assert_close(x.flatten(), expected, rtol=1e-9, atol=1e-9)


@given(diagonals() | samplings() | scalars(), shifts)
def test_multiplications_are_solved_as_the_dense_system(known: Known, lam: float) -> None:
    check_solution(known, lam)


@given(leaves() | trees(), shifts)
def test_every_operator_is_solved_rightly_or_refused(known: Known, lam: float) -> None:
    try:
        check_solution(known, lam)
    except ValueError as error:
        assert "must have a closed form" in str(error)


def ring(seed: int = 3, **options: Any) -> Convolution:
    return Convolution(values(3, seed=seed), padding_mode="circular", **options)


def chains() -> dict[str, NamedLinop]:
    F = FFT(2, norm="ortho")
    shift = FourierShift(["Nx"], [0.5])
    weight = Diagonal(values(4, 3), ("Kx", "Ky"))
    mask = Sampling.from_mask(values(4, 3).real > 0, input_shape=("Kx", "Ky"))
    twice = Sampling(
        [torch.tensor([0, 0, 3]), torch.tensor([2, 2, 1])], [4, 3], ("K",), ("Kx", "Ky")
    )
    coils = Dense(values(2, 4, 3), ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    return {
        "mask": mask @ F,
        "repetitions": twice @ F,
        "weights and a mask": mask @ weight @ F,
        "weights between": F.H @ weight @ F,
        "centred": mask @ FFT(2, centered=True),
        "numbers anywhere": 2j * (weight @ (3.0 * F @ Scalar(torch.tensor(0.5 + 1j)))),
        "very small numbers": 1e-9 * (1e9 * (weight @ (1e-3 * F))),
        "two unitary operators": weight @ F @ shift,
        "unitary alone": F @ shift,
        "unitary at the end": shift @ Diagonal(values(4, 3), ("Nx", "Ny")),
        "coils": coils,
        "coils and a transform": F @ coils,
        "unnormalised": FFT(2, norm="backward"),
        "normalised twice": mask @ FFT(2, norm="forward", centered=True),
        "filter": FFT(2, norm="backward").H @ weight @ FFT(2, norm="backward"),
        "two scaled transforms": FFT(dims=("Ny",), to=("Ky",), norm="backward")
        @ FFT(dims=("Nx",), shape=("Nx", "Ny"), norm="forward"),
        "circular": ring(dims=("Ny",)),
        "circular in two dimensions": Convolution(values(5, 2), padding_mode="circular"),
        "circular along the first": ring(dims=("Nx",), shape=("Nx", "Ny")),
        "circular, after another": ring(4, dims=("Ny",)) @ (2j * ring(dims=("Ny",))),
        "circular and a transform": F @ ring(dims=("Ny",)),
        "a transform and circular": ring(dims=("Kx",), shape=("Kx", "Ky"))
        @ FFT(2, norm="backward"),
        "circular adjoint": ring(dims=("Ny",)).H,
        "circular with other names": ring(dims=("Ny",), to=("M",)),
        "circular, measured twice": VStack(
            ring(4, dims=("Ny",), grid_size=[3]), ring(dims=("Ny",), grid_size=[3])
        ),
        "circular with a kernel each": Convolution(
            values(4, 3),
            dims=("Ny",),
            shape=("Nx", "Ny"),
            kernel_batch_shape=("Nx",),
            padding_mode="circular",
        ),
        "measured twice": VStack(mask, weight) @ F,
        "conjugate": (weight @ F).conj(),
        "batch": mask @ FFT(2, ("...",)),
        "zero": Zero(("Kx", "Ky"), ("K",), sizes={"Kx": 4, "Ky": 3, "K": 2}) @ F,
    }


@pytest.mark.parametrize("name", chains())
@pytest.mark.parametrize("lam", [0.5, torch.tensor(2.0)])
def test_chains_with_unitary_operators_have_a_closed_form(name: str, lam: Any) -> None:
    A, y = chains()[name], values(4, 3)
    matrix = A.N.to_dense(like=y)
    expected = torch.linalg.solve(matrix + lam * torch.eye(12), y.flatten())
    torch.testing.assert_close(A.solve_shifted(y, lam).flatten(), expected)


REFUSED: dict[str, tuple[Callable[[], NamedLinop], str]] = {
    "a matrix": (
        lambda: Dense(values(2, 3), ("M", "N"), ("N",), ("M",)),
        r"closed form, got Dense .*not known to be unitary.* all elements along N depend on "
        r"each other; "
        r"use .*conjugate_gradients\(A.N \+ lam \* Identity\(\), y\)",
    ),
    "a convolution": (
        lambda: Convolution(values(3), dims=("N",)),
        r"got Convolution .* not known to be unitary",
    ),
    "a circular convolution along another dimension": (
        lambda: (
            Convolution(values(3), dims=("Nx",), padding_mode="circular")
            @ Convolution(values(3), dims=("Ny",), shape=("Nx", "Ny"), padding_mode="circular")
        ),
        r"got Convolution .* not known to be unitary",
    ),
    "a tile of a circular convolution": (
        lambda: (A := ring(grid_size=[4], to=("M",), dims=("N",))).split(A, {"N": slice(0, 3)}),
        r"got Convolution .* not known to be unitary",
    ),
    "several coils": (
        lambda: (
            Sampling([torch.tensor([0])], [3], ("K",), ("Kx",))
            @ FFT(1)
            @ Dense(values(2, 3), ("C", "Nx"), ("Nx",), ("C", "Nx"))
        ),
        r"got Dense \(Nx\) -> \(C, Nx\), which is not known",
    ),
    "an isometry that is not unitary": (
        lambda: Diagonal(values(5), ("Kx",)) @ FFT(1) @ PadDim("Nx", 3, 5, ("Nx",), ("Nx",)),
        r"got PadDim .* not known to be unitary",
    ),
    "a unitary operator first": (
        lambda: Dense(values(2, 3), ("M", "Kx"), ("Kx",), ("M",)) @ FFT(1),
        r"^Chain .* got Dense .* the normal of Dense",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_with_the_reason(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make().solve_shifted(values(3), 1.0)


class RealPart(NamedLinop):
    """The real part: its normal keeps elements apart, and is no multiplication."""

    is_complex_linear = False

    def __init__(self) -> None:
        super().__init__(NamedShape(("N",)))

    def why_opaque(self, dim: object) -> str | None:
        return None

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x.real

    adj_fn = fn


def test_what_is_linear_over_the_reals_only_is_refused() -> None:
    with pytest.raises(ValueError, match=r"RealPart .* closed form, got an .* over the reals only"):
        RealPart().solve_shifted(values(2), 1.0)


def test_a_shift_of_zero_needs_an_inverse() -> None:
    invertible = Diagonal(torch.tensor([2.0, 1j]), ("N",))
    assert invertible.solve_shifted(torch.tensor([8.0, 3.0]), 0).tolist() == [2, 3]
    A = Sampling.from_mask(torch.tensor([True, False]))
    y = torch.ones(2)
    for lam in (0, 0.0, torch.tensor(0.0), 1e-60):  # the last is zero in single precision
        with pytest.raises(ValueError, match=r"Sampling .*: lam must be positive if A.N has no"):
            A.solve_shifted(y, lam)
    assert A.solve_shifted(y.double(), 1e-60).tolist() == [1, 1e60]


def test_circular_convolutions_of_real_vectors_have_a_real_solution() -> None:
    blur = Convolution(torch.tensor([0.25, 0.5, 0.25]), padding_mode="circular")
    y = torch.arange(4.0)
    x = blur.solve_shifted(y, 0.5)
    assert x.dtype == torch.float32
    torch.testing.assert_close(blur.N(x) + 0.5 * x, y)
    half = blur.to(torch.float16).solve_shifted(y.half(), 0.5)
    torch.testing.assert_close(half, x.half(), rtol=2e-3, atol=2e-3)
    assert blur.solve_shifted(torch.ones(0, 4), 0.5).shape == (0, 4)
    mean = Convolution(torch.ones(3) / 3, padding_mode="circular")
    with pytest.raises(ValueError, match=r"lam must be positive if A.N has no inverse, got 0"):
        mean.solve_shifted(torch.ones(6), 0)  # one frequency is lost, but for rounding


@given(st.lists(st.sampled_from([1, 1e-4, 1e-9, 1e5]), min_size=2, max_size=3))
def test_each_kernel_of_a_batch_has_its_own_rounding(factors: list[float]) -> None:
    kernels = torch.stack([factor * values(3, seed=5) for factor in factors])
    batch = Convolution(
        kernels,
        ("B",),
        ("Nx",),
        padding_mode="circular",
        kernel_batch_shape=("B",),
        grid_size=(8,),
    )
    y = values(len(factors), 8)
    lam = 1e-2 * min(factors) ** 2
    alone = [Convolution(kernel, padding_mode="circular", grid_size=(8,)) for kernel in kernels]
    expected = torch.stack(
        [one.solve_shifted(right, lam) for one, right in zip(alone, y, strict=True)]
    )
    torch.testing.assert_close(batch.solve_shifted(y, lam) / expected, torch.ones_like(y))


def test_gradients_reach_the_kernel_of_a_circular_convolution() -> None:
    def solve(kernel: Tensor, lam: Tensor, y: Tensor) -> Tensor:
        return Convolution(kernel, padding_mode="circular").solve_shifted(y, lam)

    inputs = values(2), torch.tensor(0.7, dtype=torch.float64), values(3, seed=1)
    assert torch.autograd.gradcheck(solve, [x.requires_grad_() for x in inputs])


@pytest.mark.parametrize("lam", [-1, -0.5, float("inf"), float("nan"), torch.tensor(-1.0)])
def test_shifts_out_of_range_are_refused(lam: Any) -> None:
    with pytest.raises(ValueError, match=r"Identity .*: lam must be at least 0 and finite, got"):
        Identity(("N",)).solve_shifted(torch.ones(2), lam)


@pytest.mark.parametrize("lam", [1j, "1", None, True, torch.ones(2), torch.tensor(1j)])
def test_what_is_no_real_number_is_no_shift(lam: Any) -> None:
    with pytest.raises(TypeError, match=r"Identity .*: lam must be a real number, got"):
        Identity(("N",)).solve_shifted(torch.ones(2), lam)


def test_what_is_no_tensor_or_of_another_shape_is_refused() -> None:
    A: Any = Diagonal(torch.ones(3), ("N",))
    with pytest.raises(TypeError, match=r"Diagonal .*: y must be a torch.Tensor"):
        A.solve_shifted([1.0], 1.0)
    with pytest.raises(ValueError, match=r"N must have size 3, got 2"):
        A.solve_shifted(torch.ones(2), 1.0)


def test_gradients_reach_the_weights_the_shift_and_the_right_hand_side() -> None:
    def solve(weight: Tensor, lam: Tensor, y: Tensor) -> Tensor:
        return (Diagonal(weight, ("Kx",)) @ FFT(1)).solve_shifted(y, lam)

    inputs = values(3), torch.tensor(0.7, dtype=torch.float64), values(3, seed=1)
    assert torch.autograd.gradcheck(solve, [x.requires_grad_() for x in inputs])


def test_the_weights_are_read_at_each_call() -> None:
    weight = nn.Parameter(torch.ones(2))
    A = Diagonal(weight, ("Kx",)) @ FFT(1)
    before = A.solve_shifted(torch.ones(2), 1.0)
    with torch.no_grad():
        weight.mul_(2.0)
    torch.testing.assert_close(A.solve_shifted(torch.ones(2), 1.0), before * 2 / 5)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float16),
        (torch.float32, torch.float32),
        (torch.complex64, torch.complex64),
        (torch.int64, torch.float32),
    ],
)
def test_the_dtype_is_that_of_the_right_hand_side(
    dtype: torch.dtype, expected: torch.dtype
) -> None:
    x = Sampling.from_mask(torch.tensor([True, False])).solve_shifted(
        torch.tensor([3, 4]).to(dtype), np.float64(1.0)
    )
    assert x.dtype == expected
    assert x.tolist() == [1.5, 4]


def test_transforms_of_functions_go_through() -> None:
    A, y = chains()["mask"], values(5, 4, 3)
    result = torch.func.vmap(lambda row: A.solve_shifted(row, 0.5))(y)
    torch.testing.assert_close(result[2], A.solve_shifted(y[2], 0.5))
    lams = torch.tensor([0.5, 2.0])
    result = torch.func.vmap(lambda lam: A.solve_shifted(y[0], lam))(lams)
    torch.testing.assert_close(result[1], A.solve_shifted(y[0], 2.0))
    of_shapes = Diagonal(torch.empty(3, device="meta"), ("N",))
    assert of_shapes.solve_shifted(torch.empty(3, device="meta"), 0).is_meta
    assert of_shapes.solve_shifted(torch.empty(3, device="meta"), lams[0].to("meta")).is_meta


def test_chains_that_are_no_composition_by_rules_are_solved_alike() -> None:
    A = Chain(Scalar(2.0), FFT(1), Identity(("...", "Kx")), Diagonal(values(3), ("Kx",)))
    y = values(3)
    x = A.solve_shifted(y, 0.5)
    torch.testing.assert_close(A.N(x) + 0.5 * x, y)
