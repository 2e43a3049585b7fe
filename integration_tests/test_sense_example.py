"""The demo: what it writes, and what it says and leaves behind where it cannot work."""

import importlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nibabel
import numpy as np
import pytest
import torch
from hypothesis import settings

import torchlinops as tl
from linops_core import NamedLinop

EXAMPLES = Path(__file__).parents[1] / "examples"
Main = Callable[..., int]
Interrupted = Callable[..., list[tuple[int, str]]]


def brain(folder: Path) -> Path:
    """Write a volume of 3 slices of 24 x 20 pixels with a few blobs in it."""
    z, x, y = np.meshgrid(*(np.linspace(-1, 1, n) for n in (3, 24, 20)), indexing="ij")
    inside = (x**2 + y**2 + 0.2 * z**2 < 0.8).astype(float)
    path = folder / "brain.npy"
    np.save(path, inside * (1 + 0.5 * np.sin(9 * x) * np.cos(7 * y)))
    return path


def scan(folder: Path) -> list[str]:
    """Write k-space, maps and mask of two coils; return the options that name them."""
    rng = np.random.default_rng(0)
    image = np.load(brain(folder))
    maps = np.stack([np.linspace(0.2, 1, 24)[:, None], np.linspace(1, 0.2, 24)[:, None] * 1j])
    maps = np.broadcast_to(maps[:, None], (2, *image.shape))
    centred = np.fft.ifftshift(maps * image, axes=(-2, -1))
    kspace = np.fft.fftshift(np.fft.fft2(centred, norm="ortho"), axes=(-2, -1))
    mask = rng.random(image.shape[1:]) < 0.6
    arrays = {"kspace": kspace, "maps": maps, "mask": mask}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [item for name in arrays for item in (f"--{name}", str(folder / f"{name}.npy"))]


@pytest.fixture
def sense(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the script and the modules beside it, for one test."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("sense")
    for name in [name for name in sys.modules if name.startswith(("sense", "demo_"))]:
        del sys.modules[name]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def run(*options: str) -> subprocess.CompletedProcess[str]:
    script = str(EXAMPLES / "sense.py")
    return subprocess.run([sys.executable, script, *options], capture_output=True, text=True)


def test_a_volume_is_reconstructed_whole_and_split(tmp_path: Path) -> None:
    output = tmp_path / "made" / "here"
    options = ["--image", str(brain(tmp_path)), "--coils", "4", "--iterations", "5"]
    done = run(*options, "--batch", "C=3,Nz=2", "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert files(output) == {"sense.json", "sense.png"}
    assert (output / "sense.png").read_bytes().startswith(b"\x89PNG\r\n")
    result = json.loads((output / "sense.json").read_text())
    assert result["agrees"] and result["improves"] and result["error_is"] == "nrmse"
    errors = [result[name]["error"] for name in ("whole", "split", "zero_filled")]
    assert errors[0] == pytest.approx(errors[1], rel=1e-3) and errors[0] < 0.8 * errors[2]
    for said in ("simulated   4 coil maps", "zero-filled", "whole", "split", "rounding"):
        assert said in done.stdout
    assert f"wrote {output / 'sense.json'}" in done.stdout


def test_tiles_halve_the_memory_of_the_default_scan(sense: ModuleType) -> None:
    maps = torch.randn(4, 4, 24, 20, dtype=torch.complex64)
    locs = tl.trajectories.radial_2d(10, 24, (24, 20)).flatten(0, 1)
    A = sense.sense_operator(maps, torch.ones(24, 20), locs)
    whole, tiles = (
        tl.plan_batches(linop, "1 GB", [], work="normal").peak
        for linop in (A, tl.batched(A, {"C": 2, "Nz": 2}))
    )
    assert tiles < whole / 2


@pytest.mark.parametrize(("penalty", "method"), [("tv", "ADMM"), ("wavelet", "FISTA")])
def test_a_penalty_lowers_the_error(
    penalty: str,
    method: str,
    tmp_path: Path,
    sense: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--image", str(brain(tmp_path)), "--coils", "3", "--noise", "0.02"]
    options += ["--trajectory", "cartesian"]
    errors = {}
    for name in ("none", penalty):
        output = tmp_path / name
        arguments = [*options, "--regularize", name, "--weight", "0.02", "--iterations", "20"]
        assert sense.main([*arguments, "--output", str(output)]) == 0
        result = json.loads((output / "sense.json").read_text())
        assert result["agrees"] and result["regularize"] == name
        errors[name] = result["whole"]["error"]
    assert errors[penalty] < 0.9 * errors["none"]
    said = capsys.readouterr().out
    assert f"{method} whole: 100%" in said and f"{method} split: 100%" in said


@pytest.mark.parametrize(
    ("trajectory", "said"), [("radial", "10 spokes of 24 points"), ("spiral", "8 spirals of 30 ")]
)
def test_samples_may_be_anywhere(
    trajectory: str,
    said: str,
    tmp_path: Path,
    sense: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--image", str(brain(tmp_path)), "--acceleration", "2", "--regularize", "tv"]
    output = tmp_path / "out"
    assert sense.main([*options, "--trajectory", trajectory, "--output", str(output)]) == 0
    result = json.loads((output / "sense.json").read_text())
    assert result["agrees"] and result["whole"]["error"] < 0.3
    assert said in capsys.readouterr().out


def test_measured_data_is_reconstructed(tmp_path: Path, sense: ModuleType) -> None:
    output = tmp_path / "out"
    status = sense.main([*scan(tmp_path), "--batch", "C=1", "--output", str(output)])
    result = json.loads((output / "sense.json").read_text())
    assert result["error_is"] == "residual"
    assert result["split"]["error"] < 0.1 * result["zero_filled"]["error"]
    assert status == 0 and files(output) == {"sense.json", "sense.png"}


def test_status_is_1_if_whole_and_split_differ(
    tmp_path: Path,
    sense: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def wrong(A: NamedLinop, sizes: object, devices: object) -> NamedLinop:
        return 1.001 * A

    monkeypatch.setattr(sense, "batched", wrong)
    options = ["--image", str(brain(tmp_path)), "--iterations", "3", "--coils", "2"]
    assert sense.main([*options, "--output", str(tmp_path / "out")]) == 1
    assert "MORE THAN ROUNDING" in capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "sense.json").read_text())
    assert result["agrees"] is False and result["improves"] is True


def test_status_is_1_if_nothing_is_gained(
    tmp_path: Path, sense: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    # All points of one coil: the zero-filled image is the image itself.
    options = ["--image", str(brain(tmp_path)), "--coils", "1", "--acceleration", "1"]
    options += ["--trajectory", "cartesian"]
    assert sense.main([*options, "--noise", "0.1", "--output", str(tmp_path / "out")]) == 1
    assert "NOT CLEARLY BETTER" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "sense.json").read_text())["improves"] is False


def saved(name: str, array: Any, *, pickled: bool = False) -> Callable[[Path], list[str]]:
    def options(folder: Path) -> list[str]:
        np.save(folder / name, array, allow_pickle=pickled)
        return ["--image", str(folder / name)]

    return options


def written(name: str, content: bytes) -> Callable[[Path], list[str]]:
    def options(folder: Path) -> list[str]:
        (folder / name).write_bytes(content)
        return ["--image", str(folder / name)]

    return options


def with_image(*options: str) -> Callable[[Path], list[str]]:
    return lambda folder: ["--image", str(brain(folder)), *options]


def with_scan(**changed: Any) -> Callable[[Path], list[str]]:
    def options(folder: Path) -> list[str]:
        result = scan(folder)
        for name, array in changed.items():
            np.save(folder / f"{name}.npy", array)
        return result

    return options


def nifti(*shape: int) -> Callable[[Path], list[str]]:
    def options(folder: Path) -> list[str]:
        volume = nibabel.Nifti1Image(np.ones(shape), np.eye(4))  # type: ignore[no-untyped-call]
        (folder / "a.nii").write_bytes(volume.to_bytes())
        return ["--image", str(folder / "a.nii")]

    return options


def huge() -> bytes:
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


NAN = np.full((2, 8, 8), np.nan)
BAD_INPUT: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "missing file": (lambda folder: ["--image", str(folder / "no.npy")], "there is no such file"),
    "missing NIfTI": (lambda folder: ["--image", str(folder / "no.nii")], "there is no such file"),
    "folder": (lambda folder: ["--image", str(folder)], "not a file"),
    "one dimension": (saved("a.npy", np.ones(9)), "must have shape (Nz, Nx, Ny)"),
    "tiny slices": (saved("a.npy", np.ones((2, 4, 9))), "8 x 8 pixels or more, got (2, 4, 9)"),
    "objects": (saved("a.npy", np.array([{}]), pickled=True), "objects, which are not loaded"),
    "strings": (saved("a.npy", np.array([["a"]])), "must hold numbers, got <U1"),
    "nothing": (saved("a.npy", np.ones((0, 8, 8))), "must hold numbers"),
    "NaN": (saved("a.npy", NAN), "values must be finite, got NaN or infinity; set to 0"),
    "tiny image": (saved("a.npy", np.ones((4, 9))), "8 x 8 pixels or more, got (4, 9)"),
    "tiny NIfTI": (nifti(4, 9, 2), "8 x 8 pixels or more, got (4, 9, 2)"),
    "flat NIfTI": (nifti(9, 9), "8 x 8 pixels or more, got (9, 9)"),
    "infinity": (saved("a.npy", NAN * 0 + np.inf), "values must be finite"),
    "zeros": (saved("a.npy", 0 * np.ones((2, 8, 8))), "values must not be all zero"),
    "no array": (written("a.npy", b"what is this"), "must be a .npy file, got something else"),
    "text": (written("a.txt", b"1 2\n3 4\n"), "must be a .npy file, got something else; save one"),
    "empty file": (written("a.npy", b""), "must be a .npy file, got an empty file"),
    "archive": (written("a.npz", b"PK\3\4"), "must be a .npy file, got an archive (.npz?)"),
    "truncated": (written("a.npy", b"\x93NUMPY\1"), "not a .npy file that can be read"),
    "too much": (written("a.npy", huge()), "does not fit into memory: Unable to allocate"),
    "long name": (lambda folder: ["--image", "x" * 300], "xxx: File name too long"),
    "no NIfTI": (written("a.nii", b"what is this"), "not a NIfTI file that can be read"),
    "unknown device": (with_image("--devices", "cpu,gpu:0"), "(cpu), got 'gpu:0'"),
    "absent device": (with_image("--devices", "cuda:99"), "got 'cuda:99'"),
    "device without values": (with_image("--devices", "meta"), "hold values, got 'meta'"),
    "unknown dimension": (with_image("--batch", "Q=2"), "got Q"),
    "bad name": (with_image("--batch", "N z=2"), "--batch must look like"),
    "opaque dimension": (with_image("--batch", "Nx=2"), "Nx cannot be split"),
    "tiles of size 0": (with_image("--batch", "C=0"), "must have a positive integer size, got 0"),
    "no size": (with_image("--batch", "C"), "--batch must look like C=2,Nz=4"),
    "no name": (with_image("--batch", "=2"), "--batch must look like"),
    "no number": (with_image("--batch", "C=two"), "--batch must look like"),
    "not a decimal": (with_image("--batch", "C=²"), "--batch must look like"),
    "twice": (with_image("--batch", "C=2,C=3"), "--batch must look like"),
    "empty batch": (with_image("--batch", ""), "--batch must look like"),
    "no coils": (with_image("--coils", "0"), "--coils must be from 1 to 1024, got 0"),
    "many coils": (with_image("--coils", "100000000"), "--coils must be from 1 to 1024"),
    "acceleration": (with_image("--acceleration", "nan"), "--acceleration must be from 1 to 100"),
    "noise": (with_image("--noise", "-1"), "--noise must be from 0 to 1"),
    "seed": (with_image("--seed", "99999999999999999999999"), "--seed must be from 0 to"),
    "iterations": (with_image("--iterations", "0"), "--iterations must be from 1 to 10000"),
    "weight": (with_image("--weight", "nan"), "--weight must be from 0 to 1, got nan"),
    "odd slices": (
        lambda folder: [*saved("a.npy", np.ones((2, 16, 15)))(folder), "--regularize", "wavelet"],
        "--regularize wavelet: slices must have an even number of pixels along both axes, 14 or",
    ),
    "k-space off the grid": (
        lambda folder: [*scan(folder), "--trajectory", "spiral"],
        "--trajectory must be cartesian for --kspace, which is on a grid, got spiral",
    ),
    "k-space alone": (lambda folder: scan(folder)[:2], "must be given together"),
    "k-space and image": (
        lambda folder: [*scan(folder), "--image", str(folder / "brain.npy")],
        "--image and --kspace must not be given together",
    ),
    "k-space of another shape": (with_scan(kspace=np.ones(5)), "--kspace must have shape"),
    "maps of another shape": (with_scan(maps=np.ones((2, 3, 24, 21))), "--maps must have"),
    "mask of another shape": (with_scan(mask=np.ones((20, 24))), "--mask must have shape"),
    "mask of other values": (with_scan(mask=np.full((24, 20), 2)), "the point is sampled), got 2"),
    "mask of many values": (with_scan(mask=np.arange(480).reshape(24, 20)), "got 2, 3, 4, ..."),
    "empty mask": (with_scan(mask=np.zeros((24, 20))), "for each sampled point, got only zeros"),
    "k-space of zeros": (with_scan(kspace=np.zeros((2, 3, 24, 20))), "is 1, got only zeros there"),
    "one slice, other maps": (
        with_scan(kspace=np.ones((2, 24, 20)), maps=np.ones((3, 24, 20))),
        "--maps must have the shape of --kspace, (2, 24, 20), got (3, 24, 20)",
    ),
    "one slice, other mask": (
        with_scan(kspace=np.ones((2, 9, 20)), maps=np.ones((2, 9, 20))),
        "--mask must have shape (Nx, Ny) = (9, 20), as --kspace has, got (24, 20)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_gives_one_line_and_leaves_nothing_behind(
    options: Callable[[Path], list[str]],
    message: str,
    tmp_path: Path,
    sense: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    arguments = [*options(tmp_path), "--output", str(output)]
    before = files(tmp_path)
    assert sense.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("sense: ") and said.err.count("\n") == 1
    assert message in said.err
    assert files(tmp_path) == before


def test_a_folder_that_cannot_be_made_is_bad_input(
    tmp_path: Path, sense: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    image = brain(tmp_path)
    assert sense.main(["--image", str(image), "--output", str(image / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sense: --output must be a folder") and said.count("\n") == 1


def test_a_folder_in_the_place_of_a_file_is_bad_input(
    tmp_path: Path, sense: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out" / "sense.png").mkdir(parents=True)
    assert sense.main(["--image", str(brain(tmp_path)), "--output", str(tmp_path / "out")]) == 2
    assert "sense.png must be a file, got a folder" in capsys.readouterr().err
    assert files(tmp_path / "out") == {"sense.png"}


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_the_units_of_a_scan_do_not_matter(scale: float, tmp_path: Path, sense: ModuleType) -> None:
    options = scan(tmp_path)
    for name in ("kspace", "maps"):
        np.save(tmp_path / f"{name}.npy", np.load(tmp_path / f"{name}.npy") * scale)
    assert sense.main([*options, "--iterations", "200", "--output", str(tmp_path / "out")]) == 0


def test_the_status_is_that_of_the_process(tmp_path: Path) -> None:
    done = run("--image", str(tmp_path / "no.npy"), "--output", str(tmp_path / "out"))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == f"sense: {tmp_path / 'no.npy'}: there is no such file\n"
    assert files(tmp_path) == set()


def test_too_little_memory_is_said_in_one_line(
    tmp_path: Path,
    sense: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sense, "sense_operator", lambda *_: torch.empty(2**60))
    output = tmp_path / "out"
    assert sense.main(["--image", str(brain(tmp_path)), "--output", str(output)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sense: there is not enough memory: give a smaller volume")
    assert said.count("\n") == 1 and not output.exists()


def test_another_error_of_torch_is_not_taken_for_too_little_memory(
    tmp_path: Path, sense: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sense, "sense_operator", lambda *_: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        sense.main(["--image", str(brain(tmp_path)), "--output", str(tmp_path / "out")])


def test_files_that_cannot_be_written_are_said_in_one_line(
    tmp_path: Path,
    sense: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(report: object, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sense_report.draw", full)
    output = tmp_path / "made" / "here"
    options = ["--image", str(brain(tmp_path)), "--iterations", "1", "--output", str(output)]
    assert sense.main(options) == 2
    said = capsys.readouterr().err
    assert said.startswith("sense: --output: the files could not be written to ")
    assert "No space left" in said and said.count("\n") == 1
    assert files(tmp_path) == {"brain.npy"}


@pytest.mark.parametrize("own", [True, False])
def test_the_table_says_what_was_reconstructed(
    own: bool, tmp_path: Path, sense: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--image", str(brain(tmp_path))] if own else []
    sense.main([*options, "--iterations", "1", "--output", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert ("3x24x20: given" if own else "the example of nibabel, a brain") in said
    assert "peak memory      increase" in said


def test_one_slice_is_reported_with_the_shape_that_was_given(
    tmp_path: Path, sense: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    options = scan(tmp_path)
    for name in ("kspace", "maps"):
        np.save(tmp_path / f"{name}.npy", np.load(tmp_path / f"{name}.npy")[:, 1])
    sense.main([*options, "--iterations", "1", "--output", str(tmp_path / "out")])
    assert "kspace.npy, C x Nx x Ny = 2 x 24 x 20; nothing" in capsys.readouterr().out


# What is imported before the script begins; at which audit events it is interrupted then.
MOMENTS = {
    (): [("import", "numpy"), ("import", "torch"), ("import", "torch.fx")],
    ("torch",): [("import", "torchlinops"), ("import", "linops_core")],
    ("torchlinops",): [
        ("open", "brain.npy"),
        ("os.mkdir", "made"),
        ("os.mkdir", "here"),
        ("open", "sense.json"),
        ("import", "matplotlib"),
        ("import", "matplotlib.pyplot"),
        ("open", "sense.png"),
        ("os.rename", "sense.json"),
    ],
}


@pytest.mark.parametrize("imported", MOMENTS)
def test_an_interrupt_ends_in_one_line_and_leaves_nothing_behind(
    imported: tuple[str, ...], tmp_path: Path, interrupted: Interrupted
) -> None:
    runs: list[tuple[str, str, list[str]]] = []
    for number, moment in enumerate(MOMENTS[imported]):
        (folder := tmp_path / str(number)).mkdir()
        output = str(folder / "made" / "here")
        options = ["--image", str(brain(folder)), "--iterations", "2", "--output", output]
        runs.append((*moment, options))
    result = interrupted("sense.py", imported, runs)
    assert result == [(130, "sense: interrupted\n")] * len(runs)
    for number in range(len(runs)):
        assert files(tmp_path / str(number)) == {"brain.npy"}


def test_an_interrupt_while_it_computes_ends_in_one_line(tmp_path: Path) -> None:
    output = tmp_path / "made" / "here"
    options = ["--image", str(brain(tmp_path)), "--iterations", "10000", "--output", str(output)]
    command = [sys.executable, "-u", str(EXAMPLES / "sense.py"), *options]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout and process.stderr
        said = ""
        while "CG whole" not in said:
            said += process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr.read() == "sense: interrupted\n"
        assert process.wait() == 130
    assert files(tmp_path) == {"brain.npy"}


def test_an_interrupt_of_a_rank_ends_in_one_line(interrupted: Interrupted) -> None:
    runs: list[tuple[str, str, list[str]]] = [
        ("import", "torch", []),
        ("import", "linops_core", []),
    ]
    result = interrupted("sense_ranks.py", (), runs)
    assert result == [(130, "sense_ranks: interrupted\n")] * 2


@pytest.mark.gpu
def test_the_demo_runs_on_a_gpu(tmp_path: Path, sense: ModuleType) -> None:
    options = ["--image", str(brain(tmp_path)), "--coils", "4", "--iterations", "5"]
    pytest.importorskip("matplotlib")  # a machine with GPUs may have only torch
    for devices in ("cuda:0", "cpu,cuda:0", "cuda:0,cpu"):
        assert sense.main([*options, "--devices", devices, "--output", str(tmp_path / "out")]) == 0
    assert torch.cuda.is_available()


@pytest.mark.usefixtures("sense")
def test_over_two_ranks_the_image_is_that_of_one_process(tmp_path: Path) -> None:
    options = ["--image", str(brain(tmp_path)), "--coils", "3", "--iterations", "5"]
    script = str(EXAMPLES / "sense_ranks.py")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    alone = tmp_path / "alone.npy"
    assert importlib.import_module("sense_ranks").main([*options, "--output", str(alone)]) == 0
    images = [np.load(alone)]
    is_thorough = settings.get_current_profile_name() == "thorough"
    for place in ["Nz", "C"] if is_thorough else ["Nz"]:
        output = tmp_path / f"{place}.npy"
        command = [sys.executable, *torchrun, script, *options, "--place", place]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "--output", str(output)], capture_output=True, text=True, env=env
        )
        assert done.returncode == 0, done.stderr
        assert f"wrote {output}" in done.stdout
        images.append(np.load(output))
    for image in images[1:]:
        np.testing.assert_allclose(image, images[0], atol=1e-4 * np.abs(images[0]).max())
