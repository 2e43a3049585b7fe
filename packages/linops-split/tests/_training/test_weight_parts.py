"""Which parts of weights there are, and which of them overlap."""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from linops_split._training._weight_parts import weight_of
from linops_split.execution import WeightParts


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=6))
def test_groups_are_the_parts_that_hang_together(intervals: list[tuple[int, int]]) -> None:
    weight = nn.Parameter(torch.rand(9))
    device_copy = weight.detach().clone()
    parts = WeightParts()
    spans = {}
    for start, length in intervals:
        number = parts.add(weight[start : start + length], device_copy[start:][:length])
        assert number is not None
        spans[number] = range(start, start + length)
    assert sorted(n for group in parts.groups for n in group) == sorted(spans)
    group_of = {n: k for k, group in enumerate(parts.groups) for n in group}
    reached = {n: {n} for n in spans}
    for _ in spans:
        for n, others in reached.items():
            touched = {m for m in spans for o in others if {*spans[o]} & {*spans[m]}}
            reached[n] = others | touched
    for n, m in itertools.product(spans, repeat=2):
        assert (group_of[n] == group_of[m]) == (m in reached[n])


def test_the_weight_of_a_view_is_the_dense_tensor_that_autograd_knows() -> None:
    leaf = nn.Parameter(torch.rand(4, 3, dtype=torch.complex128))
    assert weight_of(leaf) is leaf
    assert weight_of(leaf[1:, :2]) is leaf
    assert weight_of(leaf.T[1:]) is leaf
    computed = leaf * 2
    assert weight_of(computed[1:]) is computed
    flat = torch.rand(6).requires_grad_(False)
    assert weight_of(part := flat[1:].requires_grad_()) is part
    assert weight_of(end := part[1:]) is end
    conjugate = leaf.conj()[1:]
    assert weight_of(conjugate) is conjugate
    real = torch.view_as_real(leaf)
    assert weight_of(real) is real
    assert weight_of(leaf[:1].expand(2, 3)) is None
    sparse = torch.rand(4, 6)[:, ::2].requires_grad_()
    assert weight_of(sparse) is None
    gaps = torch.zeros(8).as_strided((2, 2), (4, 1)).detach().requires_grad_()
    assert weight_of(row := gaps[0]) is row


def test_a_part_of_a_tensor_begins_where_that_tensor_begins() -> None:
    weight, parts = nn.Parameter(torch.rand(6)), WeightParts()
    number = parts.add(weight[2:5], weight.detach()[2:5])
    assert number is not None
    gradient = torch.arange(10.0)[3:9]  # of all of the weight, a view of more memory
    assert parts.parts[number].of(gradient).tolist() == [5, 6, 7]
