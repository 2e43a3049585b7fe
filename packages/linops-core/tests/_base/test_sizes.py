from collections import UserDict
from collections.abc import Callable

import numpy as np
import pytest
import torch

from linops_core import (
    FFT,
    ArrayToBlocks,
    BlocksToArray,
    Concat,
    Convolution,
    Crop,
    Diagonal,
    Interpolate,
    PadDim,
    PadLast,
    Sampling,
    Scalar,
    Stack,
    Zero,
)
from linops_core._base._sizes import by_dimension, input_lengths, input_space, per_axis
from linops_core.testing import dottest
from nameddim import ND


def test_dimensions_may_be_strings_and_the_mapping_of_any_kind() -> None:
    assert by_dimension("A", UserDict({"N": 2})) == {ND("N"): 2}
    assert by_dimension("A", None) == {}


@pytest.mark.parametrize("sizes", [2, "N", [("N", 2)], torch.ones(2)])
def test_what_is_no_mapping_is_refused(sizes: object) -> None:
    with pytest.raises(TypeError, match="A: n_repeats must be a mapping of dimension to size, got"):
        by_dimension("A", sizes, "n_repeats")  # type: ignore[arg-type]


def test_one_for_each_axis_may_be_any_sequence() -> None:
    assert per_axis("A", "stride", [1, 2]) == per_axis("A", "stride", torch.Size([1, 2])) == (1, 2)
    assert per_axis("A", "stride", np.array([1, 2])) == (1, 2)  # type: ignore[arg-type]


POINT, NUMBERS = torch.zeros(1, 1), (Scalar(2.0, ("N",)), Scalar(3.0, ("N",)))
TAKING: dict[str, Callable[[object], object]] = {
    "Sampling: input_size": lambda n: Sampling([torch.zeros(1, dtype=torch.int64)], n),  # type: ignore[arg-type]
    "Interpolate: grid_size": lambda n: Interpolate(POINT, n),  # type: ignore[arg-type]
    "Convolution: grid_size": lambda n: Convolution(torch.ones(3), grid_size=n),  # type: ignore[arg-type]
    "ArrayToBlocks: block_size": lambda n: ArrayToBlocks([4], n, [1]),  # type: ignore[arg-type]
    "BlocksToArray: stride": lambda n: BlocksToArray([4], [2], n),  # type: ignore[arg-type]
    "PadLast: a size": lambda n: PadLast([4], n),  # type: ignore[arg-type]
    "Crop: a size": lambda n: Crop(n, [4]),  # type: ignore[arg-type]
    "Concat: isizes": lambda n: Concat(*NUMBERS, idim="N", odim="N", isizes=n, osizes=n),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(
    ("message", "build"),
    [
        ("Concat: idim", lambda dim: Concat(*NUMBERS, idim=dim, odim="N", isizes=[1, 1])),
        ("Concat: odim", lambda dim: Concat(*NUMBERS, idim="N", odim=dim, osizes=[1, 1])),
        (
            "Stack: the dimension of odim_and_idx",
            lambda dim: Stack(*NUMBERS, odim_and_idx=(dim, 0)),
        ),
        ("PadDim: dim", lambda dim: PadDim(dim, 1, 2, ("N",), ("M",))),
        ("Zero: a key of sizes", lambda dim: Zero(("N",), sizes={dim: 2})),
    ],
)
def test_a_tuple_of_one_dimension_is_refused_where_one_dimension_is_asked_for(
    message: str, build: Callable[[object], object]
) -> None:
    with pytest.raises(
        TypeError, match=rf"{message} must be one dimension, a string, got \('N',\)"
    ):
        build(("N",))


@pytest.mark.parametrize("name", TAKING)
def test_one_number_for_all_axes_is_refused(name: str) -> None:
    for given in (4, "4", {"N": 4}):
        with pytest.raises(TypeError, match=f"{name} must be a sequence, one for each axis, got"):
            TAKING[name](given)


@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("size", [2.5, -1, "2", None])
def test_what_is_no_size_is_refused(name: str, size: object) -> None:
    with pytest.raises(ValueError, match=rf"{name.split(':')[0]}: .* must .*got"):
        TAKING[name]([size, 2] if name.startswith("Concat") else [size])


def test_lengths_are_those_known_or_given() -> None:
    assert input_lengths(FFT(1), {"Nx": 3}) == input_lengths(FFT(1), {"Nx": 3}, of_run=[]) == [3]
    assert input_lengths(FFT(1), {"Nx": 3}, of_run=[2, 4]) == [2, 4, 3]
    assert input_lengths(FFT(1), {"...": 5, "Nx": 3}) == [5, 3]
    assert input_lengths(PadLast([4], [2]), None) == [2]


@pytest.mark.parametrize("sizes", [None, {"Nx": -1}, {"Nx": 1.5}, {"Nx": None}])
def test_lengths_that_nobody_knows_are_refused(sizes: dict[str, int] | None) -> None:
    rule = r"FFT .*: the size of Nx must be known to the operator or given in sizes, as an integer"
    with pytest.raises(ValueError, match=rf"{rule} of at least 0, got"):
        input_lengths(FFT(1), sizes)


def test_the_space_of_inputs_follows_from_sizes_or_from_a_tensor() -> None:
    A = Diagonal(torch.ones(3, dtype=torch.float32), ("...", "N"))
    assert input_space(A) == ([3], torch.float32, torch.device("cpu"))
    assert input_space(A, {"...": 2}, dtype=torch.float64)[:2] == ([2, 3], torch.float64)
    like = torch.ones(4, 3, dtype=torch.complex64)
    assert input_space(A, like=like) == ([4, 3], torch.complex64, torch.device("cpu"))
    assert input_space(A, like=like, device="meta").device == "meta"
    assert input_space(FFT(1), {"Nx": 2}) == ([2], torch.float64, None)
    with pytest.raises(ValueError, match=r"Diagonal .*: sizes and like must not be given together"):
        input_space(A, {"N": 3}, like)
    with pytest.raises(TypeError, match=r"Diagonal .*: like must be a torch.Tensor, got <class"):
        input_space(A, like=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Diagonal: N must have size 3, got 2"):
        input_space(A, like=torch.ones(2))


def test_every_function_takes_sizes_or_a_tensor_like_the_input() -> None:
    A = FFT(1, norm="backward")
    like = torch.empty(4, dtype=torch.complex64)
    for given in ({"sizes": {"Nx": 4}}, {"like": like}):
        assert A.to_dense(**given).shape == (4, 4)
        assert A.to_scipy(**given).shape == (4, 4)
        dottest(A, **given)
    assert A.to_dense(like=like).dtype is A.to_dense(sizes={"Nx": 4}, dtype=like.dtype).dtype
    assert str(A.to_scipy(like=like).dtype) == "complex64"
