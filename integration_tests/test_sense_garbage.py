"""The demo's command line: whatever it is given, it works or says in one line what is wrong."""

import gzip
import importlib
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType

import nibabel
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

EXAMPLES = Path(__file__).parents[1] / "examples"
OPTIONS = [
    *("--coils", "--acceleration", "--noise", "--seed", "--iterations"),
    *("--batch", "--devices", "--weight", "--regularize", "--trajectory"),
]

tiles = st.sampled_from(["C=1", " C = 2", "Nz=1", "K=9", "Q=1"])
letters = st.text(st.sampled_from("CNxyzK=,012 -²٣_é.\n"), max_size=12)
batches = st.lists(tiles, max_size=3).map(",".join) | letters | st.text(max_size=8)
numbers = st.sampled_from(["1", "2", "100", "-1", "0", "nan", "inf", "1e400", "9" * 5000])
values = numbers | batches | st.sampled_from(["cpu", "cpu,cpu", "cpu:0", "C=1,Nz=1", "", "-", "--"])


@pytest.fixture(scope="module")
def sense() -> Iterator[ModuleType]:
    """The script, which does all but draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        module = importlib.import_module("sense")
        patch.setattr(module, "write_files", lambda report, folder: [])
        # nibabel logs to the stderr of its import: that of the first run, if there are two.
        for handler in logging.getLogger("nibabel.global").handlers:
            patch.setattr(handler, "stream", sys.stderr)
        yield module
    for name in [name for name in sys.modules if name.startswith(("sense", "demo_"))]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("garbage")


def run(sense: ModuleType, *arguments: str) -> tuple[int, str]:
    """Return the status of the process, and what it says on standard error."""
    error = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(error):
        try:
            status = sense.main(arguments)
        except SystemExit as stop:
            assert isinstance(stop.code, int)
            status = stop.code
    return status, error.getvalue()


@given(batches)
@example("C=" + "9" * 5000)
@example("C=2, Nz=4")
def test_tile_sizes_are_read_as_written_or_refused(sense: ModuleType, text: str) -> None:
    try:
        sizes = sense.parse_batch(text)
    except sense.BadInput as error:
        assert str(error).startswith("--batch must look like C=2,Nz=4, each name once, got ")
        return
    assert len(sizes) == text.count(",") + 1
    assert all(dim.isidentifier() and size >= 0 for dim, size in sizes.items())
    assert sense.parse_batch(",".join(f"{dim}={size}" for dim, size in sizes.items())) == sizes


@given(st.dictionaries(st.sampled_from(OPTIONS), values, max_size=3))
@example({"--batch": "C=" + "9" * 5000})
@example({"--batch": "Q=1"})
@example({"--acceleration": "100", "--seed": "0"})
def test_the_option_that_is_wrong_is_named(
    sense: ModuleType, folder: Path, options: dict[str, str]
) -> None:
    image = folder / "image.npy"
    np.save(image, np.random.default_rng(0).random((2, 8, 8)))
    given_options = [part for option in options.items() for part in option]
    few = [] if "--iterations" in options else ["--iterations", "1"]
    where = ["--image", str(image), "--output", str(folder / "out")]
    status, said = run(sense, *few, *where, *given_options)
    if status in (0, 1):
        return
    assert status == 2
    *usage, line = said.strip("\n").split("\n")
    assert all(text.startswith(("usage: sense ", " ")) for text in usage)
    assert line.startswith("sense: ")
    assert any(option in line for option in options), line


def an_archive() -> bytes:
    file = io.BytesIO()
    np.savez(file, image=np.ones((2, 8, 8)))
    return file.getvalue()


def an_array(*shape: int) -> bytes:
    """Return a file whose header says that the 2 x 8 x 8 numbers in it are of some shape."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + np.random.default_rng(0).random(128).tobytes()


def a_volume() -> bytes:
    values = np.random.default_rng(0).random((8, 8, 2))
    volume = nibabel.Nifti1Image(values, np.eye(4))  # type: ignore[no-untyped-call]
    return bytes(volume.to_bytes())


@given(
    st.sampled_from([("a.npy", an_array(2, 8, 8)), ("a.npy", an_archive()), ("a.nii", a_volume())]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    st.floats(0, 1) | st.just(1.0),
    st.booleans(),
)
@example(("a.npy", an_array(10**13)), [], 1.0, False)
@example(("a.npy", an_array(10**22)), [], 1.0, False)
@example(("a.npy", b"PK\3\4 and no archive"), [], 1.0, False)
@example(("a.npy", an_archive()), [], 1.0, False)
def test_a_file_that_is_wrong_is_named(
    sense: ModuleType,
    folder: Path,
    file: tuple[str, bytes],
    edits: list[tuple[float, int]],
    keep: float,
    is_compressed: bool,
) -> None:
    name, content = file
    garbled = bytearray(content)
    for place, value in edits:
        garbled[min(int(place * len(garbled)), len(garbled) - 1)] = value
    whole = bytes(garbled[: int(keep * len(garbled))])
    path = folder / (f"{name}.gz" if is_compressed else name)
    path.write_bytes(gzip.compress(whole) if is_compressed else whole)
    output = ["--output", str(folder / "out")]
    status, said = run(sense, "--iterations", "1", "--image", str(path), *output)
    if status in (0, 1):
        return
    assert status == 2
    assert said.startswith(f"sense: {path}: ") and said.count("\n") == 1, said
