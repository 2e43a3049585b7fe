"""HDF5 files that are read without following links to other files."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._reader_errors import MOST_DEFLATED

Array = np.ndarray[Any, Any]


def group_names(owner: str, dataset: object) -> list[str]:
    """Return the names of nested groups in a path; none for ``""``, which is the file itself."""
    if not isinstance(dataset, str):
        raise TypeError(f"{owner}: dataset must be the name of a group, got {dataset!r}")
    names = [name for name in dataset.split("/") if name]
    if any(name in (".", "..") or "\0" in name for name in names):
        raise ValueError(
            f"{owner}: dataset must be names of groups with / between, got {dataset!r}"
        )
    return names


def group_at(owner: str, h5py: Any, file: Any, dataset: str, *, make: bool = False) -> Any:
    """Return the group of a dataset, which is made if it may be."""
    group = file
    for name in group_names(owner, dataset):
        if make and name not in group:
            group.create_group(name)
        group = member(owner, h5py, group, name, h5py.Group)
    return group


def member(owner: str, h5py: Any, parent: Any, name: str, kind: Any) -> Any:
    """Return the member ``name`` of a group; refuse links, which may lead to other files."""
    link = parent.get(name, getlink=True)
    target = parent[name] if isinstance(link, h5py.HardLink) else link
    if not isinstance(target, kind):
        what = "nothing" if target is None else type(target).__name__
        raise ValueError(
            f"{owner}: {name!r} in {parent.name} must be a {kind.__name__} of the file, got "
            f"{what}; there are {list(parent)[:10]}"
        )
    if kind is h5py.Dataset and (target.external or target.is_virtual):
        raise ValueError(f"{owner}: {name!r} must be in the file, got values in other files")
    return target


def check_stored(owner: str, dataset: Any) -> None:
    """Raise an error if a dataset claims more values than the file has, before they are read."""
    name, stored = dataset.name.rpartition("/")[2], dataset.id.get_storage_size()
    if dataset.shape is None or dataset.size * dataset.dtype.itemsize > MOST_DEFLATED * stored:
        raise ValueError(
            f"{owner}: {name} must be stored for the shape {dataset.shape}, got {stored} bytes"
        )


def header_in(owner: str, dataset: Any) -> str:
    """Return the XML header: a string, or an array of one."""
    if dataset.dtype.kind not in "OS" or dataset.size != 1:
        raise ValueError(
            f"{owner}: the header must be one string, got {dataset.size} of {dataset.dtype}"
        )
    text = np.asarray(dataset[()]).reshape(-1)[0]
    if not isinstance(text, bytes):  # a reference to something else
        raise ValueError(f"{owner}: the header must be one string, got {type(text)}")
    return text.decode("utf-8")


def dtype_for_torch(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for values of a file; torch computes with few unsigned integers."""
    kinds = {"u2": np.int32, "u4": np.int64, "u8": np.int64}
    return np.dtype(kinds.get(dtype.str[1:], dtype.newbyteorder("=")))


def numbers_for_torch(owner: str, name: str, values: Array) -> Array:
    """Return an array of numbers with a dtype that torch computes with."""
    dtype = values.dtype
    pair = [dtype[name].str[1:] for name in dtype.names or ()]
    if dtype.names == ("real", "imag") and pair in (["f4"] * 2, ["f8"] * 2):  # ISMRMRD's complex
        values = np.ascontiguousarray(values).view(f"{dtype['real'].byteorder}c{dtype.itemsize}")
    torch_dtype = dtype_for_torch(values.dtype)
    if torch_dtype.kind not in "biufc" or torch_dtype.itemsize > {"c": 16}.get(torch_dtype.kind, 8):
        raise ValueError(f"{owner}: {name} must be numbers, got {dtype}")
    if values.dtype.str[1:] == "u8" and (values > np.iinfo(np.int64).max).any():
        raise ValueError(f"{owner}: {name} must be below 2**63, got {values.max()}")
    return values.astype(torch_dtype, copy=False)
