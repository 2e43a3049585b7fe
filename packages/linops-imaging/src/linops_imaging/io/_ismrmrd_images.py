"""Images in ISMRMRD files, with their headers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._extras import optional_module
from . import _mrd_stream
from ._geometry import affine_of, geometry_fields
from ._hdf5 import check_stored, group_at, group_names, member, numbers_for_torch
from ._ismrmrd_fields import IMAGE_HEAD, REPEATED
from ._ismrmrd_lines import Where, field_tensors, is_one_of, numbers_of
from ._reader_errors import reader_errors
from ._write_ismrmrd import write_field

Array = np.ndarray[Any, Any]

_KINDS = {"magnitude": 1, "phase": 2, "real": 3, "imag": 4, "complex": 5}
_DTYPES = ("u2", "i2", "u4", "i4", "f4", "f8", "c8", "c16")
"""Of data_type 1, 2, ..."""
_SELECTABLE = (*REPEATED, "image_index", "image_series_index", "image_type")
_OF_DATA = ("version", "data_type", "matrix_size", "channels", "attribute_string_len")
_WRITTEN = tuple(name for name in IMAGE_HEAD.names or () if name not in _OF_DATA)


@dataclass(frozen=True, eq=False)
class IsmrmrdImages:
    """Images of one size with their headers. N images, C channels."""

    data: Tensor
    """(N, C, Z, Y, X)."""
    header: Mapping[str, Tensor]
    """The numbers of each image, (N,) or (N, n), by the names of the standard: ``position``,
    ``read_dir``, ``phase_dir``, ``slice_dir`` (along X, Y, Z) and ``field_of_view`` in mm, where
    the axes point to the left, the back and the top of the patient; ``repetition``, ``set``,
    ``phase``, ``contrast``, ``average``, ``slice``, ``image_index``, ``image_series_index``;
    ``image_type`` (1 magnitude, 2 phase, 3 real part, 4 imaginary part, 5 complex, 6 colours);
    ``flags``, time stamps and the user's numbers."""
    attributes: tuple[str, ...] = field(repr=False)
    """Further attributes of each image, as XML."""

    @classmethod
    def from_volume(
        cls,
        data: Tensor,
        affine: Tensor,
        *,
        kind: Literal["magnitude", "phase", "real", "imag", "complex"] | None = None,
    ) -> IsmrmrdImages:
        """Return images of one place, for :func:`write_ismrmrd_images`.

        Parameters
        ----------
        data : Tensor
            ([N, [C,]] [Z,] Y, X).
        affine : Tensor
            (4, 4), from the indices of X, Y and Z to mm, as ``IsmrmrdScan.affine()``. Its axes
            point to the right, the front and the top of the patient.
        kind : str, optional
            What the values are. By default "complex" for complex data and "real" for real data.

        Returns
        -------
        IsmrmrdImages
            With ``image_index`` 1 to N. Change ``header`` with ``dataclasses.replace``.

        Raises
        ------
        TypeError
            If ``data`` or ``affine`` is not a tensor.
        ValueError
            If ``data`` does not have two to five axes, ``kind`` is not one of the words above, or
            ``affine`` is not an invertible map with perpendicular axes.
        """
        for name, tensor in (("data", data), ("affine", affine)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"IsmrmrdImages: {name} must be a torch.Tensor, got {type(tensor)}")
        if not 2 <= data.ndim <= 5 or not data.numel():
            raise ValueError(
                "IsmrmrdImages: data must have the axes ([N, [C,]] [Z,] Y, X), got the shape "
                f"{tuple(data.shape)}"
            )
        if kind is None:
            kind = "complex" if data.is_complex() else "real"
        if kind not in _KINDS or (kind == "complex") != data.is_complex():
            raise ValueError(
                f"IsmrmrdImages: kind must be one of {(*_KINDS,)} and fit {data.dtype}, got "
                f"{kind!r}"
            )
        data = data.detach()
        if data.ndim == 4:
            data = data.unsqueeze(1)
        data = data[(None,) * (5 - data.ndim)]
        n = len(data)
        geometry = geometry_fields("IsmrmrdImages", affine, data.shape[:1:-1])
        header = {name: one.float().expand(n, 3) for name, one in geometry.items()}
        header["image_index"] = torch.arange(1, n + 1, device="cpu")
        header["image_type"] = torch.full((n,), _KINDS[kind], device="cpu")
        return cls(data, header, ("",) * n)

    def affine(self) -> Tensor:
        """Return the map from indices to positions in the scanner, for ``io.write_nifti``.

        It is for an image with the axes X, Y, Z: ``images.data[n, c].permute(2, 1, 0)``; or X, Y
        and slices, if the images differ in ``slice``. The position in the header is that of index
        N // 2 of X, Y and Z.

        Returns
        -------
        Tensor
            float64, (4, 4), in mm: ``affine @ [i, j, k, 1]`` is a position. Its axes point to the
            right, the front and the top of the patient, as in NIfTI.

        Raises
        ------
        ValueError
            If the images lack positions or directions; if directions are not perpendicular, or
            fields of view or directions differ; if positions differ within a slice; or if slices
            are not equally spaced in the order of their counter.
        """
        fov = self.header.get("field_of_view", torch.zeros(1, 3, device="cpu"))
        if fov.shape != (len(self.data), 3) or (fov != fov[0]).any() or not (fov > 0).all():
            raise ValueError(
                "IsmrmrdImages: field_of_view must be three lengths in mm, the same for all images"
                f", got {fov.unique(dim=0)[:3].tolist()}; select images by where"
            )
        number = self.header.get("slice", fov.new_zeros(len(fov), dtype=torch.int64))
        sizes = self.data.shape[:1:-1]
        return affine_of("IsmrmrdImages", self.header, number, sizes, fov[0].tolist())


def read_ismrmrd_images(
    path: str | os.PathLike[str],
    name: str | None = None,
    dataset: str = "dataset",
    *,
    where: Where | None = None,
) -> IsmrmrdImages:
    """Return the images of one group in an ISMRMRD file.

    Parameters
    ----------
    path : path
        An HDF5 file, or an MRD stream (version 2) in a file, in binary form.
    name : str, optional
        The HDF5 group of the images in the dataset, such as "image_0"; not needed if there is one.
    dataset : str
        The HDF5 group of the dataset.
    where : mapping of str to number or sequence of numbers, optional
        Select images with these numbers in their header: ``repetition``, ``set``, ``phase``,
        ``contrast``, ``average``, ``slice``, ``image_index``, ``image_series_index`` or
        ``image_type``. The others are not read.

    Returns
    -------
    IsmrmrdImages
        Unsigned integers become int32 or int64.

    Raises
    ------
    ImportError
        If h5py (the extra ``ismrmrd``) or, for a stream, mrd-python (the extra ``mrd``) is not
        installed.
    FileNotFoundError
        If the file is missing.
    TypeError, ValueError
        If an argument is not one of the values above; if the file is damaged, refers to other files
        or has no such images; or if the images of a stream differ in size or dtype.
    """
    owner, path = "read_ismrmrd_images", Path(path)
    numbers = numbers_of(owner, where, _SELECTABLE)
    group_names(owner, dataset)

    def choose(header: Mapping[str, Array]) -> Array:
        n = len(next(iter(header.values()), ()))
        chosen = np.ones(n, dtype=bool)
        for field_, values in numbers.items():
            chosen &= is_one_of(header[field_] if field_ in header else np.zeros(n), values)
        if not chosen.any():
            raise ValueError(
                f"{owner}: {path.name} must have images{f' where {numbers}' if where else ''}, "
                f"got none of {n}"
            )
        return chosen

    if _mrd_stream.is_stream(path):
        header, attributes, data = _mrd_stream.images_in(path, choose)
        return _images(owner, header, attributes, data)
    h5py = optional_module("h5py", owner, "ismrmrd")
    with reader_errors(owner, path.name, "an ISMRMRD file"), h5py.File(path, "r") as file:
        parent = group_at(owner, h5py, file, dataset)
        group = member(owner, h5py, parent, name or _only_name(h5py, parent), h5py.Group)
        heads = member(owner, h5py, group, "header", h5py.Dataset)
        values = member(owner, h5py, group, "data", h5py.Dataset)
        check_stored(owner, heads)
        check_stored(owner, values)
        table = heads[()]
        if table.dtype.names is None or values.ndim != 5 or table.shape != values.shape[:1]:
            raise ValueError(
                f"{owner}: {group.name} must have a header for each image (N, C, Z, Y, X), got "
                f"{table.shape} of {table.dtype} and {values.shape}"
            )
        header = {field_: table[field_] for field_ in _WRITTEN if field_ in table.dtype.names}
        at = np.flatnonzero(choose(header))
        header_of_rows = {field_: column[at] for field_, column in header.items()}
        texts = [""] * len(at)
        if "attributes" in group:
            stored = member(owner, h5py, group, "attributes", h5py.Dataset)
            check_stored(owner, stored)
            texts = [bytes(np.asarray(stored[k])[()]).decode("utf-8") for k in at]
        return _images(owner, header_of_rows, texts, (values[k] for k in at))


def _only_name(h5py: Any, parent: Any) -> str:
    members = [name for name in parent if isinstance(parent.get(name, getlink=True), h5py.HardLink)]
    groups = [name for name in members if parent.get(name, getclass=True) is h5py.Group]
    names = [name for name in groups if "header" in parent[name]]
    if len(names) != 1:
        raise ValueError(
            f"read_ismrmrd_images: name must be one of the groups of images, {names}, got None"
        )
    return str(names[0])


def _images(
    owner: str, header: Mapping[str, Array], attributes: list[str], data: Iterator[Array]
) -> IsmrmrdImages:
    result: Tensor | None = None
    for number, values in enumerate(data):
        one = torch.from_numpy(numbers_for_torch(owner, "data", values))
        if result is None:
            result = one.new_empty(len(attributes), *one.shape)
        if one.shape != result.shape[1:] or one.dtype != result.dtype:
            raise ValueError(
                f"{owner}: images must have one shape and dtype, got {tuple(result.shape[1:])} of "
                f"{result.dtype} and {tuple(one.shape)} of {one.dtype}; select some by where"
            )
        result[number] = one
    assert result is not None  # at least one was chosen
    return IsmrmrdImages(
        result, field_tensors("in the header of images", header), tuple(attributes)
    )


def write_ismrmrd_images(
    path: str | os.PathLike[str],
    images: IsmrmrdImages,
    name: str = "image_0",
    dataset: str = "dataset",
) -> None:
    """Add images to an ISMRMRD file, from which :func:`read_ismrmrd_images` returns them.

    Parameters
    ----------
    path : path
        An HDF5 file, which may have raw data. It is made if there is none. It is extended in place,
        because a copy of the raw data could be large: an interrupt can leave a part of the group.
    images : IsmrmrdImages
        From :func:`read_ismrmrd_images` or ``IsmrmrdImages.from_volume``. (u)int16, (u)int32,
        float32, float64, complex64 or complex128.
    name : str
        The HDF5 group of the images in the dataset. There must be none.
    dataset : str
        The HDF5 group of the dataset; ``""`` is the file itself.

    Raises
    ------
    ImportError
        If h5py is not installed (the extra ``ismrmrd``).
    TypeError
        If ``images`` are not IsmrmrdImages, or their dtype is not one of the standard.
    ValueError
        If the file has a group ``name``, a number does not fit its field of the header, or there is
        not one header for each image. Nothing is written then.
    """
    owner = "write_ismrmrd_images"
    if not isinstance(images, IsmrmrdImages):
        raise TypeError(f"{owner}: images must be IsmrmrdImages, got {type(images)}")
    h5py = optional_module("h5py", owner, "ismrmrd")
    data = images.data.detach().resolve_conj().resolve_neg()
    if data.ndim != 5 or max(data.shape[1:]) > 2**16 - 1 or not data.numel():
        raise ValueError(
            f"{owner}: data must be (N, C, Z, Y, X) of at most 65535 each, got {tuple(data.shape)}"
        )
    kind = str(data.dtype).rpartition(".")[2]
    code = np.dtype(kind).str[1:] if hasattr(np, kind) and kind != "bool" else kind
    if code not in _DTYPES:
        names = ", ".join(np.dtype(one).name for one in _DTYPES)
        raise TypeError(
            f"{owner}: data must have one of the dtypes {names}, got {data.dtype}; convert them"
        )
    if len(images.attributes) != len(data):
        raise ValueError(
            f"{owner}: attributes must be a string for each of {len(data)} images, got "
            f"{len(images.attributes)}"
        )
    heads = np.zeros(len(data), IMAGE_HEAD)
    for field_, values in images.header.items():
        if field_ in _OF_DATA:
            raise ValueError(f"{owner}: header must not have {field_}, which data tell, got one")
        write_field(owner, heads, field_, values)
    heads["version"], heads["data_type"] = 1, _DTYPES.index(code) + 1
    heads["channels"], heads["matrix_size"] = data.shape[1], data.shape[:1:-1]
    heads["attribute_string_len"] = [len(text.encode()) for text in images.attributes]
    stored = np.dtype(f"<{code}")
    if stored.kind == "c":
        half = f"<f{stored.itemsize // 2}"
        stored = np.dtype([("real", half), ("imag", half)])
    group_names(owner, dataset)
    if len(group_names(owner, name)) != 1:
        raise ValueError(f"{owner}: name must be that of one group, got {name!r}")
    path = Path(path)
    if path.exists() and not h5py.is_hdf5(path):
        raise ValueError(
            f"{owner}: {path.name} must be an HDF5 file or not there, got another file"
        )
    with h5py.File(path, "a") as file:
        parent = group_at(owner, h5py, file, dataset, make=True)
        if name in parent:
            raise ValueError(f"{owner}: {name!r} must be a new group, got one that is in the file")
        group = parent.create_group(name)
        group.create_dataset("header", data=heads, maxshape=(None,))
        text = h5py.string_dtype()
        group.create_dataset("attributes", data=[*images.attributes], dtype=text, maxshape=(None,))
        shape = (None, *data.shape[1:])
        table = group.create_dataset("data", data.shape, stored, maxshape=shape)
        for number, values in enumerate(data):
            table[number] = values.cpu().contiguous().numpy().view(stored)
