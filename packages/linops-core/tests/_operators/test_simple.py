import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_core import NamedLinop, Role, SimpleLinop
from linops_core.testing import AdjointError, BaseNamedLinopTests


def backwards_sum(y: Tensor) -> Tensor:
    return y.flip(-1).cumsum(-1).flip(-1)


def forwards_sum(x: Tensor) -> Tensor:
    return x.cumsum(-1)


def both_sums(x: Tensor) -> Tensor:
    return backwards_sum(forwards_sum(x))


class TestSimpleLinop(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return SimpleLinop(forwards_sum, backwards_sum, None, ("...", "N"), ("...", "M"))

    def sizes(self) -> dict[str, int]:
        return {"N": 3, "M": 3}


class TestSimpleLinopWithNormalAndCheck(BaseNamedLinopTests):
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


def test_without_an_adjoint_there_is_none() -> None:
    A = SimpleLinop(forwards_sum, None, name="Sum")
    assert A(torch.ones(2)).tolist() == [1, 2]
    asked: list[Callable[[], NamedLinop]] = [
        lambda: A.H,
        lambda: A.N,
        lambda: (A @ A).H,
        lambda: A + A.H,
    ]
    for ask in asked:
        with pytest.raises(
            NotImplementedError, match=r"^Sum \(\.\.\.\) -> .*: there is no adjoint"
        ):
            ask()
    B = SimpleLinop(forwards_sum, None, both_sums)
    assert torch.equal(B.N(torch.ones(2)), both_sums(torch.ones(2)))


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


def test_there_is_no_check_without_an_adjoint() -> None:
    with pytest.raises(ValueError, match=r"SimpleLinop: there must be an adjoint to be checked"):
        SimpleLinop(forwards_sum, None, check=True)
