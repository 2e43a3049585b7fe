"""``memmap report FILE``: what it prints, what it returns."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from memmap import MemoryReport
from memmap.__main__ import main


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    flat = torch.zeros(100)
    path = tmp_path / "model.pt"
    torch.save({"weight": flat[:10], "bias": flat[5:20]}, path)
    return path


def test_the_table_is_that_of_the_report(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(checkpoint)]) == 0
    assert capsys.readouterr() == (f"{MemoryReport.from_file(checkpoint)}\n", "")


def test_json_is_the_dictionary_of_the_report(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--json", str(checkpoint)]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == MemoryReport.from_file(checkpoint).to_dict()
    assert listed["totals"]["wasted"] == 400 - 80


def test_a_picture_is_written_beside_the_table(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "map.svg"
    assert main(["report", str(checkpoint), "--picture", str(svg)]) == 0
    assert capsys.readouterr().out.startswith("allocated")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")


@pytest.mark.parametrize("content", [None, b"", b"text", b"PK\x03\x04", b"\x05" + bytes(7) + b"{"])
def test_what_is_no_checkpoint_gives_one_line_and_status_2(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert main(["report", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"memmap: {path}: ")


def test_a_picture_that_cannot_be_written_gives_one_line_and_status_2(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(checkpoint), "--picture", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["report"], ["repair", "x"]])
def test_a_wrong_command_line_has_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert "usage: memmap" in capsys.readouterr().err


def test_a_terminal_without_unicode_gets_escapes(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"poids \u00e9\x1b[2J": torch.zeros(1)}, path)
    done = subprocess.run(
        [sys.executable, "-m", "memmap", "report", path],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert rb"poids \xe9\x1b[2J" in done.stdout
