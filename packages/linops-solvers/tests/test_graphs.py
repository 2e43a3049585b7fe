"""Networks with operators and solvers in them: one graph, exported, or outside of graphs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounter

from linops_core import (
    DCT,
    FFT,
    AsComplex,
    Dense,
    Diagonal,
    Identity,
    ImagPart,
    NamedLinop,
    RealFFT,
    RealPart,
)
from linops_core.testing._laws._factories import known_deprecations
from linops_solvers import conjugate_gradients, power_method

FIXED: dict[str, Any] = {"max_num_iters": 2, "gtol": 0.0, "ltol": 0.0}


@pytest.fixture(autouse=True)
def nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    with known_deprecations():
        yield


class Network(nn.Module):
    """Weights that the networks below share."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(5, 4, dtype=torch.complex128, generator=generator)
        names = ("M", "N"), ("...", "N"), ("...", "M")
        self.A = Dense(nn.Parameter(weight), *names)
        self.lam = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
        self.scale = nn.Parameter(torch.rand(5, dtype=torch.float64, generator=generator) + 1)

    def regularized(self) -> NamedLinop:
        """Return an operator of all weights, which is built here."""
        weighted = self.A.H @ Diagonal(self.scale.square(), ("...", "M")) @ self.A
        return weighted + self.A.N + self.lam * Identity()


class Applies(Network):
    """Builds an operator and applies it."""

    def forward(self, x: Tensor) -> Tensor:
        return self.regularized()(x)


class Solves(Network):
    """Builds an operator and solves with it in some steps."""

    def forward(self, x: Tensor) -> Tensor:
        return conjugate_gradients(self.regularized(), x, batch_dims=1, **FIXED)


class FindsNorms(Network):
    """Builds an operator and takes some steps of the power method."""

    def forward(self, x: Tensor) -> Tensor:
        v, norms = power_method(self.regularized(), x, max_iters=2, tol=0.0, batch_dims=1)
        return v * norms.unsqueeze(1)


class BuiltBefore(Network):
    """Solves with an operator that was built in ``__init__``, and derives some on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.B = self.A.N + self.lam * Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.A.H(self.A(x)) + self.A.N(x)
        return conjugate_gradients(self.B, x, batch_dims=1, **FIXED)


class Marked(Network):
    """Builds and solves in a function that the compiler hands on as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return solved_by(self, x)


@torch._dynamo.nonstrict_trace
def solved_by(network: Network, x: Tensor) -> Tensor:
    return conjugate_gradients(network.regularized(), x, batch_dims=1, **FIXED)


def check(network: Network, other: Callable[[Tensor], Tensor]) -> None:
    """Check that another form of a network has its results and gradients, for several batches."""
    for n_batches in (3, 5):
        x = torch.randn(n_batches, 4, dtype=torch.complex128)
        results = []
        for run in (other, network):
            loss = torch.view_as_real(run(x)).square().sum()
            wanted = list(network.parameters())
            gradients = torch.autograd.grad(loss, wanted, materialize_grads=True)
            results.append([run(x), *gradients])
        torch.testing.assert_close(results[0], results[1])
        with torch.no_grad():  # weights are no constants of the graph
            for parameter in network.parameters():
                parameter.mul_(1.1)


@pytest.mark.parametrize(("kind", "backend"), [(BuiltBefore, "eager"), (Marked, "aot_eager")])
def test_a_network_is_one_graph(kind: type[Network], backend: str) -> None:
    network = kind()
    check(network, torch.compile(network, backend=backend, fullgraph=True))


# Of torch, wherever a graph ends with a tensor that has a gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_network_that_builds_operators_in_forward_is_compiled_around_that() -> None:
    network, counter = Applies(), CompileCounter()
    check(network, torch.compile(network, backend=counter))
    assert 0 < counter.frame_count <= 3  # for one size of a batch, and for all


@pytest.mark.parametrize("kind", [Solves, FindsNorms])
def test_a_network_is_exported_for_batches_of_any_size(kind: type[Network]) -> None:
    network = kind()
    x = torch.randn(3, 4, dtype=torch.complex128)
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(network, (x,), dynamic_shapes=shapes)
    module = program.module()
    for n_batches in (2, 5):
        x = torch.randn(n_batches, 4, dtype=torch.complex128)
        torch.testing.assert_close(module(x), network(x))
    # What the export built of the weights that stood for them is not used again.
    check(network, network)


def test_the_adjoint_of_coil_maps_is_exported_for_batches_of_any_size() -> None:
    names = ("...", "Nx", "Ny"), ("...", "C", "Nx", "Ny")
    network = torch.nn.Module()
    S = Dense(torch.randn(6, 16, 16), ("C", "Nx", "Ny"), *names)
    network.forward = S.H.forward
    x = torch.randn(3, 6, 16, 16)
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(network, (x,), dynamic_shapes=shapes)
    for n_batches in (2, 20):  # on both sides of the size from which products are added up
        x = torch.randn(n_batches, 6, 16, 16)
        torch.testing.assert_close(program.module()(x), S.H(x))


class Converges(BuiltBefore):
    """Solves to a tolerance."""

    def forward(self, x: Tensor) -> Tensor:
        return conjugate_gradients(self.B, x, batch_dims=1)


def test_a_solver_that_stops_by_values_runs_outside_of_graphs() -> None:
    network, counter = Converges(), CompileCounter()
    check(network, torch.compile(network, backend=counter))
    assert counter.frame_count == 0
    x = torch.randn(3, 4, dtype=torch.complex128)
    rule = (
        "conjugate_gradients: in a compiled graph the number of steps is fixed: .* got gtol, ltol"
    )
    with pytest.raises(Unsupported, match=rule):
        torch.compile(network, backend="eager", fullgraph=True)(x)
    with pytest.raises(RuntimeError, match=rule):
        torch.export.export(network, (x,))


def test_one_graph_with_an_operator_built_in_it_is_refused_with_what_to_do() -> None:
    A = Network().A
    x = torch.randn(3, 4, dtype=torch.complex128)
    with pytest.raises(Unsupported, match=r"build them in __init__ .*nonstrict_trace"):
        torch.compile(lambda x: (2 * A)(x), backend="eager", fullgraph=True)(x)


REAL_LINEAR: dict[str, NamedLinop] = {
    "RealPart": RealPart(),
    "ImagPart": ImagPart(),
    "AsComplex": AsComplex(),
    "RealFFT": RealFFT(("N",), 4),
    "DCT": DCT(("N",)),
    "chain": RealPart() @ FFT(1).H @ FFT(1) @ AsComplex(),
}


@pytest.mark.parametrize("name", REAL_LINEAR)
def test_operators_of_real_and_imaginary_parts_go_into_one_graph(name: str) -> None:
    A = REAL_LINEAR[name]
    generator = torch.Generator().manual_seed(2)
    is_complex = name in ("RealPart", "ImagPart", "DCT")
    dtype = torch.complex128 if is_complex else torch.float64
    x = torch.randn(3, 4, dtype=dtype, generator=generator, requires_grad=True)
    y = torch.randn_like(A(x.detach()))
    counter = CompileCounter()
    compiled = torch.compile(lambda x, y: (A(x), A.H(y)), backend=counter, fullgraph=True)
    image, back = compiled(x, y)
    torch.testing.assert_close((image, back), (A(x), A.H(y)))
    # The gradient of Re<y, A x> is A^H y: of a real x its real part.
    (gradient,) = torch.autograd.grad((y.conj() * image).real.sum(), x)
    expected = A.H(y) if is_complex else A.H(y).real
    torch.testing.assert_close(gradient, expected.to(dtype))
    assert counter.frame_count == 1
