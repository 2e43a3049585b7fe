"""torch.compile and torch.export make one graph for batches of every size."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from linops_core import Convolution, Interpolate, NamedLinop, RealFFT
from linops_core.testing._laws._factories import known_deprecations

KERNEL = torch.randn(3, 3)
LOCS = torch.rand(20, 2) * 8
OPERATORS: dict[str, NamedLinop] = {
    "reflected": Convolution(KERNEL, padding_mode="reflect").H,
    "for each coil": Convolution(torch.randn(8, 3), ("...", "C"), kernel_batch_shape=("C",)),
    "interpolation": Interpolate(LOCS, [8, 8]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_size_of_a_batch_compiles_nothing_anew(name: str) -> None:
    A, counter = OPERATORS[name], CompileCounter()
    torch._dynamo.reset()
    graph = torch.compile(lambda x: A(x), backend=counter, fullgraph=True)
    with known_deprecations():
        for n_batches in (3, 4, 7):
            x = torch.randn(n_batches, 8, 8)
            torch._dynamo.mark_dynamic(x, 0)
            y = A(x)
            rounding = 1e-5 * float(y.abs().max())
            torch.testing.assert_close(graph(x), y, rtol=1e-4, atol=rounding)
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    "A",
    [
        Convolution(torch.rand(2)),
        Interpolate(torch.rand(4, 1), [3]),
        Interpolate(torch.rand(3, 1), [3]).H,
        RealFFT(("N",), 3).N,
    ],
    ids=str,
)
def test_a_free_batch_stays_free_in_an_exported_program(A: NamedLinop) -> None:
    program = torch.export.export(
        A, (torch.rand(5, 3),), dynamic_shapes={"x": {0: torch.export.Dim("b")}}, strict=False
    )
    x = torch.rand(7, 3)
    torch.testing.assert_close(program.module()(x), A(x))
