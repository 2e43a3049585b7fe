"""What is refused says which argument is wrong, and what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from linops_core import (
    DCT,
    FFT,
    Convolution,
    Dense,
    Diagonal,
    Interpolate,
    NamedLinop,
    RealFFT,
    SimpleLinop,
    VStack,
)
from linops_core.testing import dottest

D = Diagonal(torch.tensor([2.0, -3.0]), ("N",))
X = torch.ones(2)
WIDE = Diagonal(torch.ones(2, dtype=torch.float64), ("N",))
MAPS = Dense(torch.ones(2, 3), ("C", "N"), ("N",), ("C", "N"))
SINGLE = SimpleLinop(lambda x: x * 0.1, lambda y: y * (0.1 + 3e-8), None, ("N",))
TWO = {"N": 2}
NAN = torch.full((3, 3), torch.nan)


def matrix(m: int, n: int, o: str = "M", i: str = "N") -> NamedLinop:
    return Dense(torch.ones(m, n), (o, i))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: Convolution(torch.ones(3), dims=2),  # type: ignore[arg-type]
            TypeError,
            r"Convolution: dims must be the names of the dimensions .* got 2",
        ),
        (
            lambda: Convolution(torch.ones(5), dims=("N",), mode="valid")(torch.ones(3)),
            ValueError,
            r"the grid must be at least as large as the kernel \(5,\) in mode 'valid', got \(3,\)",
        ),
        (
            lambda: FFT(dims=("N",), to=("C",)) @ MAPS,
            ValueError,
            r"FFT would name .* \(C\), but Dense has .* already: give another name with to=",
        ),
        (lambda: matrix(2, 3) + matrix(2, 3, i="K"), ValueError, r"^Add: all .*; if .*renamed"),
        (
            lambda: VStack(matrix(2, 3), matrix(2, 3, i="K")),
            ValueError,
            r"^VStack: all operands must have the same input, got [^:]*; if .* rename them",
        ),
        (
            lambda: Diagonal(X.to_sparse(), ("N",)),
            TypeError,
            r"Diagonal: weight must be dense, got the layout .*; make it so by .to_dense\(\)",
        ),
        (
            lambda: Interpolate(torch.zeros(3, 1).to_sparse(), (4,)),
            TypeError,
            r"Interpolate: the locations must be dense",
        ),
        (lambda: VStack([D, D]), TypeError, r"got <class 'list'>; unpack it, VStack\(\*linops\)"),  # type: ignore[arg-type]
        (lambda: dottest(D, like=X.long()), TypeError, r"dottest: like must be of a floating"),
        (lambda: dottest(SINGLE, {"N": 5}), ValueError, r"relative difference of .*; give dtypes="),
        (
            lambda: SimpleLinop(lambda x: torch.from_numpy(x.numpy().cumsum())).H(X),
            ValueError,
            r"SimpleLinop .*: .*, forward must use only functions of torch .*; or give adjoint=",
        ),
        (
            lambda: SimpleLinop(torch.fft.rfft, None, None, ("N",), ("K",), sizes=TWO).H(1j * X),
            ValueError,
            r"SimpleLinop .* accept complex vectors unless is_complex_linear=False, got",
        ),
        (lambda: FFT(1).to_dense(), ValueError, r"the size of Nx must be known .*; or pass a tens"),
        (lambda: DCT(("N",))(X.bfloat16()), TypeError, r"DCT .*: the dtype must .*bfloat16 .*; co"),
        (lambda: RealFFT(("N",), 2)(X.bfloat16()), TypeError, r"RealFFT .*: the dtype .*bfloat16"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_root_of_a_square_is_that_of_the_squares() -> None:
    assert torch.equal(((D**2) ** 0.5)(X), torch.tensor([2.0, 3.0]))
    assert torch.equal((D**2)(X), (D @ D)(X))
