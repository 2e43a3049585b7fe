from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_multigpu._devices import _streams
from linops_multigpu._devices import _transfer as routes
from linops_multigpu._devices._transfer import Route, route_between

CPU, META, ONE, OTHER = map(torch.device, ("cpu", "meta", "cuda:0", "cuda:1"))


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.device, torch.device]]:
    """Have all tests between devices pass; which they were."""
    tested: list[tuple[torch.device, torch.device]] = []

    def arrives(*ends: torch.device) -> bool:
        tested.append((ends[0], ends[1]))
        return True

    monkeypatch.setattr(routes, "_arrives_as_sent", arrives)
    return tested


def test_the_way_depends_on_the_ends(paper: Any, exact: Any) -> None:
    result = {
        (a, b): route_between(a, b) for a in (CPU, META, ONE) for b in (CPU, META, ONE, OTHER)
    }
    assert result == {
        (CPU, CPU): Route.NONE, (CPU, META): Route.TORCH,
        (CPU, ONE): Route.TO_DEVICE, (CPU, OTHER): Route.TO_DEVICE,
        (META, CPU): Route.TORCH, (META, META): Route.NONE,
        (META, ONE): Route.TORCH, (META, OTHER): Route.TORCH,
        (ONE, CPU): Route.TO_HOST, (ONE, META): Route.TORCH,
        (ONE, ONE): Route.NONE, (ONE, OTHER): Route.DIRECT,
    }  # fmt: skip


def test_each_direction_is_tested_once(paper: Any, exact: Any) -> None:
    for _ in range(3):
        route_between(ONE, OTHER)
    assert exact == [(ONE, OTHER)]
    route_between(OTHER, ONE)
    assert exact == [(ONE, OTHER), (OTHER, ONE)]


def test_another_backend_is_tested_again(
    paper: Any, exact: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    route_between(ONE, OTHER)
    monkeypatch.setitem(_streams._BACKENDS, "cuda", type(paper)())
    route_between(ONE, OTHER)
    assert exact == [(ONE, OTHER)] * 2


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "linops_multigpu"]


def test_without_peer_access_it_is_through_the_host_and_said_once(
    paper: Any, exact: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "can_reach", lambda *_: False, raising=False)
    for _ in range(3):
        assert route_between(ONE, OTHER) is Route.STAGED
    assert not exact
    assert warned(caplog) == [
        "transfers from cuda:0 to cuda:1 go through pinned host memory: there is no peer access"
    ]


def test_what_does_not_arrive_as_sent_goes_through_the_host(
    paper: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_arrives_as_sent", lambda *_: False)
    for _ in range(3):
        assert route_between(ONE, OTHER) is Route.STAGED
    assert warned(caplog) == [
        "transfers from cuda:0 to cuda:1 go through pinned host memory: "
        "a test transfer between them arrived corrupted"
    ]


def test_fake_devices_are_not_tested(paper: Any, exact: Any) -> None:
    with FakeTensorMode():
        assert route_between(ONE, OTHER) is Route.TORCH
    assert not exact
    assert route_between(ONE, OTHER) is Route.DIRECT


def test_the_test_sees_what_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = torch.Tensor.copy_
    monkeypatch.setattr(torch.Tensor, "copy_", lambda out, x: copy(out, x))
    assert routes._arrives_as_sent(CPU, CPU)
    wrong: list[Any] = [
        lambda out, x: out,
        lambda out, x: copy(out, x.roll(1)),
        lambda out, x: copy(out, x)[-1].zero_(),
        lambda out, x: copy(out, x)[100].bitwise_xor_(1 << 40),
        lambda out, x: copy(out[::2], x[::2]),
        lambda out, x: copy(out, x[: len(x) // 2].repeat(2)),
    ]
    for copied_wrongly in wrong:
        monkeypatch.setattr(torch.Tensor, "copy_", copied_wrongly)
        assert not routes._arrives_as_sent(CPU, CPU)


@pytest.mark.multigpu
def test_gpus_exchange_data_one_way_or_the_other() -> None:
    assert route_between(ONE, OTHER) in (Route.DIRECT, Route.STAGED)
