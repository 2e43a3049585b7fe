import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from memmap._modules._refcounts import known_uses, n_uses_inside, outside_references

Op = Callable[[torch.Tensor], torch.Tensor]

PLAIN_OPS: list[Op] = [
    lambda x: x[:0] if x.dim() else x[None],
    lambda x: x[..., :1],
    lambda x: x[None],
    lambda x: x.flatten(),
    lambda x: x.T if x.dim() == 2 else x.unsqueeze(-1),
    lambda x: x.expand(2, *x.shape),
    lambda x: x.as_strided((1,), (1,), 1),
    lambda x: x.data,
    lambda x: x.detach(),
]
LAZY_OPS: list[Op] = [
    lambda x: x.conj(),
    lambda x: x.imag if x.is_complex() else x[..., :1],
    lambda x: x.real,
    lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x[None],
    lambda x: torch._neg_view(x),
]


def n_outside(*known: torch.Tensor) -> int:
    return sum(outside_references(known).values())


def grown(data: st.DataObject, ops: list[Op]) -> list[torch.Tensor]:
    """A tensor, and views of it and of one another."""
    tensors = [torch.zeros(2, 3, dtype=torch.complex64)]
    for _ in range(data.draw(st.integers(1, 5))):
        source = tensors[data.draw(st.integers(0, len(tensors) - 1))]
        made = ops[data.draw(st.integers(0, len(ops) - 1))](source)
        shares = made.untyped_storage()._cdata == source.untyped_storage()._cdata
        if shares and made is not source:
            tensors.append(made)
    return tensors


@given(st.data())
def test_whether_anybody_else_holds_a_storage_is_known_exactly(data: st.DataObject) -> None:
    tensors = grown(data, PLAIN_OPS)
    fates = [data.draw(st.sampled_from(["known", "held", "dropped"])) for _ in tensors]
    known = [tensor for tensor, fate in zip(tensors, fates, strict=True) if fate == "known"]
    held = [tensor for tensor, fate in zip(tensors, fates, strict=True) if fate == "held"]
    del tensors
    if known:
        # What is held keeps the base that it is a view of: then that counts as well, once.
        bases = {tensor._base._cdata for tensor in held if tensor._base is not None}
        others = {tensor._cdata for tensor in (*known, *held)}
        others |= {tensor._base._cdata for tensor in known if tensor._base is not None}
        assert n_outside(*known) == len(held) + len(bases - others)


def test_each_base_that_a_view_keeps_counts_once() -> None:
    base = torch.zeros(2, 3)
    known, other = base.data, base.data
    held = [base[:0], base[1:], other[:0]]
    del base, other
    assert n_outside(known) == len(held) + 2


@given(st.data())
def test_views_that_are_read_differently_give_no_false_alarm(data: st.DataObject) -> None:
    tensors = grown(data, PLAIN_OPS + LAZY_OPS)
    known = [t for t in tensors if data.draw(st.booleans())]
    del tensors
    if known:
        assert n_outside(*known) == 0


@given(st.data())
def test_whoever_holds_the_base_or_a_view_of_it_is_seen(data: st.DataObject) -> None:
    tensors = grown(data, PLAIN_OPS + LAZY_OPS)
    base, last = tensors[0], tensors[-1]
    del tensors
    for inside, outside in ((base, last), (last, base)):
        if inside is not outside:
            assert n_outside(inside) > 0
    assert n_outside(base, last) == 0


def test_a_view_of_memory_that_somebody_else_has() -> None:
    flat = torch.zeros(10)
    view = flat[:6]
    assert n_outside(view) == 1
    assert n_outside(view, flat) == 0
    del flat
    assert n_outside(view) == 0


def test_two_views_of_one_base_count_it_once() -> None:
    flat = torch.zeros(10)
    first, second = flat[:6], flat[4:]
    assert n_outside(first, second) == 1
    del flat
    assert n_outside(first, second) == 0
    assert n_outside(first) == 1, "the other view"


def test_a_tensor_and_what_is_read_from_it_in_another_way() -> None:
    x = torch.zeros(4, dtype=torch.complex64)
    minus = x.conj().imag
    assert n_outside(x, minus) == 0
    assert n_outside(minus) == 1
    assert n_outside(x) > 0
    other = x[1:]
    assert n_outside(x, minus) == 1
    assert n_outside(x, minus, other) == 0


def test_saved_tensors_of_graphs_are_holders() -> None:
    weight = torch.zeros(2, 3)
    scale = torch.ones(3, requires_grad=True)
    total = (weight.view(3, 2).t() * scale).sum()
    assert n_outside(weight) > 0
    total.backward()
    del total
    gc.collect()
    assert n_outside(weight) == 0


def test_a_buffer_that_a_graph_uses_as_it_is_has_a_holder() -> None:
    weight = torch.zeros(3)
    total = (weight * torch.ones(3, requires_grad=True)).sum()
    assert n_outside(weight) == 1
    total.backward()
    assert n_outside(weight) == 0


def test_a_graph_that_uses_the_base_of_a_view_is_a_holder() -> None:
    base = torch.zeros(3)
    view = base[:2]
    total = (base * torch.ones(3, requires_grad=True)).sum()
    del base
    assert n_outside(view) == 1
    total.backward()
    assert n_outside(view) == 0


def test_exports_are_holders() -> None:
    x = torch.zeros(3)
    array = x.numpy()
    assert n_outside(x) == 1
    del array
    assert n_outside(x) == 0
    capsule = x.__dlpack__()
    assert n_outside(x) == 1
    del capsule
    assert n_outside(x) == 0


def test_memory_that_torch_was_lent_has_no_other_holder() -> None:
    array = np.zeros(3)
    assert n_outside(torch.from_numpy(array)) == 0


def test_a_parameter_in_a_graph_has_no_other_holder() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    total = (parameter * 2).sum()
    assert n_outside(parameter) == 0
    total.backward()
    assert parameter.grad is not None
    assert n_outside(parameter, parameter.grad) == 0


@pytest.mark.parametrize("fake", [False, True])
def test_tensors_without_data(fake: bool) -> None:
    if fake:
        with FakeTensorMode():
            flat = torch.zeros(4)
            view = flat[1:]
    else:
        flat = torch.zeros(4, device="meta")
        view = flat[1:]
    assert n_outside(flat, view) == 0
    assert n_outside(view) == 1
    del flat
    assert n_outside(view) == 0


def test_tensors_that_hold_memory_for_a_known_one() -> None:
    s = torch.eye(3).to_sparse()
    values = s._values()
    assert n_outside(values) == 1
    assert outside_references([values], inner=[values]) == {}


def test_uses_of_a_base_and_of_a_gradient() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.grad = torch.zeros(3)
    view = parameter.grad[:2]
    uses = known_uses([parameter, parameter.grad, view])
    assert uses[parameter.grad._cdata] == 2 == n_uses_inside(parameter.grad)
    assert uses[parameter._cdata] == 0 == n_uses_inside(parameter)
