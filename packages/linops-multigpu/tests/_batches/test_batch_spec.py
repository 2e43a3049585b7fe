import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from linops_multigpu import BatchSpec, DeviceSpec
from nameddim import ND

names = st.sampled_from(["cpu", "meta", "cuda:0", "cuda:1"])
sizes = st.dictionaries(st.sampled_from(["C", "N", "Nx12"]), st.integers(1, 4))


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw the same devices twice: as nested lists of names, and in some other form."""
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, max_side=3))
    texts = np.array(draw(st.lists(names, min_size=27, max_size=27))[: int(np.prod(shape))])
    texts = texts.reshape(shape)
    devices = np.array([torch.device(name) for name in texts.flat], dtype=object).reshape(shape)
    specs = np.empty(shape, dtype=object)
    for position, name in np.ndenumerate(texts):
        specs[position] = DeviceSpec(str(name))
    forms = [texts, devices, devices.tolist(), _tuples(texts.tolist()), specs, specs.tolist()]
    return texts.tolist(), draw(st.sampled_from(forms))


def _tuples(nested: Any) -> Any:
    return tuple(map(_tuples, nested)) if isinstance(nested, list) else nested


@given(sizes, matrices(), names)
def test_specs_that_say_the_same_are_equal_and_hash_alike(
    batch_sizes: dict[str, int], matrix: tuple[Any, Any], base: str
) -> None:
    one = BatchSpec(batch_sizes, matrix[0], base)
    other = BatchSpec(
        {ND.infer(k): n for k, n in batch_sizes.items()}, matrix[1], torch.device(base)
    )
    assert one == other and hash(one) == hash(other)
    for duplicate in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert duplicate == one and hash(duplicate) == hash(one)
        assert list(duplicate.batch_sizes.items()) == list(one.batch_sizes.items())


@given(matrices())
def test_the_matrix_has_the_shape_and_the_devices_that_were_given(matrix: tuple[Any, Any]) -> None:
    result = BatchSpec({}, matrix[1]).devices()
    assert result is not None
    assert result.shape == np.array(matrix[0]).shape
    assert [str(device) for device in result.flat] == np.array(matrix[0]).ravel().tolist()
    specs = BatchSpec({}, matrix[1]).device_specs()
    assert specs is not None and specs.shape == result.shape
    assert [spec.device for spec in specs.flat] == [*result.flat]


@pytest.mark.parametrize(
    "other",
    [
        BatchSpec({"C": 3, "N": 1}, ["cpu"]),
        BatchSpec({"N": 1, "C": 2}, ["cpu"]),
        BatchSpec({"C": 2, "N": 1}),
        BatchSpec({"C": 2, "N": 1}, "cpu"),
        BatchSpec({"C": 2, "N": 1}, ["meta"]),
        BatchSpec({"C": 2, "N": 1}, ["cpu"], "cpu"),
        {"C": 2, "N": 1},
    ],
)
def test_specs_that_differ_are_not_equal(other: object) -> None:
    assert BatchSpec({"C": 2, "N": 1}, ["cpu"]) != other


def test_an_index_that_says_nothing_makes_no_difference() -> None:
    assert BatchSpec({}, "cpu:0", "cpu:0") == BatchSpec({}, "cpu", "cpu")


def test_a_spec_does_not_change() -> None:
    given_sizes, given_devices = {"C": 2}, np.array(["cpu", "meta"])
    spec = BatchSpec(given_sizes, given_devices)
    before = hash(spec)
    given_sizes["C"], given_devices[0] = 3, "meta"
    result = spec.devices()
    assert result is not None
    result[0] = torch.device("meta")
    assert spec == BatchSpec({"C": 2}, ["cpu", "meta"]) and hash(spec) == before
    with pytest.raises(FrozenInstanceError):
        spec.base_device = torch.device("cpu")  # type: ignore[misc]
    with pytest.raises(TypeError, match="does not support item assignment"):
        spec.batch_sizes[ND("C")] = 3  # type: ignore[index]


def test_no_matrix_is_no_array() -> None:
    assert BatchSpec({"C": 1}).devices() is None is BatchSpec({"C": 1}).device_specs()


def test_streams_are_part_of_the_value(paper: Any) -> None:
    base, transfer = (paper.new_stream(torch.device("cuda:0")) for _ in range(2))
    spec = BatchSpec({"C": 1}, ["cpu"], "cuda:0", base, transfer)
    assert (spec.base_stream, spec.transfer_stream) == (base, transfer)
    assert spec == BatchSpec({"C": 1}, ["cpu:0"], "cuda:0", base, transfer)
    assert spec != BatchSpec({"C": 1}, ["cpu"], "cuda:0", transfer, base)
    assert spec != BatchSpec({"C": 1}, ["cpu"], "cuda:0")
    assert copy.copy(spec) is copy.deepcopy(spec) is spec
    with pytest.raises(TypeError, match="BatchSpec: streams belong to one process"):
        pickle.dumps(spec)


def test_streams_of_devices_are_part_of_the_value(paper: Any) -> None:
    work = DeviceSpec("cuda:1", paper.new_stream(torch.device("cuda:1")))
    spec = BatchSpec({"C": 1}, ["cuda:0", work])
    result = spec.device_specs()
    assert result is not None and result[1] is work
    assert spec == BatchSpec({"C": 1}, np.array([DeviceSpec("cuda:0"), work], dtype=object))
    assert spec != BatchSpec({"C": 1}, ["cuda:0", "cuda:1"])
    with pytest.raises(TypeError, match="DeviceSpec: streams belong to one process"):
        pickle.dumps(spec)


def test_the_base_is_where_its_streams_are(paper: Any) -> None:
    stream = paper.new_stream(torch.device("cuda:1"))
    for names in ({"base_stream": stream}, {"transfer_stream": stream}):
        assert BatchSpec({}, **names).base_device == torch.device("cuda:1")


@pytest.mark.parametrize("name", ["base_stream", "transfer_stream"])
def test_a_stream_that_is_not_of_the_base_is_refused(paper: Any, name: str) -> None:
    stream = paper.new_stream(torch.device("cuda:1"))
    message = f"BatchSpec: {name} must be a stream of cuda:0, got one of cuda:1"
    with pytest.raises(ValueError, match=message):
        BatchSpec({}, None, "cuda:0", **{name: stream})
    with pytest.raises(ValueError, match=f"{name} must be left out for cpu, which has no streams"):
        BatchSpec({}, None, "cpu", **{name: stream})
    for base in (None, "cuda:0"):
        with pytest.raises(TypeError, match=f"BatchSpec: {name} must be a stream, got 'cuda:0'"):
            BatchSpec({}, None, base, **{name: "cuda:0"})  # type: ignore[arg-type]
    other = {"base_stream": stream, "transfer_stream": paper.new_stream(torch.device("cuda:0"))}
    with pytest.raises(ValueError, match="transfer_stream must be a stream of cuda:1, got one of"):
        BatchSpec({}, **other)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (["cpu", "gpu:0"], "a device must be named as in 'cpu' or 'cuda:0', got 'gpu:0'"),
        ("", "a device must be named"),
        ([], "must hold devices, in nonempty sequences, got"),
        ([[]], "must hold devices"),
        (np.empty((0, 2)), "must hold devices"),
        ([0, 1], "must hold devices, in nonempty sequences, got 0"),
        ([["cpu"], "cpu"], "the rows of device_matrix must have one shape"),
        ([["cpu"], ["cpu", "cpu"]], "the rows of device_matrix must have one shape"),
        ([[["cpu"], ["cpu"]], [["cpu"] * 2] * 2], "the rows of device_matrix must have one shape"),
    ],
)
def test_what_is_no_matrix_of_devices_is_refused(devices: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchSpec({"C": 1}, devices)


def test_a_base_that_is_no_device_is_refused() -> None:
    with pytest.raises(ValueError, match="a device must be named as in 'cpu' or 'cuda:0', got 'x'"):
        BatchSpec({}, base_device="x")


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'devices'"):
        BatchSpec({}, devices=["cpu"])  # type: ignore[call-arg]


@pytest.mark.parametrize("batch_sizes", [None, 2, [("N", 2)], torch.ones(2)])
def test_batch_sizes_that_are_no_mapping_are_refused(batch_sizes: Any) -> None:
    with pytest.raises(TypeError, match="BatchSpec: batch_sizes must be a mapping of dimension"):
        BatchSpec(batch_sizes)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2", None])
def test_sizes_that_are_no_positive_integers_are_refused(size: Any) -> None:
    message = f"BatchSpec: the batch size of C must be a positive integer, got {size!r}"
    with pytest.raises(ValueError, match=message):
        BatchSpec({"N": 1, "C": size})


def test_sizes_of_numpy_are_sizes() -> None:
    size: Any = np.int64(2)
    assert BatchSpec({"C": size}) == BatchSpec({"C": 2})
