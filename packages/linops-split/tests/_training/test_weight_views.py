"""Which parts of weights there are, and which of them overlap."""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_split.siblings import WeightViews


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=6))
def test_groups_are_the_parts_that_hang_together(intervals: list[tuple[int, int]]) -> None:
    weight = nn.Parameter(torch.rand(9))
    device_copy = weight.detach().clone()
    weight_views = WeightViews()
    spans = {}
    for start, length in intervals:
        number = weight_views.add(weight, weight[start:][:length], device_copy[start:][:length])
        assert number is not None
        spans[number] = range(start, start + length)
    assert sorted(n for group in weight_views.groups for n in group) == sorted(spans)
    group_of = {n: k for k, group in enumerate(weight_views.groups) for n in group}
    reached = {n: {n} for n in spans}
    for _ in spans:
        for n, others in reached.items():
            touched = {m for m in spans for o in others if {*spans[o]} & {*spans[m]}}
            reached[n] = others | touched
    for n, m in itertools.product(spans, repeat=2):
        assert (group_of[n] == group_of[m]) == (m in reached[n])


def root_of(weight: Tensor, tensor: Tensor) -> Tensor:
    """Return the tensor to which the gradient of a tensor that an operator reads is attributed."""
    weight_views = WeightViews()
    weight_views.add(weight, tensor, tensor)
    return weight_views.weights[0]


def test_the_gradient_of_a_slice_belongs_to_the_weight_that_the_operator_holds() -> None:
    leaf = nn.Parameter(torch.rand(4, 3, dtype=torch.complex128))
    flat = torch.rand(6)[1:].requires_grad_()
    dense = [leaf, leaf.T, leaf[1:], leaf * 2, leaf.conj(), torch.view_as_real(leaf), flat]
    for weight in dense:
        assert root_of(weight, weight) is weight
        assert root_of(weight, part := weight[1:]) is weight, part
    # Elements that repeat, gaps, and another look of the same memory.
    sparse, gaps = leaf[:, ::2], torch.zeros(8).as_strided((2, 2), (4, 1)).requires_grad_()
    for weight, part in ((leaf[:1].expand(2, 3),) * 2, (sparse, sparse[1:]), (gaps, gaps[0])):
        assert root_of(weight, part) is part
    assert root_of(leaf, part := leaf.conj()[1:]) is part


def test_a_part_of_a_tensor_begins_where_that_tensor_begins() -> None:
    weight, weight_views = nn.Parameter(torch.rand(6)), WeightViews()
    number = weight_views.add(weight, weight[2:5], weight.detach()[2:5])
    assert number is not None
    gradient = torch.arange(10.0)[3:9]  # of all of the weight, a view of more memory
    assert weight_views.views[number].of(gradient).tolist() == [5, 6, 7]
