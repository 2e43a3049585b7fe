"""A ``.pt`` file of the format before torch 1.6 is reported as the same file of today's format."""

import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from memmap import CheckpointError, MemoryReport

KEY = "0"


def saved(value: object, path: Path, is_zip: bool = False) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=is_zip)
    return path


def a_checkpoint() -> object:
    flat = torch.zeros(20)
    tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    optimizer = torch.optim.SGD(tied.parameters(), lr=0.1, momentum=0.9)
    tied(torch.ones(3)).sum().backward()
    optimizer.step()
    return {
        "views": [flat[:12].view(3, 4), flat[::2], flat[5:5]],
        "whole module": tied,
        "state": tied.state_dict(),
        "optimizer": optimizer.state_dict(),
        "half": torch.zeros(3, dtype=torch.float16),
        "storage": torch.zeros(5).untyped_storage(),
        "class": torch.nn.Bilinear,  # stored beside the pickle, in the old format
    }


@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
def test_both_formats_give_one_report(tmp_path: Path) -> None:
    value = a_checkpoint()
    old = MemoryReport.from_file(saved(value, tmp_path / "old.pt"))
    new = MemoryReport.from_file(saved(value, tmp_path / "new.pt", is_zip=True))
    assert old.to_dict() == new.to_dict()
    assert len(old.storages) > 5 and old.totals.shared > 0


class _Evil:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.system, (self.command, torch.zeros(5))


def test_a_malicious_file_executes_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    evil = saved({"evil": _Evil(f"touch {marker}")}, tmp_path / "evil.pt")
    assert MemoryReport.from_file(evil).totals.touched == 20
    assert not marker.exists()


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> object:
        return value.described if isinstance(value, _Storage) else None


class _Storage:
    def __init__(self, n: int) -> None:
        self.described = ("storage", torch.FloatStorage, KEY, "cpu", n)


class _Tensor:
    def __init__(self, n: int) -> None:
        self.n = n

    def __reduce__(self) -> tuple[object, ...]:
        return torch._utils._rebuild_tensor_v2, (_Storage(self.n), 0, (self.n,), (1,), False, {})


def by_hand(
    path: Path, version: object = 1001, keys: object = (KEY,), n: int = 3, block: bytes = bytes(12)
) -> Path:
    stream = io.BytesIO()
    listed = [*keys] if isinstance(keys, tuple) else keys
    for value in (0x1950A86A20F9469CFC6C, version, {}, {"w": _Tensor(3)}, listed):
        _Pickler(stream, 2).dump(value)
    path.write_bytes(stream.getvalue() + n.to_bytes(8, "little", signed=True) + block)
    return path


def test_a_file_by_hand_is_read(tmp_path: Path) -> None:
    assert MemoryReport.from_file(by_hand(tmp_path / "x")).totals.touched == 12


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": 1000}, "version of the format must be 1001, got 1000"),
        ({"version": [1]}, r"version of the format must be 1001, got \.\.\."),
        ({"keys": "0"}, "keys of the storages must be a list"),
        ({"keys": ()}, "every storage must be in the file, got none for 0"),
        ({"keys": (KEY, "1")}, "every storage must belong to the pickle, got '1'"),
        ({"keys": (KEY, 1)}, "every storage must belong to the pickle, got 1"),
        ({"n": 4}, "block of 12 bytes, got 4 elements and 12 bytes"),
        ({"n": -3}, "block of 12 bytes, got -3 elements"),
        ({"block": bytes(11)}, "block of 12 bytes, got 3 elements and 11 bytes"),
    ],
)
def test_a_file_must_hold_what_its_pickle_says(
    changed: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        MemoryReport.from_file(by_hand(tmp_path / "x", **changed))  # type: ignore[arg-type]
