import numpy as np
import pytest
import torch

from linops_core import (
    FFT,
    Add,
    ArrayToBlocks,
    Concat,
    Convolution,
    Crop,
    Dense,
    Diagonal,
    Identity,
    Interpolate,
    NamedLinop,
    PadLast,
    Rearrange,
    Repeat,
    Sampling,
    Scalar,
    Stack,
    Zero,
)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64, torch.complex128]
)
def test_the_matrix_has_the_dtype_of_the_weights(dtype: torch.dtype) -> None:
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).to(dtype)
    A = Dense(weight, ("M", "N"))
    for linop, matrix in ((A, weight), (A.H, weight.mH), (A.T, weight.mT), (A.conj(), weight)):
        result = linop.to_dense()
        assert result.dtype == dtype and torch.equal(result, matrix)


def test_without_weights_the_matrix_is_in_double_precision() -> None:
    assert Identity(("N",)).to_dense({"N": 2}).dtype == torch.float64
    assert FFT(1).to_dense({"Nx": 2}).dtype == torch.complex128
    assert Dense(torch.ones(2, 2, dtype=torch.int8)).to_dense().dtype == torch.float64


def test_the_matrix_of_an_operator_of_a_given_dtype() -> None:
    A = Dense(torch.ones(2, 3), ("M", "N"))
    assert A.to_dense(dtype=torch.complex128).dtype == torch.complex128
    assert A.to_dense(dtype=torch.float64).dtype == torch.float64


INDICES, MASK = torch.tensor([1, 2]), torch.zeros(4, dtype=torch.bool)
EMPTY: list[tuple[NamedLinop, dict[str, int]]] = [
    (Diagonal(torch.ones(0), ("N",)), {}),
    (Diagonal(torch.ones(3), ("...", "N")), {"...": 0}),
    (Dense(torch.ones(0, 3), ("M", "N")), {}),
    (Dense(torch.ones(3, 0), ("M", "N")), {}),
    (Dense(torch.ones(0, 3, 2), ("B", "M", "N"), ("B", "N"), ("B", "M")), {}),
    (Dense(torch.ones(0, 2), ("C", "N"), ("N",), ("C", "N")), {}),
    (Scalar(2.0, ("N",)), {"N": 0}),
    (Identity(("N",), ("M",)), {"N": 0}),
    (Zero(("N",), ("M",), sizes={"N": 0, "M": 3}), {}),
    (Zero(("N",), ("M",), sizes={"N": 3, "M": 0}), {}),
    (FFT(1, ("B",)), {"B": 0, "Nx": 4}),
    (FFT(2, (), centered=True, norm="backward"), {"Nx": 0, "Ny": 3}),
    (FFT(1, (), norm="forward"), {"Nx": 0}),
    (Sampling([INDICES[:0]], [4], ("S",), ("N",), ()), {}),
    (Sampling([INDICES], [4], ("S",), ("N",), ("B",)), {"B": 0}),
    (Crop([2], [4], ("N",), ("M",), ("B",)), {"B": 0}),
    (PadLast([6], [4], ("N",), ("M",), ("B",)), {"B": 0}),
    (Rearrange("(a b)", "b a", ("N",), ("B", "A"), {"a": 2}), {"N": 0}),
    (Repeat({"C": 2}, ("N",), ("C", "N")), {"N": 0}),
    (ArrayToBlocks([4], [2], [1], MASK[:3], (), ("N",), ("Q", "P")), {}),
    (ArrayToBlocks([4], [2], [1], None, ("B",), ("N",), ("Q", "P")), {"B": 0}),
    (Interpolate(torch.ones(0, 1), [4], (), ("P",), ("N",)), {}),
    (Interpolate(torch.ones(3, 1), [4], ("B",), ("P",), ("N",)), {"B": 0}),
    (Convolution(torch.ones(3), ("B",)), {"B": 0, "Nx": 4}),
    (Convolution(torch.ones(3), ()), {"Nx": 0}),
    (Convolution(torch.ones(3), (), padding_mode="circular"), {"Nx": 0}),
    (Convolution(torch.ones(3), (), method="fft"), {"Nx": 0}),
    (
        Concat(Dense(torch.ones(0, 3), ("M", "N")), Dense(torch.ones(2, 3), ("M", "N")), odim="M"),
        {},
    ),
    (Stack(*[Diagonal(torch.ones(0), ("N",))] * 2, odim_and_idx=("K", 0)), {}),
    (Add(*[Dense(torch.ones(2, 0), ("M", "N"))] * 2), {}),
    (Dense(torch.ones(2, 0), ("K", "M")) @ Dense(torch.ones(0, 3), ("M", "N")), {}),
]


@pytest.mark.parametrize(
    ("A", "sizes"), [pytest.param(A, sizes, id=A.signature) for A, sizes in EMPTY]
)
def test_operators_with_sizes_of_zero_are_their_matrices(
    A: NamedLinop, sizes: dict[str, int]
) -> None:
    lengths = [sizes.get(str(dim), A.size(dim)) for dim in A.ishape]
    x = torch.randn([length for length in lengths if length is not None], dtype=torch.complex128)
    y = A(x)
    of_output = {str(dim): length for dim, length in zip(A.oshape, y.shape, strict=True)}
    M = A.to_dense(sizes)
    assert M.shape == (y.numel(), x.numel())
    torch.testing.assert_close(M.to(x.dtype) @ x.flatten(), y.flatten().to(x.dtype))
    of_input = {str(dim): length for dim, length in zip(A.ishape, x.shape, strict=True)}
    for linop, own, matrix in ((A.H, of_output, M.mH), (A.N, of_input, M.mH @ M)):
        torch.testing.assert_close(linop.to_dense(own), matrix, check_dtype=False)
    energy = (A.N(x.requires_grad_()).abs() ** 2).sum()
    if energy.requires_grad:
        (result,) = torch.autograd.grad(energy, x)
        assert result.shape == x.shape and not result.isnan().any()
    operator = A.to_scipy(sizes)
    assert operator.shape == M.shape
    for n_columns in (0, 1, 2):
        columns, rows = np.ones((x.numel(), n_columns)), np.ones((y.numel(), n_columns))
        np.testing.assert_allclose(operator @ columns, M.numpy() @ columns, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(
            operator.rmatmat(rows), M.mH.resolve_conj().numpy() @ rows, rtol=1e-5, atol=1e-12
        )
