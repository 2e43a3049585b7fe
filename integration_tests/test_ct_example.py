"""The CT demo: what it writes, and what it says and leaves behind where it cannot work."""

import importlib
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from linops_core import NamedLinop
from linops_imaging import phantoms

Interrupted = Callable[..., list[tuple[int, str]]]
EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = ["--size", "64", "--views", "24", "--iterations", "20", "--weight", "0.002"]
FEW = ["--size", "12", "--views", "3", "--iterations", "1"]


@pytest.fixture(scope="module")
def ct() -> Iterator[ModuleType]:
    """Import the script and the modules beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield importlib.import_module("ct")
    for name in [name for name in sys.modules if name.startswith("demo_")]:
        del sys.modules[name]
    for name in ("ct", "ct_report"):
        sys.modules.pop(name)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_a_slice_is_reconstructed_whole_and_split(tmp_path: Path) -> None:
    output = tmp_path / "made" / "here"
    command = [sys.executable, str(EXAMPLES / "ct.py"), *SMALL, "--batch", "A=5"]
    done = subprocess.run([*command, "--output", str(output)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert files(output) == {"ct.json", "ct.png"}
    assert (output / "ct.png").read_bytes().startswith(b"\x89PNG\r\n")
    result = json.loads((output / "ct.json").read_text())
    assert result["agrees"] and result["improves"] and result["settings"]["views"] == 24
    direct, whole, split, flat = (
        result["runs"][name]["error"]
        for name in (
            *("filtered back projection", "least squares"),
            *("least squares, split", "total variation"),
        )
    )
    assert whole == pytest.approx(split, rel=1e-3) and flat < 0.8 * direct
    for said in ("head of 64 x 64 pixels, closed form", "least squares, split", "PSNR", "rounding"):
        assert said in done.stdout
    assert f"wrote {output / 'ct.json'}" in done.stdout


@pytest.mark.parametrize("size", [31, 32])
def test_the_reference_is_the_mean_of_points_within_each_pixel(ct: ModuleType, size: int) -> None:
    """Points of a finer grid whose middle is that of the coarse one: an odd number in a pixel."""
    result = ct.head(size)
    sampled = phantoms.shepp_logan([size, size])
    inside = (sampled[1:-1, 1:-1] - result[1:-1, 1:-1]).abs() < 1e-6
    assert inside.float().mean() > 0.7
    profile = result.amax(1) if size % 2 else result.amax(1)[1:]
    torch.testing.assert_close(profile, profile.flip(0))  # the skull is symmetric about the middle


def test_status_is_1_if_whole_and_split_differ(
    tmp_path: Path,
    ct: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def wrong(A: NamedLinop, sizes: object, devices: object) -> NamedLinop:
        return 1.01 * A

    monkeypatch.setattr(ct, "batched", wrong)
    assert ct.main([*SMALL, "--output", str(tmp_path / "out")]) == 1
    assert "MORE THAN ROUNDING" in capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "ct.json").read_text())
    assert result["agrees"] is False and result["improves"] is True


def test_status_is_1_if_nothing_is_gained(
    tmp_path: Path, ct: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*SMALL, "--weight", "1", "--output", str(tmp_path / "out")]  # flattens the image
    assert ct.main(options) == 1
    assert "NOT CLEARLY BETTER" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "ct.json").read_text())["improves"] is False


BAD_INPUT = {
    "size": (["--size", "7"], "--size must be from 8 to 4096, got 7"),
    "views": (["--views", "0"], "--views must be from 1 to 10000, got 0"),
    "noise": (["--noise", "nan"], "--noise must be from 0 to 1, got nan"),
    "seed": (["--seed", "-1"], "--seed must be from 0 to"),
    "iterations": (["--iterations", "0"], "--iterations must be from 1 to 10000, got 0"),
    "weight": (["--weight", "-1"], "--weight must be from 0 to 1, got -1.0"),
    "opaque": (["--batch", "Nx=2"], "--batch: "),
    "unknown": (["--batch", "Q=2"], "got Q"),
    "no size": (["--batch", "A"], "--batch must look like A=8, each name once, got 'A'"),
    "device": (["--devices", "cpu,gpu:0"], "--devices must name devices of this machine"),
    "folder": (["--output", "/dev/null/out"], "--output must be a folder to write to"),
}


@pytest.mark.parametrize(("options", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_gives_one_line_and_leaves_nothing_behind(
    options: list[str],
    message: str,
    tmp_path: Path,
    ct: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ct.main(["--output", str(tmp_path / "out"), *options]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("ct: ") and said.err.count("\n") == 1
    assert message in said.err
    assert files(tmp_path) == set()


def test_too_little_memory_is_said_in_one_line(
    tmp_path: Path,
    ct: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ct, "scanner", lambda *_: torch.empty(2**60))
    assert ct.main(["--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("ct: there is not enough memory: give a smaller --size")
    assert said.count("\n") == 1 and files(tmp_path) == set()
    monkeypatch.setattr(ct, "scanner", lambda *_: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        ct.main(["--output", str(tmp_path / "out")])


numbers = st.sampled_from(["1", "9", "100", "-1", "0", "nan", "inf", "1e400", "9" * 5000, ""])
tiles = st.lists(st.sampled_from(["A=1", " A = 2", "D=1", "Nx=9", "Q=1"]), max_size=2).map(",".join)
OPTIONS = ["--size", "--views", "--noise", "--seed", "--iterations", "--weight", "--batch"]


@settings(max_examples=settings().max_examples // 3)
@given(st.dictionaries(st.sampled_from(OPTIONS), numbers | tiles | st.text(max_size=8), max_size=3))
@example({"--batch": "A=" + "9" * 5000})
def test_the_option_that_is_wrong_is_named(ct: ModuleType, options: dict[str, str]) -> None:
    error = io.StringIO()
    given_options = [part for option in options.items() for part in option]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()):
        patch.setattr(ct, "write_files", lambda report, folder: [])
        with redirect_stderr(error):
            try:
                status = ct.main([*FEW, "--output", "/tmp", *given_options])
            except SystemExit as stop:
                status = stop.code
    if status in (0, 1):
        return
    *usage, line = error.getvalue().strip("\n").split("\n")
    assert status == 2 and all(text.startswith(("usage: ct ", " ")) for text in usage)
    assert line.startswith("ct: ") and any(option in line for option in options), line


# What is imported before the script begins; at which audit events it is interrupted then.
MOMENTS = {
    (): [("import", "torch"), ("import", "torchlinops")],
    ("torchlinops",): [
        ("os.mkdir", "here"),
        ("open", "ct.json"),
        ("import", "matplotlib.pyplot"),
        ("os.rename", "ct.json"),
    ],
}


@pytest.mark.parametrize("imported", MOMENTS)
def test_an_interrupt_ends_in_one_line_and_leaves_nothing_behind(
    imported: tuple[str, ...], tmp_path: Path, interrupted: Interrupted
) -> None:
    runs: list[tuple[str, str, list[str]]] = []
    for number, moment in enumerate(MOMENTS[imported]):
        (folder := tmp_path / str(number)).mkdir()
        runs.append((*moment, [*FEW, "--output", str(folder / "made" / "here")]))
    result = interrupted("ct.py", imported, runs)
    assert result == [(130, "ct: interrupted\n")] * len(runs)
    assert [files(tmp_path / str(number)) for number in range(len(runs))] == [set()] * len(runs)


def test_an_interrupt_while_it_computes_ends_in_one_line(tmp_path: Path) -> None:
    options = ["--iterations", "10000", "--output", str(tmp_path / "made" / "here")]
    command = [sys.executable, "-u", str(EXAMPLES / "ct.py"), *options]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout and process.stderr
        said = ""
        while "FISTA whole" not in said:
            said += process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr.read() == "ct: interrupted\n"
        assert process.wait() == 130
    assert files(tmp_path) == set()


@pytest.mark.gpu
def test_the_demo_runs_on_a_gpu(tmp_path: Path, ct: ModuleType) -> None:
    pytest.importorskip("matplotlib")  # a machine with GPUs may have only torch
    for devices in ("cuda:0", "cpu,cuda:0"):
        assert ct.main([*SMALL, "--devices", devices, "--output", str(tmp_path / "out")]) == 0
    assert torch.cuda.is_available()
