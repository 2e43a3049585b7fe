"""Conjugate gradients that are ended after a step, and go on from a file to the same bits."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_solvers import Record, Step, conjugate_gradients


class Ended(BaseException):
    """The end of a process, in place of a real one."""


def end_at(iteration: int) -> Any:
    def callback(step: Step) -> None:
        if step.iteration == iteration:
            raise Ended

    return callback


def system(
    n: int, batch: int, dtype: torch.dtype, scale: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return positive definite matrices, right-hand sides, and the inverse of the diagonals."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(batch, n, n, dtype=dtype, generator=generator)
    matrix = (half.mH @ half + 0.1 * torch.eye(n, dtype=dtype)) * scale
    y = torch.randn(batch, n, dtype=dtype, generator=generator)
    y[0] *= seed % 3  # one of zeros
    return matrix, y, 1 / matrix.diagonal(dim1=-2, dim2=-1).real


@settings(max_examples=settings().max_examples // 2)
@given(
    st.integers(1, 6),
    st.integers(0, 3),
    st.sampled_from([torch.float32, torch.float64, torch.complex128, torch.float16]),
    st.sampled_from([1.0, 1e-30, 1e7]),
    st.integers(0, 2**16),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([(1e-3, 1e-5), (1e-6, 0.0), (0.0, 0.0)]),
)
def test_it_goes_on_from_every_step_to_the_same_bits(
    n: int,
    n_batch: int,
    dtype: torch.dtype,
    scale: float,
    seed: int,
    is_guessed: bool,
    is_preconditioned: bool,
    every: int,
    tolerances: tuple[float, float],
) -> None:
    if dtype == torch.float16:
        scale = 1.0
    wide = torch.float32 if dtype == torch.float16 else dtype
    matrix, y, inverse = system(n, max(n_batch, 1), wide, scale, seed)
    if not n_batch:
        matrix, y, inverse = matrix[0], y[0], inverse[0]
    y = y.to(dtype)

    def A(x: Tensor) -> Tensor:
        return (matrix @ x.to(wide).unsqueeze(-1)).squeeze(-1).to(dtype)

    options: dict[str, Any] = {
        "x0": torch.ones_like(y) if is_guessed else None,
        "batch_dims": 1 if n_batch else 0,
        "preconditioner": (lambda x: (inverse * x.to(wide)).to(dtype))
        if is_preconditioned and dtype != torch.float16
        else None,
        "max_num_iters": 7,
        "gtol": tolerances[0],
        "ltol": tolerances[1],
    }

    def solve(**more: Any) -> Tensor | str:
        try:
            return conjugate_gradients(A, y, **options, **more)
        except (ValueError, ArithmeticError) as error:
            return str(error)

    whole = Record()
    wanted = solve(callback=whole)
    for iteration in range(1, whole.iterations + 1):
        with tempfile.TemporaryDirectory() as folder:
            files = {"checkpoint": Path(folder) / "cg.pt", "checkpoint_every": every}
            with pytest.raises(Ended):
                solve(callback=end_at(iteration), **files)
            steps: list[Step] = []
            result = solve(callback=steps.append, **files)
            if isinstance(result, str) or isinstance(wanted, str):
                assert result == wanted
                continue
            assert torch.equal(result, wanted)
            assert steps[-1].reasons == whole.reasons
            is_last = iteration == whole.iterations
            saved = iteration if is_last else iteration - iteration % every
            assert [s.iteration for s in steps] == [*range(max(1, saved), whole.iterations + 1)]
            assert steps[-1].values == {name: vs[-1] for name, vs in whole.values.items()}
            again = Record()  # of a solve that is done
            assert torch.equal(solve(callback=again, **files), wanted)  # type: ignore[arg-type]
            assert again.iterations == whole.iterations
            assert len(again.values["objective"]) == 1


MATRIX, Y, _ = (each[0] for each in system(5, 1, torch.float64, 1.0, 1))


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def ended(folder: Path, iteration: int = 3, **options: Any) -> Path:
    """Return the file of a solve that was ended."""
    file = folder / "cg.pt"
    more = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": 5, "checkpoint_every": 1, **options}
    with pytest.raises(Ended):
        conjugate_gradients(MATRIX.mv, Y, checkpoint=file, callback=end_at(iteration), **more)
    return file


def resumed(file: Path, **options: Any) -> list[int]:
    """Return the numbers of the steps of which a callback is told, having checked the bits."""
    steps: list[int] = []
    more: dict[str, Any] = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": 5, **options}
    x = conjugate_gradients(
        MATRIX.mv, Y, checkpoint=file, callback=lambda step: steps.append(step.iteration), **more
    )
    assert torch.equal(x, conjugate_gradients(MATRIX.mv, Y, **more))
    return steps


def test_the_older_generation_is_read_where_the_newest_was_not_put_in_its_place(
    tmp_path: Path,
) -> None:
    file = ended(tmp_path)
    assert files_of(tmp_path) == {"cg.pt", "cg.pt.previous"}
    file.unlink()
    assert resumed(file) == [2, 3, 4, 5]
    assert files_of(tmp_path) == {"cg.pt", "cg.pt.previous"}


@pytest.mark.parametrize("function", ["os.fsync", "pathlib.Path.replace", "torch.save"])
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_an_interrupt_of_the_writing_leaves_a_state(
    function: str, is_after: bool, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other file."""
    file, done = ended(tmp_path), [0]
    home, _, name = function.rpartition(".")
    call = vars({"os": os, "pathlib.Path": Path, "torch": torch}[home])[name]

    def interrupted(*arguments: Any) -> Any:
        done[0] += 1
        if done[0] == number and not is_after:
            raise KeyboardInterrupt
        result = call(*arguments)
        if done[0] == number:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(function, interrupted)
        resumed(file, checkpoint_every=1)
    assert files_of(tmp_path) <= {"cg.pt", "cg.pt.previous"}
    assert min(resumed(file)) >= 3
    assert files_of(tmp_path) == {"cg.pt", "cg.pt.previous"}


def test_a_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    link, file = tmp_path / "cg.pt", tmp_path / "other" / "state.pt"
    file.parent.mkdir()
    link.symlink_to(file)
    ended(tmp_path)
    for path in file.parent.iterdir():
        path.chmod(0o600)
    assert resumed(link)
    assert link.is_symlink() and files_of(tmp_path) == {"cg.pt", "other"}
    modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
    assert modes == {"state.pt": 0o600, "state.pt.previous": 0o600}


@pytest.mark.parametrize("content", [b"", b"half of a fi", None])
def test_what_is_no_checkpoint_is_refused_and_stays(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "cg.pt"
    if content is None:
        torch.save({"weight": torch.ones(2)}, file)
        content = file.read_bytes()
    else:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=r"cg\.pt must be a checkpoint of .* delete .*cg\.pt"):
        resumed(file)
    assert file.read_bytes() == content


def solve_other(file: Path, name: str) -> None:
    other = MATRIX.clone()
    other[0, 0] += 1e-6
    options: dict[str, Any] = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": 5}
    y, linop = Y.clone(), MATRIX
    if name == "y":
        y[0] += 1e-9
    elif name == "-y":
        y = -y
    elif name == "2 y":
        y = 2 * y
    elif name == "A":
        linop = other
    elif name == "shape":
        y, linop = Y[:4], MATRIX[:4, :4]
    elif name == "dtype":
        y, linop = Y.float(), MATRIX.float()
    elif name == "x0":
        options["x0"] = torch.ones(5, dtype=torch.float64)
    elif name == "the preconditioner":
        options["preconditioner"] = lambda x: x
    else:
        options[name] = 4
    conjugate_gradients(linop.mv, y, checkpoint=file, **options)


@pytest.mark.parametrize(
    "name",
    "y;-y;2 y;A;shape;dtype;x0;the preconditioner;gtol;ltol;max_num_iters".split(";"),
)
def test_a_checkpoint_of_another_problem_is_refused_and_stays(tmp_path: Path, name: str) -> None:
    file = ended(tmp_path)
    content = file.read_bytes()
    said = f"(the scale of )?{name[-1] if name in ('-y', '2 y') else name}"
    words = rf"must be of this problem, got one that differs in {said}.*; delete .*cg\.pt and cg"
    with pytest.raises(ValueError, match=words):
        solve_other(file, name)
    assert file.read_bytes() == content
    assert resumed(file) == [3, 4, 5]


def test_one_system_of_many_that_is_another_one_is_refused(tmp_path: Path) -> None:
    y = torch.tensor([[1.0, 2.0], [1e-20, 1e-20]], dtype=torch.float64)

    def solve(y: Tensor) -> Tensor:
        return conjugate_gradients(lambda x: 2 * x, y, batch_dims=1, checkpoint=tmp_path / "cg")

    assert torch.equal(solve(y), y / 2)
    y[1, 1] = 2e-20
    with pytest.raises(ValueError, match=r"must be of this problem, got .* differs in .*y"):
        solve(y)


def test_gradients_through_the_steps_are_refused_and_implicit_ones_are_right(
    tmp_path: Path,
) -> None:
    file, y = ended(tmp_path), Y.clone().requires_grad_()
    options: dict[str, Any] = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": 5, "checkpoint": file}
    with pytest.raises(ValueError, match=r"gradients flow through the steps.* implicit=True"):
        conjugate_gradients(MATRIX.mv, y, **options)
    results = [
        torch.autograd.grad(conjugate_gradients(MATRIX.mv, y, implicit=True, **o).sum(), y)[0]
        for o in (options, {**options, "checkpoint": None})
    ]
    assert torch.equal(*results)


def test_options_are_checked(tmp_path: Path) -> None:
    for bad, error, words in [
        ({"checkpoint": 3}, TypeError, "checkpoint must be the path"),
        ({"checkpoint": tmp_path / "cg", "checkpoint_every": 0}, ValueError, "at least 1"),
        ({"checkpoint": tmp_path / "no" / "cg"}, ValueError, "the folder of .* must exist"),
    ]:
        with pytest.raises(error, match=words):
            conjugate_gradients(MATRIX.mv, Y, **bad)  # type: ignore[arg-type]
