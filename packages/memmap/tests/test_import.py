"""Names are imported when they are used, so that ``import memmap`` is cheap."""

import json
import subprocess
import sys

import pytest

import memmap

_COUNT = """
import json, sys
import torch
before = set(sys.modules)
from memmap import footprint, overlaps
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_overlap_and_footprint_import_few_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COUNT],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    imported = json.loads(done.stdout)
    assert len([name for name in imported if name.startswith("memmap")]) <= 20
    assert not [name for name in imported if name.startswith(("xml", "zipfile", "memmap._copies"))]


def test_every_public_name_can_be_imported_and_listed() -> None:
    assert {*vars(memmap)["__all__"]} <= {*dir(memmap)}
    for name in vars(memmap)["__all__"]:
        assert getattr(memmap, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'memmap' has no attribute 'missing'"):
        memmap.missing  # type: ignore[attr-defined]  # noqa: B018
