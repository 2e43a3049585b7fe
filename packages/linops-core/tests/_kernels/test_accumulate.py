import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core._kernels._accumulate import accumulate, concatenate

KINDS = st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.complex128])


def results(dtypes: list[torch.dtype], with_gradient: bool) -> list[Tensor]:
    return [
        torch.full((2, 3), k + 1.0, dtype=dtype, requires_grad=with_gradient)
        for k, dtype in enumerate(dtypes)
    ]


@given(st.lists(KINDS, min_size=1, max_size=4), st.booleans())
def test_the_sum_is_that_of_torch_in_every_mixture_of_dtypes(
    dtypes: list[torch.dtype], with_gradient: bool
) -> None:
    terms = results(dtypes, with_gradient)
    kept = [term.detach().clone() for term in terms]
    total = accumulate(iter(terms))
    assert torch.equal(total, sum(kept[1:], start=kept[0]))
    assert total.requires_grad == with_gradient
    assert all(torch.equal(term, old) for term, old in zip(terms, kept, strict=True))


@given(st.lists(KINDS, min_size=1, max_size=4), st.booleans(), st.integers(-2, 1))
def test_the_concatenation_is_that_of_torch_in_every_mixture_of_dtypes(
    dtypes: list[torch.dtype], with_gradient: bool, axis: int
) -> None:
    parts = results(dtypes, with_gradient)
    whole = concatenate(iter(parts), axis, parts[0].shape[axis] * len(parts))
    assert torch.equal(whole, torch.cat(parts, dim=axis))
    assert whole.dtype == torch.cat(parts, dim=axis).dtype
    assert whole.requires_grad == with_gradient


def test_a_gradient_that_starts_midway_reaches_its_part() -> None:
    first, second = torch.ones(2), torch.ones(2, requires_grad=True)
    torch.autograd.backward(concatenate(iter([first, second, first]), 0, 6).sum())
    assert second.grad is not None and second.grad.tolist() == [1, 1]
    torch.autograd.backward(accumulate(iter([first, first, second])).sum())
    assert second.grad.tolist() == [2, 2]


@pytest.mark.parametrize("with_gradient", [False, True])
def test_a_sum_is_written_into_the_first_partial_sum_and_into_no_term(with_gradient: bool) -> None:
    seen: list[int] = []

    class Additions(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                seen.append(result.data_ptr())
            return result

    terms = [torch.ones(2, requires_grad=with_gradient) for _ in range(4)]
    with Additions():  # type: ignore[no-untyped-call]
        total = accumulate(iter(terms))
    assert seen == [total.data_ptr()] * 3
    assert all(total.data_ptr() != term.data_ptr() for term in terms)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's forward mode, of itself
def test_gradients_of_a_sum_are_right_in_both_orders_and_forwards() -> None:
    def total(*terms: Tensor) -> Tensor:
        return accumulate(term * term for term in terms)

    terms = [torch.randn(3, dtype=torch.complex128, requires_grad=k != 1) for k in range(4)]
    assert torch.autograd.gradcheck(total, terms, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(total, terms)


def test_terms_of_different_shapes_are_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"Add: all terms must return one shape, got \(2,\)"):
        accumulate(iter([torch.ones(2), torch.ones(1)]))


def test_parts_that_differ_elsewhere_are_refused() -> None:
    parts = [torch.ones(2, 3), torch.ones(2, 1)]
    with pytest.raises(ValueError, match=r"one shape except for axis 0, got \(2, 3\) and \(2, 1\)"):
        concatenate(iter(parts), 0, 4)


def test_batches_of_results_are_added_and_joined() -> None:
    def both(w: Tensor) -> tuple[Tensor, Tensor]:
        parts = [torch.ones(2), torch.ones(2), w * torch.ones(2)]
        return accumulate(iter(parts)), concatenate(iter(parts), 0, 6)

    total, whole = torch.func.vmap(both)(torch.tensor([1.0, 2.0]))
    assert total.tolist() == [[3, 3], [4, 4]]
    assert whole.tolist() == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 2, 2]]
