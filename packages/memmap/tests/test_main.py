"""``memmap report FILE``: what it prints, what it returns."""

import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import dedent, indent
from typing import IO

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

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


def test_the_table_in_the_readme_is_that_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = torch.zeros(10_000)
    path = tmp_path / "model.pt"
    torch.save({"weight": flat[:600].view(20, 30), "bias": flat[590:620]}, path)
    assert main(["report", str(path)]) == 0
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    shown = "$ memmap report model.pt\n" + capsys.readouterr().out
    assert indent(shown, "    ") in readme


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


def test_a_file_that_is_not_there_is_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "none.pt")]) == 2
    assert capsys.readouterr().err == f"memmap: {tmp_path}/none.pt: No such file or directory\n"


def test_a_file_whose_name_has_two_lines_gives_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "no\nfile"]) == 2
    assert capsys.readouterr().err == "memmap: no\\nfile: No such file or directory\n"


def test_a_stream_in_memory_is_written_to(checkpoint: Path) -> None:
    with redirect_stdout(io.StringIO()) as out:
        assert main(["report", str(checkpoint)]) == 0
    assert out.getvalue() == f"{MemoryReport.from_file(checkpoint)}\n"


def test_a_picture_does_not_take_the_place_of_the_checkpoint(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = checkpoint.read_bytes()
    link = checkpoint.with_name("link.svg")
    link.symlink_to(checkpoint)
    for picture in (checkpoint, link):
        assert main(["report", str(checkpoint), "--picture", str(picture)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert f"--picture must be another file than the checkpoint, got {picture}" in err
    assert checkpoint.read_bytes() == content


def test_a_picture_that_cannot_be_written_gives_one_line_and_status_2(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(checkpoint), "--picture", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == f"memmap: {tmp_path}: Is a directory\n"


def run(checkpoint: Path, stdout: int | IO[bytes]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memmap", "report", str(checkpoint)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )


def test_a_reader_that_stops_reading_is_no_error(checkpoint: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run(checkpoint, writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_gives_one_line_and_status_2(checkpoint: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(checkpoint, full)
    assert done.returncode == 2
    assert done.stderr == "memmap: standard output: No space left on device\n"


def test_a_file_without_tensors_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pt"
    torch.save({"epoch": 3}, path)
    assert main(["report", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["no tensors"]


def test_the_help_explains_every_column(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    explained = capsys.readouterr().out.partition("columns:")[2].splitlines()[1:]
    main(["report", str(checkpoint)])
    headings = capsys.readouterr().out.split("\n")[0].split()
    assert [line.split()[0] for line in explained] == headings[:-1]


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


def test_the_first_lines_of_the_readme_are_what_the_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a file of 1 GiB that is sparse, so it takes no place on the disk."""
    monkeypatch.chdir(tmp_path)
    with FakeTensorMode():
        flat = torch.empty(1 << 28)
        with torch.serialization.skip_data(materialize_fake_tensors=True):
            torch.save({"row": flat[3072:4096]}, "model.pt")
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    block = readme.partition("found, and mended.\n\n")[2].partition("\n\n")[0]
    commands = dedent(block).split("$ memmap ")[1:]
    assert [command.split()[0] for command in commands] == ["report", "compact", "diff"]
    for command in commands:
        line, _, expected = command.partition("\n")
        assert main(line.split()) == 0
        assert capsys.readouterr() == (f"{expected.rstrip()}\n", "")
    assert torch.load("small.pt")["row"].tolist() == [0] * 1024


def test_a_file_is_made_compact_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"row": torch.zeros(1000, 1024)[3]}, "model.pt")
    assert main(["compact", "model.pt", "small.pt"]) == 0
    assert capsys.readouterr() == ("small.pt: 5.2 KiB instead of 3.9 MiB\n", "")
    assert main(["compact", "model.pt", "small.pt"]) == 2
    assert capsys.readouterr().err.startswith("memmap: small.pt: the file exists, and overwrite")
    assert main(["compact", "model.pt", "small.pt", "--overwrite"]) == 0
    capsys.readouterr()
    assert main(["compact", "small.pt", "copy.pt"]) == 0
    text = "copy.pt: a copy of 5.2 KiB, because a new file is not smaller\n"
    assert capsys.readouterr().out == text
    assert main(["compact", "none.pt", "new.pt"]) == 2
    Path("text").write_text("text")
    assert main(["compact", "text", "new.pt"]) == 2
    assert "memmap: text: the file must be" in capsys.readouterr().err
    assert not Path("new.pt").exists()


def test_a_difference_is_printed_as_lines_or_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / name) for name in ("a.pt", "b.pt")]
    torch.save({"w": torch.zeros(2), "old": torch.zeros(1)}, paths[0])
    torch.save({"w": torch.zeros(2).half()}, paths[1])
    assert main(["diff", *paths]) == 0
    lines = ["gone     old: float32 1", "changed  w: float32 2 -> float16 2"]
    assert capsys.readouterr().out.splitlines() == lines
    assert main(["diff", "--json", *paths]) == 0
    assert json.loads(capsys.readouterr().out)["changed"]["w"]["after"]["dtype"] == "float16"
    assert main(["diff", paths[0], str(tmp_path)]) == 0


def test_a_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.pt", "b.pt"):
        torch.save({"w": torch.zeros(2)}, tmp_path / name)
    assert main(["report", str(tmp_path)]) == 0
    assert "b.pt: w: float32 2" in capsys.readouterr().out
    assert main(["report", str(tmp_path), "--picture", str(tmp_path / "map.svg")]) == 0
