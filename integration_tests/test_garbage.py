"""Whatever is handed to parsers, readers and constructors: only documented errors come out."""

import contextlib
import inspect
import io
import os
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import linops_core
import linops_multigpu
import linops_split
import memmap
import nameddim
from linops_core import Dense, Diagonal, NamedLinop, Rearrange
from memmap.__main__ import main as memmap_command

DOCUMENTED = (ValueError, TypeError)  # SplitError and NamedDimensionError are ValueErrors

letters = st.text(st.sampled_from("NxyKA10()., ->_+*é\n"), max_size=12)
texts = letters | st.text(max_size=8)
numbers = st.integers(-3, 5) | st.floats() | st.booleans() | st.complex_numbers()
tensors = st.sampled_from(
    [
        torch.rand(2, 3),
        torch.rand(3, dtype=torch.float64),
        torch.zeros(0),
        torch.tensor(2),
        torch.tensor([1, -7]),
        torch.ones(2, 2, dtype=torch.complex64),
        torch.tensor([True, False]),
        torch.ones(2, dtype=torch.bfloat16),
        torch.empty(2, device="meta"),
    ]
)
operators = st.builds(lambda: Diagonal(torch.ones(2), ("N",)))
scalars = st.none() | texts | numbers | tensors | operators
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(letters, inner, max_size=2)
    ),
    max_leaves=5,
)


@given(texts)
def test_dimension_strings(text: str) -> None:
    for parse in (nameddim.Dim, nameddim.ND.infer):
        try:
            result = parse(text)
        except DOCUMENTED:
            continue
        assert nameddim.ND.infer(result) == result


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_shapes(ishape: list[str], oshape: list[str]) -> None:
    try:
        shape = nameddim.NS(ishape, oshape)
    except DOCUMENTED:
        return
    assert shape.H.H == shape
    assert hash(shape) == hash(nameddim.NS(ishape, oshape))


@given(texts, tensors)
@example("MN,N->M", torch.rand(2, 3))
def test_einsum_strings(text: str, weight: torch.Tensor) -> None:
    try:
        linop = Dense.from_einstr(weight, text)
    except DOCUMENTED:
        return
    assert set(linop.ishape + linop.oshape) <= linop.dims | {"..."}


@given(texts, texts, st.lists(letters, max_size=3), st.lists(letters, max_size=3))
def test_rearrange_patterns(
    ipattern: str, opattern: str, ishape: list[str], oshape: list[str]
) -> None:
    try:
        linop = Rearrange(ipattern, opattern, ishape, oshape)
    except DOCUMENTED:
        return
    assert linop.H.H.ishape == linop.ishape


# What users make; the others are made of these, by functions.
CONSTRUCTORS: list[Callable[..., object]] = [
    *(nameddim.ND, nameddim.NS, nameddim.AnyDim),
    *(linops_core.Identity, linops_core.Zero, linops_core.Scalar, Dense, Diagonal),
    *(linops_core.FFT, linops_core.Chain, linops_core.Add, linops_core.Concat, linops_core.Stack),
    *(Rearrange, linops_core.Repeat, linops_core.SumReduce, linops_core.PadLast, linops_core.Crop),
    *(linops_core.PadDim, linops_core.Truncate, linops_core.Sampling, linops_core.ArrayToBlocks),
    *(linops_core.BlocksToArray, linops_core.Interpolate, linops_core.Convolution),
    *(linops_core.SimpleLinop, linops_split.split_linop, linops_split.batch_linop),
    *(linops_multigpu.ToDevice, linops_multigpu.DeviceSpec, linops_multigpu.BatchSpec),
    *(linops_multigpu.create_batched_linop, memmap.footprint, memmap.overlaps),
    *(memmap.union_nbytes, memmap.overlapping_pairs, memmap.view_of, memmap.ModuleMemoryMap),
]


@pytest.mark.parametrize("make", CONSTRUCTORS, ids=lambda made: made.__qualname__)
@settings(max_examples=12)
@given(data=st.data())
def test_constructors_and_functions(make: Callable[..., object], data: st.DataObject) -> None:
    parameters = [
        parameter
        for parameter in inspect.signature(make).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    wanted = [p for p in parameters if p.default is p.empty or data.draw(st.booleans())]
    given_values = {p.name: data.draw(anything, label=p.name) for p in wanted}
    positional = [
        data.draw(anything)
        for p in inspect.signature(make).parameters.values()
        if p.kind is p.VAR_POSITIONAL
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    try:
        made = make(*positional, **given_values)
    except DOCUMENTED:
        return
    assert isinstance(repr(made), str)
    if isinstance(made, NamedLinop):
        assert made.ishape is not None


class Opener:
    """What would write a file if it were unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return open, (str(MARKER), "w")


MARKER = Path(tempfile.gettempdir(), f"executed by a test, {os.getpid()}")


def checkpoint(has_checksums: bool = True) -> bytes:
    """Return a small checkpoint. Without checksums, damage reaches the reader of the pickle."""
    file = io.BytesIO()
    value = {"weight": torch.rand(3, 4), "views": [torch.rand(6)[1:4]], "evil": Opener()}
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(has_checksums)
    try:
        torch.save(value, file)
    finally:
        torch.serialization.set_crc32_options(before)
    return file.getvalue()


@given(st.binary(max_size=200), st.sampled_from([".pt", ".safetensors", ".bin"]))
def test_files_of_random_bytes(content: bytes, suffix: str) -> None:
    refused_or_reported(content, suffix)


@given(st.data(), st.booleans())
def test_damaged_checkpoints(data: st.DataObject, has_checksums: bool) -> None:
    content = bytearray(checkpoint(has_checksums))
    for _ in range(data.draw(st.integers(0, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    refused_or_reported(bytes(content[:cut]), ".pt")


@given(st.binary(max_size=80))
def test_pickles_of_random_bytes(pickled: bytes) -> None:
    refused_or_reported(archive(pickled), ".pt")


def archive(pickled: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        made.writestr("archive/data.pkl", pickled)
        made.writestr("archive/version", "3\n")
    return file.getvalue()


def refused_or_reported(content: bytes, suffix: str) -> None:
    """Check that the command line reports on a file, or says in one line why not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"file{suffix}")
        path.write_bytes(content)
        status, error = memmap_says("report", str(path))
        assert (status, error.count("\n")) in ((0, 0), (2, 1))
        assert path.read_bytes() == content


def memmap_says(*arguments: str) -> tuple[int, str]:
    """Return the status of the command, and what it says on standard error."""
    error = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(error):
        try:
            status = memmap_command(arguments)
        except SystemExit as stop:
            assert isinstance(stop.code, int)
            status = stop.code
    assert not MARKER.exists()
    return status, error.getvalue()


FILES = {
    "good.pt": checkpoint(),
    "unchecked.pt": checkpoint(has_checksums=False),
    "cut.pt": checkpoint()[:-40],
    "bomb.pt": archive(b"N" * 10_000_000 + b".", zipfile.ZIP_DEFLATED),
    "empty": b"",
}
names = st.text(st.characters(exclude_categories=["C"], exclude_characters="/h"), max_size=4)
words = st.sampled_from(["report", "--json", "--picture", "map.svg", "folder", "none", *FILES, "-"])


@given(st.lists(words | names, max_size=4))
@example(["good.pt"])
@example(["good.pt", "--json", "--picture", "map.svg"])
@example(["good.pt", "--picture", "good.pt"])
@example(["good.pt", "--picture", "folder"])
@example(["bomb.pt"])
def test_arguments_of_the_command_line(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("folder").mkdir()
        for name, content in FILES.items():
            Path(name).write_bytes(content)
        status, error = memmap_says("report", *words)
        *usage, line = error.strip("\n").split("\n")
        assert status in (0, 2) and bool(line) == (status == 2)
        if status == 2:
            assert line.startswith(("memmap: ", "memmap report: "))
            assert bool(usage) == (": error: " in line[:22])
        assert Path("good.pt").read_bytes() == FILES["good.pt"] or words[0] != "good.pt"
