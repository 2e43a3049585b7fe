from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linops_imaging.io import read_cfl, write_cfl

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5).filter(lambda s: s[-1] > 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes, st.integers(0, 99), st.sampled_from(["", ".cfl", ".hdr"]))
def test_what_is_written_is_read(tmp_path: Path, shape: list[int], seed: int, suffix: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    array = torch.randn(shape, dtype=torch.complex64, generator=generator)
    write_cfl(tmp_path / f"a.b{suffix}", array.mT.contiguous().mT if len(shape) > 1 else array)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.b.cfl", "a.b.hdr"]
    assert torch.equal(read_cfl(tmp_path / f"a.b{suffix}"), array)


def test_the_files_are_those_of_bart(tmp_path: Path) -> None:
    write_cfl(tmp_path / "x", torch.tensor([[1 + 2j, 3j], [4, 5]]).conj())
    header = (tmp_path / "x.hdr").read_text().splitlines()
    assert header == ["# Dimensions", "2 2" + 14 * " 1"]
    written = np.fromfile(tmp_path / "x.cfl", "<c8")
    assert written.tolist() == [1 - 2j, 4, -3j, 5]  # the first dimension is the fastest
    (tmp_path / "x.hdr").write_text("# Dimensions\n1 4 1 1 \n# Command\nphantom -k\n")
    result = read_cfl(tmp_path / "x")
    assert result.shape == (1, 4) and result.flatten().tolist() == written.tolist()


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ("", 'must have a line "# Dimensions"'),
        ("# Dimensions", 'must have a line "# Dimensions" followed by a line of integers'),
        ("# Dimensions\n2 -2\n", "followed by a line of integers"),
        ("# Dimensions\n2 2.5\n", "followed by a line of integers"),
        ("# Dimensions\n0 2\n", "at most 16 positive dimensions"),
        ("# Dimensions\n" + 16 * "1 " + "2", "at most 16 positive dimensions"),
        ("# Dimensions\n3 1\n", r"must have 24 bytes for dimensions \[3, 1\], got 16"),
        ("# Dimensions\n" + 16 * "99999999999 ", "bytes for dimensions .*, got 16"),
    ],
)
def test_bad_headers_are_refused(tmp_path: Path, header: str, match: str) -> None:
    write_cfl(tmp_path / "x", torch.zeros(2))
    (tmp_path / "x.hdr").write_text(header)
    with pytest.raises(ValueError, match=f"read_cfl: .*{match}"):
        read_cfl(tmp_path / "x")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.binary(max_size=40))
def test_garbage_is_refused_or_read(tmp_path: Path, header: bytes, data: bytes) -> None:
    (tmp_path / "x.hdr").write_bytes(b"# Dimensions\n" + header)
    (tmp_path / "x.cfl").write_bytes(data)
    try:
        assert read_cfl(tmp_path / "x").numel() * 8 == len(data)
    except ValueError as error:
        assert str(error).startswith("read_cfl: x.")


def test_lazily_conjugated_and_negated_tensors_are_written(tmp_path: Path) -> None:
    array = torch.tensor([1 + 2j, 3 - 4j])
    for view in (array.conj(), array.conj().imag, torch._neg_view(array)):
        write_cfl(tmp_path / "x", view)
        assert torch.equal(read_cfl(tmp_path / "x"), view.to(torch.complex64))


def test_more_dimensions_of_size_one_are_read(tmp_path: Path) -> None:
    write_cfl(tmp_path / "x", torch.ones(2, 3))
    (tmp_path / "x.hdr").write_text("# Dimensions\n2 3" + 15 * " 1")
    assert read_cfl(tmp_path / "x").shape == (2, 3)


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_cfl(tmp_path / "no")
    with pytest.raises(FileNotFoundError, match=r"no/x.cfl'$"):
        write_cfl(tmp_path / "no" / "x", torch.ones(1))
    with pytest.raises(TypeError, match=r"write_cfl: the array must be a torch\.Tensor, got"):
        write_cfl(tmp_path / "x", [1.0])  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"write_cfl: the array must be dense, got .*; make it so by .to"
    ):
        write_cfl(tmp_path / "x", torch.eye(3).to_sparse())
    with pytest.raises(
        ValueError, match="write_cfl: the array must have values, got a tensor on the"
    ):
        write_cfl(tmp_path / "x", torch.zeros(2, device="meta"))
    for array in (torch.zeros(0), torch.zeros((1,) * 17)):
        with pytest.raises(ValueError, match="must have elements and at most 16 axes, got shape"):
            write_cfl(tmp_path / "x", array)


def test_a_number_is_an_array_of_one(tmp_path: Path) -> None:
    write_cfl(tmp_path / "a", torch.tensor(1 + 2j))
    assert read_cfl(tmp_path / "a").tolist() == [1 + 2j]


def test_an_interrupt_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = torch.ones(2, 3, dtype=torch.complex64)
    write_cfl(tmp_path / "a", old)
    (tmp_path / "a.cfl").chmod(0o640)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for owner, name in ((np, "ascontiguousarray"), (Path, "write_text")):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(owner, name, interrupted)
            write_cfl(tmp_path / "a", torch.zeros(4, 2))
        assert torch.equal(read_cfl(tmp_path / "a"), old)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.cfl", "a.hdr"]
    write_cfl(tmp_path / "a", 2 * old)
    assert torch.equal(read_cfl(tmp_path / "a"), 2 * old)
    assert (tmp_path / "a.cfl").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize(
    ("has_old", "step"), [(True, i) for i in range(4)] + [(False, 0), (False, 1)]
)
def test_an_interrupt_between_two_files_mixes_no_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_old: bool, step: int, is_made: bool
) -> None:
    """Both arrays have as many bytes, so only the header tells them apart."""
    old, new = torch.ones(2, 3, dtype=torch.complex64), torch.zeros(3, 2, dtype=torch.complex64)
    if has_old:
        write_cfl(tmp_path / "a", old)
    replace, n_made = Path.replace, 0

    def interrupted(path: Path, target: Path) -> None:
        nonlocal n_made
        is_now, n_made = n_made == step, n_made + 1
        if is_made or not is_now:
            replace(path, target)
        if all((tmp_path / f"a{suffix}").exists() for suffix in (".cfl", ".hdr")):
            found = read_cfl(tmp_path / "a")  # as if the process were killed here
            assert any(torch.equal(found, array) for array in (old, new))
        if is_now:
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_cfl(tmp_path / "a", new)
    is_complete = is_made and step == (3 if has_old else 1)
    names = ["a.cfl", "a.hdr"] if has_old or is_complete else []
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    if names:
        assert torch.equal(read_cfl(tmp_path / "a"), new if is_complete else old)


def test_links_to_files_stay_links(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for suffix in (".cfl", ".hdr"):
        (tmp_path / f"a{suffix}").symlink_to(tmp_path / "other" / f"b{suffix}")
    write_cfl(tmp_path / "a", torch.ones(2))
    assert (tmp_path / "a.cfl").is_symlink()
    assert torch.equal(read_cfl(tmp_path / "other" / "b"), torch.ones(2, dtype=torch.complex64))
    assert len([*(tmp_path / "other").iterdir()]) == 2


def test_nothing_replaces_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.cfl").mkdir()
    with pytest.raises(OSError, match=r"a\.cfl"):
        write_cfl(tmp_path / "a", torch.ones(2))
    assert [path.name for path in tmp_path.iterdir()] == ["a.cfl"]
