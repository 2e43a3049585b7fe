"""Sums, steps and gradients, each with a guess that was written down before the run."""

import numpy as np
import torch
from ranks import of_ranks
from table import row
from torch import Tensor

SECTION = "Guessed first, then run"
MOST = 2**24
"""Where a float32 that grows by 1 stops."""


@row(
    SECTION,
    "torch",
    guess="histograms and sums of many float32 numbers are right, as `sum` is",
    here="inner products are added in double precision; `Sampling` counts with integers",
)
def counts() -> str:
    n, n_threads = MOST + 64, torch.get_num_threads()
    torch.set_num_threads(1)  # several count one part each
    ones, first = torch.ones(n), torch.zeros(n, dtype=torch.int64)
    stopped = {
        "histc": torch.histc(first.float(), 2, -1, 1)[1],
        "histogram": torch.histogram(first.float(), 2, range=(-1.0, 1.0)).hist[1],
        "bincount(weights=)": torch.bincount(first, weights=ones)[0],
        "index_add": torch.zeros(1).index_add(0, first, ones)[0],
        "scatter_add": torch.zeros(1).scatter_add(0, first, ones)[0],
        "sparse coalesce": torch.sparse_coo_tensor(first[None], ones, (1,)).coalesce().values()[0],
        "avg_pool1d": torch.nn.functional.avg_pool1d(ones[None, None], n)[0, 0, 0] * n,
    }
    torch.set_num_threads(n_threads)
    right = {
        "sum": ones.sum(),
        "cumsum": ones.cumsum(0)[-1],
        "matrix_norm": torch.linalg.matrix_norm(ones[None]) ** 2,
        "adaptive_avg_pool1d": torch.nn.functional.adaptive_avg_pool1d(ones[None, None], 1) * n,
    }
    assert all(int(found) == MOST for found in stopped.values()), stopped
    assert all(abs(int(found) - n) < 8 for found in right.values()), right
    names = ", ".join(f"`{name}`" for name in stopped)
    return f"with one thread, {names} stop at 2^24 = 16777216 ones"


@row(
    SECTION,
    "torch",
    guess="`batch_norm` of (N, C) and of (1, C, N) agree",
    here="not used here",
)
def batch_norm() -> str:
    x = torch.randn(2**22, 2, generator=torch.Generator().manual_seed(0)) + 100
    exact = (x.double() - x.double().mean(0)) / x.double().std(0, correction=0)
    norm = torch.nn.functional.batch_norm
    rows = norm(x, None, None, training=True)
    channels = norm(x.T.contiguous()[None], None, None, training=True)[0].T
    errors = [float((found - exact).abs().max()) for found in (rows, channels)]
    assert errors[0] > 1 and errors[1] < 1e-4, errors
    return (
        "of 2^22 float32 numbers around 100 with standard deviation 1, (N, C) has errors above 1 "
        "on the CPU, (1, C, N) 3e-5: means of rows are added one by one"
    )


@row(
    SECTION,
    "numpy",
    guess="`cumsum` in float32 is as in torch, in double inside",
    here="`torch.cumsum`",
)
def cumsum() -> str:
    assert np.cumsum(np.ones(MOST + 64, np.float32))[-1] == MOST
    return "it stops at 2^24 ones; torch.cumsum does not"


@row(
    SECTION,
    "scipy",
    guess="a CSR matrix times a float32 vector is as good as `A.sum(1)`",
    here="`from_scipy` computes what SciPy does: give long rows in float64",
)
def csr() -> str:
    import scipy.sparse

    n = MOST + 64
    ones, places = np.ones(n, np.float32), np.arange(n, dtype=np.int32)
    A = scipy.sparse.csr_array((ones, places, np.array([0, n], np.int32)), shape=(1, n))
    assert (A @ ones)[0] == MOST and A.sum(1)[0] == n
    return "a row of 2^24 + 64 ones gives 2^24; the sum over the row is right"


@row(
    SECTION,
    "scipy",
    guess="`svds` returns singular values in descending order, as `svd` does",
    here="`svd(A, k)`: descending",
)
def svds() -> str:
    from scipy.sparse.linalg import svds as library

    values = library(np.diag([1.0, 2, 3, 4, 5]), 3)[1]
    assert np.allclose(values, [3, 4, 5])
    return "ascending"


@row(
    SECTION,
    "torch",
    guess="the phase of -0.0 is pi, as in NumPy and for complex numbers",
    here="`torch.angle(x.to(torch.complex64))`",
)
def phase_of_zero() -> str:
    zero = torch.tensor(-0.0)
    assert zero.angle() == 0 and np.angle(-0.0) == np.pi
    assert torch.complex(zero, torch.tensor(0.0)).angle() > 3
    return "`torch.angle(-0.0)` is 0 if it is real, and pi if it is complex"


@row(
    SECTION,
    "torch",
    guess="`linspace(-1, 1, 7)` has 0 in the middle",
    here="`(torch.arange(n) - n // 2) / (n // 2)`",
)
def linspace() -> str:
    x = torch.linspace(-1, 1, 7)
    assert x[3] != 0 and np.linspace(-1, 1, 7, dtype=np.float32)[3] == 0
    assert all(torch.linspace(-1, 1, n)[n // 2] == 0 for n in (3, 5, 9))
    return f"it has {x[3]:.2g}; 0 for 3, 5 and 9 points; NumPy has 0"


@row(
    SECTION,
    "torch",
    guess="if conjugate gradients have found x, the gradient through their steps is right",
    here="`conjugate_gradients(implicit=True)`: the gradient of the solution",
)
def gradient_through_steps() -> str:
    A = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], dtype=torch.float64).requires_grad_()
    y = torch.tensor([1.0, 2, 3], dtype=torch.float64)

    def solve(n_steps: int) -> Tensor:
        x, r = torch.zeros_like(y), y.clone()
        p, squares = r, r @ r
        for _ in range(n_steps):
            q = A @ p
            step = squares / (p @ q)
            x, r = x + step * p, r - step * q
            squares, before = r @ r, squares
            p = r + squares / before * p
        return x

    (right,) = torch.autograd.grad(torch.linalg.solve(A, y).sum(), A)
    errors = []
    for n_steps in (3, 10, 60):
        x = solve(n_steps)
        (found,) = torch.autograd.grad(x.sum(), A)
        errors.append(float((found - right).abs().max()))
        assert n_steps > 10 or torch.allclose(x, torch.linalg.solve(A, y), atol=1e-14)
    assert errors[0] > 0.1 and errors[1] < 1e-12 and np.isnan(errors[2]), errors
    return (
        f"3 unknowns: after 3 steps x is exact and the gradient wrong by {errors[0]:.2g}; after 10 "
        "it is right, after 60 nan"
    )


@row(
    SECTION,
    "torch",
    guess="Adam divides a complex gradient by the root of the mean of abs(g)^2",
    here="not used here",
)
def adam() -> str:
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.complex64))
    p.grad = torch.tensor([3 + 0.001j])
    torch.optim.Adam([p], lr=0.1).step()
    assert abs(p.item() - (-0.1 - 0.1j)) < 1e-4
    return "by that of each part: the first step for 3+0.001j is -0.1-0.1j, another direction"


@row(
    SECTION,
    "torch",
    guess="FSDP2 with `MixedPrecisionPolicy(param_dtype=torch.bfloat16)` refuses complex weights",
    here="`linops_distributed` casts nothing",
)
def mixed_precision() -> str:
    assert all(each["mixed"] == "torch.complex64" for each in of_ranks())
    return "it leaves them as they are, without a word"


@row(
    SECTION,
    "torch",
    guess="a custom operator gets a lazily conjugated tensor as it is, and `.numpy()` raises",
    here="`A.to_scipy()` and others resolve, too",
)
def custom_operator() -> str:
    seen: list[bool] = []

    @torch.library.custom_op("conventions::numbers", mutates_args=())
    def numbers(x: Tensor) -> Tensor:
        seen.append(x.is_conj())
        return torch.from_numpy(x.numpy().copy())

    assert numbers(torch.tensor([1 + 2j]).conj()).item() == 1 - 2j and seen == [False]
    return "it gets a resolved copy"


@row(
    SECTION,
    "torch",
    guess="`cosine_similarity(x, x)` is 1",
    here="scale by the larger norm first",
)
def cosine_similarity() -> str:
    x = torch.full((3,), 1e-10)
    found = float(torch.nn.functional.cosine_similarity(x, x, dim=0))
    assert found < 1e-3
    return f"of numbers of 1e-10 it is {found:.1g}: eps is absolute, 1e-8 for each norm"


@row(SECTION, "torch", guess="`quantile` takes any tensor", here="`kthvalue`, or `numpy.quantile`")
def quantile() -> str:
    try:
        torch.quantile(torch.zeros(MOST + 1), 0.5)
    except RuntimeError as error:
        return f"more than 2^24 numbers raise: {str(error).split('.')[0]}"
    raise AssertionError("quantile took more than 2^24 numbers")


@row(
    SECTION,
    "numpy",
    guess="`array * tensor` is what `tensor * array` is",
    here="`torch.as_tensor(array) * tensor`; `A.to_scipy()` takes arrays",
)
def array_times_tensor() -> str:
    array, tensor = np.ones(2), torch.ones(2)
    assert isinstance(tensor * array, Tensor) and isinstance(array / tensor, Tensor)
    raised = []
    for name, apply in (("*", np.ndarray.__mul__), ("-", np.ndarray.__sub__)):
        assert apply(array, tensor) is NotImplemented
        try:
            array * tensor if name == "*" else array - tensor
        except TypeError:
            raised.append(name)
    assert raised == ["*", "-"], raised
    return (
        "`tensor * array` and `array / tensor` are tensors in float64; `array * tensor` and "
        "`array - tensor` raise TypeError; `np.multiply(array, tensor)` is a tensor"
    )


@row(
    SECTION,
    "dask",
    guess="`dask.array.from_array` takes a tensor, as it takes what looks like an array",
    here="`from_array(x.resolve_conj().numpy())`",
)
def dask_array() -> str:
    import dask.array

    try:
        dask.array.from_array(torch.ones(4), chunks=2)
    except TypeError as error:
        return f"it raises TypeError: {error}"
    raise AssertionError("from_array took a tensor")
