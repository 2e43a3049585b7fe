import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from linops_multigpu._weights._snapshot import Snapshot


def model() -> Any:
    first = nn.Linear(2, 2)
    inner = nn.Sequential(first, nn.BatchNorm1d(2))
    return nn.Sequential(first, inner)


def write(m: Any) -> None:
    with torch.no_grad():
        m[0].weight[0, 0] = 3


def write_buffer(m: Any) -> None:
    m[1][1].running_mean.add_(1)


def replace(m: Any) -> None:
    m[0].weight = nn.Parameter(m[0].weight.detach().clone())


def set_data(m: Any) -> None:
    m[0].weight.data = m[0].weight.data.clone()


def same_place_other_strides(m: Any) -> None:
    m[0].weight.data = m[0].weight.data.T


def cast(m: Any) -> None:
    m.double()


def remove(m: Any) -> None:
    m[0].bias = None


def add(m: Any) -> None:
    m[1][1].register_buffer("extra", torch.ones(1))


def replace_a_module(m: Any) -> None:
    m[1][0] = nn.Linear(2, 2)


def set_data_where_the_old_was(m: Any) -> None:
    weight = m[0].weight
    shape = weight.shape
    weight.data = torch.empty(0)
    gc.collect()
    weight.data = torch.ones(shape)


CHANGES = [
    write,
    write_buffer,
    replace,
    set_data,
    same_place_other_strides,
    cast,
    remove,
    add,
    replace_a_module,
    set_data_where_the_old_was,
]


def test_what_did_not_change_is_shown_to_be_the_same() -> None:
    m, other = model(), model()
    m(torch.ones(3, 2)).sum().backward()
    snapshot = Snapshot([m, other])
    m.eval()(torch.ones(3, 2))
    m.requires_grad_(False)
    assert snapshot.is_current()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_seen(change: Callable[[Any], None]) -> None:
    m, other = model(), model()
    snapshot = Snapshot([other, m])
    change(m)
    assert not snapshot.is_current()
    assert Snapshot([other, m]).is_current()


def test_what_was_made_in_inference_mode_is_never_known_to_be_the_same() -> None:
    with torch.inference_mode():
        m = model()
    assert not Snapshot([m]).is_current()


def test_whether_autograd_follows_is_as_it_is_now() -> None:
    m = model()
    snapshot = Snapshot([m])
    assert any(snapshot.requires_grad()) and not all(snapshot.requires_grad())
    m.requires_grad_(False)
    assert not any(snapshot.requires_grad())
    m[0].weight.requires_grad_()
    assert sum(snapshot.requires_grad()) == 1 and snapshot.is_current()


def test_it_keeps_no_tensor() -> None:
    m = nn.Linear(2, 2)
    snapshot = Snapshot([m])
    old = weakref.ref(m.weight)
    m.weight = nn.Parameter(torch.ones(2, 2))
    gc.collect()
    assert old() is None and not snapshot.is_current()
