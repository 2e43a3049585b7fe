import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from linops_core import Diagonal, NamedLinop, RealForm, Role, SimpleLinop, SplitError
from linops_core.testing import AdjointError, BaseNamedLinopTests
from nameddim import ND


def backwards_sum(y: Tensor) -> Tensor:
    return y.flip(-1).cumsum(-1).flip(-1)


def forwards_sum(x: Tensor) -> Tensor:
    return x.cumsum(-1)


def both_sums(x: Tensor) -> Tensor:
    return backwards_sum(forwards_sum(x))


class OfFunctions(BaseNamedLinopTests):
    def also_saved(self) -> list[Callable[..., object]]:
        return [forwards_sum, backwards_sum, both_sums, Product, nn.ParameterList]


class TestSimpleLinop(OfFunctions):
    def make_linop(self) -> NamedLinop:
        return SimpleLinop(forwards_sum, backwards_sum, None, ("...", "N"), ("...", "M"))

    def sizes(self) -> dict[str, int]:
        return {"N": 3, "M": 3}


@pytest.mark.variant
class TestSimpleLinopWithNormalAndCheck(OfFunctions):
    def make_linop(self) -> NamedLinop:
        return SimpleLinop(forwards_sum, backwards_sum, both_sums, ("N",), check=True)

    def sizes(self) -> dict[str, int]:
        return {"N": 3}


def scaled(factor: complex, x: Tensor) -> Tensor:
    return factor * x


def times(factor: complex) -> Callable[[Tensor], Tensor]:
    return partial(scaled, factor)


def test_sums_up_to_each_element() -> None:
    A = SimpleLinop(forwards_sum, backwards_sum)
    assert A.to_dense({"...": 3}).real.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert A(torch.ones(2, 2)).tolist() == [[1, 2], [1, 2]]
    assert A.name == "SimpleLinop" and SimpleLinop(forwards_sum, None, name="Sum").name == "Sum"


def test_a_normal_that_was_given_is_the_one_that_is_used() -> None:
    calls: list[str] = []

    def normal(x: Tensor) -> Tensor:
        calls.append("normal")
        return both_sums(x)

    A = SimpleLinop(forwards_sum, backwards_sum, normal)
    x = torch.arange(3.0)
    assert torch.equal(A.N(x), both_sums(x)) and calls == ["normal"]
    assert torch.equal(A.H.H.N(x), both_sums(x)) and calls == ["normal"] * 2
    assert torch.equal(A.H.N(x), forwards_sum(backwards_sum(x))) and calls == ["normal"] * 2


def test_an_operator_without_adj_fn_raises_when_its_adjoint_is_asked_for() -> None:
    class Forward(NamedLinop):
        @staticmethod
        def fn(linop: Any, x: Tensor, /) -> Tensor:
            return 2 * x

    A = Forward(SimpleLinop(forwards_sum, None).shape)
    assert A(torch.ones(1)).tolist() == [2]
    for name in ("H", "T", "N"):
        with pytest.raises(NotImplementedError, match=r"Forward: there is no adjoint"):
            getattr(A, name)


def test_nothing_is_known_of_its_dimensions() -> None:
    A = SimpleLinop(forwards_sum, backwards_sum, ishape=("N",))
    assert A.role("N") is Role.OPAQUE and A.size("N") is None


def test_modules_are_parts_of_the_operator() -> None:
    layer = nn.Linear(3, 2, bias=False, dtype=torch.float64)

    def transposed(y: Tensor) -> Tensor:
        return y @ layer.weight

    A = SimpleLinop(layer, transposed, None, ("...", "N"), ("...", "M"), check=True)
    assert [*A.parameters()] == [layer.weight]
    torch.autograd.backward(A(torch.ones(3, dtype=torch.float64)).sum())
    assert layer.weight.grad is not None
    assert A.H.state_dict().keys() == {"forward_function.weight"}
    other = copy.deepcopy(A)
    assert isinstance(other.forward_function, nn.Linear)
    assert other.forward_function.weight is not layer.weight


uses: list[Callable[[NamedLinop, Tensor], Tensor]] = [
    lambda A, x: A(x),
    lambda A, x: A.H(x),
    lambda A, x: A.N(x),
    lambda A, x: A.H.N(x),
]


@pytest.mark.parametrize("use", uses)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64])
def test_a_pair_that_is_none_is_refused_at_every_use(
    use: Callable[[NamedLinop, Tensor], Tensor], dtype: torch.dtype
) -> None:
    A = SimpleLinop(times(2), times(0.5), name="Twice", check=True)
    for _ in range(2):
        with pytest.raises(AdjointError, match=r"^Twice .* got 0.25 times the adjoint"):
            use(A, torch.ones(2, 3, dtype=dtype))
    assert SimpleLinop(times(2), times(0.5))(torch.ones(1)).item() == 2


@pytest.mark.parametrize(
    ("adjoint", "message"),
    [
        (lambda y: y.float().double(), r"up to a relative difference of .*, as in a lower prec"),
        (lambda y: y[:2], r"return the shape of the input \(3,\), got \(2,\)"),
    ],
)
def test_a_refusal_of_a_pair_shows_its_names(
    adjoint: Callable[[Tensor], Tensor], message: str
) -> None:
    A = SimpleLinop(times(1), adjoint, None, ("X",), ("Y",), name="Copy", check=True)
    with pytest.raises(AdjointError, match=rf"^Copy \(X\) -> \(Y\): the adjoint must .*{message}"):
        A(torch.rand(3, dtype=torch.float64))


@pytest.mark.parametrize("use", uses)
def test_an_adjoint_that_forgets_to_conjugate_is_refused(
    use: Callable[[NamedLinop, Tensor], Tensor],
) -> None:
    A = SimpleLinop(times(1 + 1j), times(1 + 1j), check=True)
    with pytest.raises(AdjointError, match=r"times the adjoint"):
        use(A, torch.ones(2))


@pytest.mark.parametrize("use", uses[:3])
def test_a_normal_that_is_another_operator_is_refused(
    use: Callable[[NamedLinop, Tensor], Tensor],
) -> None:
    A = SimpleLinop(times(2), times(2), times(3), check=True)
    with pytest.raises(
        ValueError, match=r"normal must be the adjoint after the forward, got anoth"
    ):
        use(A, torch.ones(2))
    short = SimpleLinop(times(2), times(2), lambda x: 4 * x[:1], check=True)
    with pytest.raises(ValueError, match=r"normal must be the adjoint after the forward"):
        use(short, torch.ones(2))


def test_what_was_checked_is_not_checked_again() -> None:
    calls: list[int] = []

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return x

    A = SimpleLinop(counted, counted, check=True)
    A.H(torch.ones(2))
    assert len(calls) > 1
    calls.clear()
    A(torch.ones(3)), A.N(torch.ones(2)), A.H.H(torch.ones(2)), copy.copy(A)(torch.ones(2))
    assert len(calls) == 5


def test_a_check_leaves_the_random_numbers_of_others_alone() -> None:
    A = SimpleLinop(forwards_sum, backwards_sum, both_sums, check=True)
    torch.manual_seed(0)
    first = torch.rand(1)
    torch.manual_seed(0)
    A(torch.ones(2))
    assert torch.equal(torch.rand(1), first)


def test_a_check_waits_for_values() -> None:
    wrong = SimpleLinop(times(2), times(0.5), check=True)
    assert wrong(torch.ones(2, device="meta")).shape == (2,)
    with FakeTensorMode():
        assert wrong(torch.ones(2)).shape == (2,)
    assert torch.vmap(wrong)(torch.ones(2, 2)).tolist() == [[2, 2], [2, 2]]
    compiled = torch.compile(wrong, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(AdjointError):
        wrong(torch.ones(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, None), r"SimpleLinop: forward must be callable, got 3"),
        ((None, None), r"SimpleLinop: forward must be callable, got None"),
        ((forwards_sum, 3), r"SimpleLinop: adjoint must be callable, got 3"),
        ((forwards_sum, None, 3), r"SimpleLinop: normal must be callable, got 3"),
    ],
)
def test_what_cannot_be_called_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        SimpleLinop(*arguments)


class Product(nn.Module):
    """The product with a matrix, and that of conj(x) with another one if there are two."""

    def __init__(self, *matrices: Tensor) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(nn.Parameter(matrix) for matrix in matrices)

    def forward(self, x: Tensor) -> Tensor:
        vectors = zip(self.matrices, (x, x.conj()), strict=False)
        total = None
        for matrix, v in vectors:
            dtype = torch.promote_types(matrix.dtype, x.dtype)
            y = (matrix.to(dtype) @ v.to(dtype)[..., None]).squeeze(-1)
            total = y if total is None else total + y
        assert isinstance(total, Tensor)
        return total


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


OF_3_TO_2: dict[str, Any] = {
    "ishape": ("...", "N"),
    "oshape": ("...", "M"),
    "sizes": {"N": 3},
    "batch_dims": ("...",),
}


class TestAdjointOfAutograd(OfFunctions):
    def make_linop(self) -> NamedLinop:
        return SimpleLinop(Product(values(2, 3)), **OF_3_TO_2)

    def sizes(self) -> dict[str, int]:
        return {"N": 3, "M": 2}


@pytest.mark.variant
class TestRealLinearAdjointOfAutograd(OfFunctions):
    def make_linop(self) -> NamedLinop:
        product = Product(values(2, 3), values(2, 3, seed=1))
        return SimpleLinop(product, **OF_3_TO_2, is_complex_linear=False)

    def sizes(self) -> dict[str, int]:
        return {"N": 3, "M": 2}


@pytest.mark.parametrize("matrix", [values(2, 3), values(2, 3).real.clone()])
@pytest.mark.parametrize("y", [values(2), values(2).real.clone()])
def test_the_adjoint_of_autograd_is_that_of_the_matrix(matrix: Tensor, y: Tensor) -> None:
    A = SimpleLinop(Product(matrix), **OF_3_TO_2)
    result = A.H(y)
    assert result.is_complex() == (matrix.is_complex() or y.is_complex())
    expected = matrix.mH.to(torch.complex128) @ y.to(torch.complex128)
    torch.testing.assert_close(result.to(torch.complex128), expected)


def test_the_adjoint_of_autograd_of_a_real_transform_is_that_of_real_products() -> None:
    A = SimpleLinop(torch.fft.rfft, ishape="N", oshape="K", sizes={"N": 5}, is_complex_linear=False)
    matrix = torch.fft.fft(torch.eye(5, dtype=torch.float64))[:3]
    y = values(3)
    torch.testing.assert_close(A.H(y), (matrix.mH @ y).real)
    assert not A.is_complex_linear and not A.H.is_complex_linear and not A.N.is_complex_linear


def test_functions_between_real_and_complex_vectors_have_their_real_form() -> None:
    A = SimpleLinop(torch.real, ishape="N", is_complex_linear=False)
    assert RealForm(A).to_dense({"N": 1}).tolist() == [[1, 0], [0, 0]]
    assert A.H(torch.ones(2)).tolist() == [1, 1] and A.H(torch.ones(2)).is_complex()
    torch.testing.assert_close(RealForm(A.H).to_dense({"N": 2}), RealForm(A).to_dense({"N": 2}).mT)


@pytest.mark.parametrize("use", [uses[0], uses[1], uses[2]])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x + 1, r"^Own .* forward must be linear, got f\(0\) of norm .* leave out"),
        (lambda x: x**2 - x, r"^Own .* forward must be linear, got f\(2 x\) not 2 f\(x\)"),
        (lambda x: x.real, r"^Own .* must be linear over complex numbers, got f\(i x\) not i f"),
        (torch.conj, r"^Own .* must be linear over complex numbers, .* is_complex_linear=False"),
        (torch.fft.rfft, r"^Own .* must take complex vectors .* give is_complex_linear=False"),
        (torch.detach, r"^Own .* got 0 times the adjoint; of autograd, so that forward is not"),
    ],
)
def test_what_is_not_linear_is_refused_and_said_why(
    use: Callable[[NamedLinop, Tensor], Tensor], function: Any, message: str
) -> None:
    A = SimpleLinop(function, name="Own")
    if function is torch.fft.rfft and use is not uses[0]:
        return  # the size of the output is another one
    with pytest.raises(ValueError, match=message):
        use(A, torch.rand(4, dtype=torch.float64))


def test_an_operator_that_needs_complex_vectors_tells_that_it_is_one_of_the_reals() -> None:
    assert SimpleLinop(torch.conj, is_complex_linear=False)(torch.tensor([1j])).tolist() == [-1j]


def test_the_adjoint_of_autograd_needs_the_size_of_what_only_the_input_has() -> None:
    A = SimpleLinop(lambda x: x.sum(-1), ishape=("B", "N"), oshape=("B",))
    with pytest.raises(ValueError, match=r"by autograd must know .*, got no size of N; rename"):
        A.H(torch.ones(2))
    A = SimpleLinop(lambda x: x.sum(-1), ishape=("B", "N"), oshape=("B",), sizes={"N": 3})
    assert A.H(torch.ones(2)).tolist() == [[1, 1, 1]] * 2
    assert A.size("N") == 3 and A.size("B") is None and A.N.to_dense({"B": 1}).shape == (3, 3)
    with pytest.raises(ValueError, match="N must have size 3, got 2"):
        A(torch.ones(2, 2))
    short = SimpleLinop(lambda x: x[:1], ishape=("N",))
    with pytest.raises(ValueError, match=r"got an output of shape \(1,\) for an input of shape"):
        short.H(torch.ones(2))


def test_batch_dimensions_can_be_sliced() -> None:
    A = SimpleLinop(forwards_sum, ishape=("B", "N"), batch_dims=("B",), sizes={"B": 3, "N": 2})
    assert A.role("B") is Role.BATCH and A.role("N") is Role.OPAQUE
    tile = A.split(A, {"B": slice(1, 3)})
    assert tile.size("B") == 2 and tile.H.size("B") == 2
    assert tile.H(torch.ones(2, 2)).tolist() == [[2, 1], [2, 1]]
    renamed = A.renamed({ND("B"): ND("C")})
    assert renamed.role("C") is Role.BATCH and renamed.size("C") == 3
    with pytest.raises(SplitError, match=r"N cannot be split: .* batch_dims= names dimensions"):
        A.split(A, {"N": slice(0, 1)})


@pytest.mark.parametrize("use", [uses[0], uses[1]])
def test_batch_dimensions_that_are_mixed_are_refused(
    use: Callable[[NamedLinop, Tensor], Tensor],
) -> None:
    A = SimpleLinop(lambda x: x.cumsum(0), ishape=("B", "N"), batch_dims=("B",))
    with pytest.raises(ValueError, match="must do the same to all slices of B, one of batch_dims"):
        use(A, torch.ones(2, 3))


def test_a_batch_dimension_of_one_side_and_a_size_that_is_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"batch_dims must be in the input and in the output, got"):
        SimpleLinop(forwards_sum, ishape=("N",), oshape=("M",), batch_dims=("N",))
    for sizes in ({"N": -1}, {"K": 3}):
        with pytest.raises(ValueError, match=r"sizes must be integers of at least 0, for dim"):
            SimpleLinop(forwards_sum, ishape=("N",), sizes=sizes)


def test_second_derivatives_go_through_the_adjoint_of_autograd() -> None:
    matrix = nn.Parameter(values(2, 3))
    A = SimpleLinop(lambda x: x @ matrix.mT, ishape="N", oshape="M", sizes={"N": 3})
    y = values(2).requires_grad_()
    (result,) = torch.autograd.grad(A.H(y).abs().square().sum(), y)
    torch.testing.assert_close(result, 2 * matrix @ (matrix.mH @ y))
    (of_matrix,) = torch.autograd.grad(A.H(y).real.sum(), matrix)
    assert of_matrix.abs().sum() > 0


def test_the_check_of_autograd_s_adjoint_is_made_once() -> None:
    calls: list[int] = []

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return 2 * x

    A = SimpleLinop(counted)
    A.H(torch.ones(2))
    calls.clear()
    A(torch.ones(2)), A.H(torch.ones(2)), (A @ Diagonal(torch.ones(2), ("N",)))(torch.ones(2))
    assert len(calls) == 3


@pytest.mark.parametrize("n", [0, 3])
def test_the_adjoint_of_autograd_works_within_a_checkpoint(n: int) -> None:
    w = torch.randn(n, 2, dtype=torch.complex128, requires_grad=True)
    y = torch.randn(5, 2, dtype=torch.complex128, requires_grad=True)
    A = SimpleLinop(
        lambda x: x @ w + 0 * x.sum(), sizes={"N": n}, ishape=("B", "N"), oshape=("B", "M")
    )

    def loss(result: Tensor) -> Tensor:
        return result.abs().pow(4).sum()

    for order in (1, 2):
        results = []
        for result in (A.H(y), checkpoint(A.H, y, use_reentrant=False)):
            value = loss(result)
            for _ in range(order):
                gradients = torch.autograd.grad(value, [y, w], create_graph=True)
                value = sum((loss(gradient) for gradient in gradients), torch.zeros(()))
            results.append([value, *gradients])
        torch.testing.assert_close(*results)
    with torch.autograd.graph.save_on_cpu(), torch.no_grad():
        assert not A.H(y).requires_grad


def test_the_adjoint_of_autograd_of_nothing_works_within_a_checkpoint() -> None:
    A = SimpleLinop(torch.zeros_like)
    y = torch.ones(2, requires_grad=True)
    assert checkpoint(A.H, y, use_reentrant=False).tolist() == [0, 0]
