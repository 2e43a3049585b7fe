"""NIfTI images."""

from __future__ import annotations

import os
import warnings
from math import prod
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import check_flags

from .._extras import optional_module
from ._hdf5 import dtype_for_torch
from ._in_pieces import indices_in_pieces
from ._reader_errors import MOST_DEFLATED, MOST_IN_BZIP2, reader_errors

Array = np.ndarray[Any, Any]

_SINGLE = tuple(".nii" + packed for packed in ("", ".gz", ".bz2"))
_PAIR = tuple(name + packed for packed in ("", ".gz", ".bz2") for name in (".hdr", ".img"))
_MM = {0: 1.0, 1: 1e3, 2: 1.0, 3: 1e-3}
"""Millimetres of the units of space: unknown, metre, millimetre, micrometre."""


@overload
def read_nifti(
    path: str | os.PathLike[str],
    *,
    form: Literal["sform", "qform"] | None = None,
    return_codes: Literal[False] = False,
) -> tuple[Tensor, Tensor]: ...


@overload
def read_nifti(
    path: str | os.PathLike[str],
    *,
    form: Literal["sform", "qform"] | None = None,
    return_codes: Literal[True],
) -> tuple[Tensor, Tensor, dict[str, int]]: ...


def read_nifti(
    path: str | os.PathLike[str],
    *,
    form: Literal["sform", "qform"] | None = None,
    return_codes: bool = False,
) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, dict[str, int]]:
    """Return the image in a NIfTI file, and the affine map from indices to positions.

    Parameters
    ----------
    path : path
        A ``.nii`` file, or one file of a pair ``.hdr`` and ``.img``, also compressed (``.gz``,
        ``.bz2``), NIfTI-1 or NIfTI-2. Extensions of the header are ignored.
    form : {"sform", "qform"}, optional
        Which of the two maps of the file to return. By default the sform if the file has one, else
        the qform.
    return_codes : bool
        Whether to return the codes of the two maps, too.

    Returns
    -------
    image : Tensor
        The axes are those of the file: three of space, then time and others. The dtype is that of
        the file; int32 or int64 for unsigned integers of more than 8 bits; float64 (complex128) if
        the file scales its values. The real and the imaginary part are both scaled.
    affine : Tensor
        float64, (4, 4), in mm: ``affine @ [i, j, k, 1]`` is the position of voxel i, j, k. The axes
        of space point to the right, to the front and to the top of the patient. Lengths count as
        mm if the file does not name their unit.
    codes : dict
        With ``return_codes``, the space of ``"sform"`` and ``"qform"``: 0 there is no such map, 1
        the scanner, 2 another image, 3 the atlas of Talairach, 4 the MNI template, 5 another
        template.

    Warns
    -----
    UserWarning
        If the file has neither map: the affine map is then a guess from the size of the voxels. If
        the two maps lead to different spaces and differ by a tenth of a voxel or more, and ``form``
        does not choose one.

    Raises
    ------
    ImportError
        If nibabel is not installed (the extra ``nifti``).
    FileNotFoundError
        If the file is missing.
    ValueError
        If the file is not NIfTI, is damaged, lacks the map ``form``, or holds values for which
        torch has no dtype.

    Examples
    --------
    >>> import tempfile, nibabel, numpy
    >>> volume = nibabel.Nifti1Image(numpy.ones((4, 3, 2), "int16"), numpy.diag([2.0, 2, 5, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nibabel.save(volume, f"{folder}/volume.nii.gz")
    ...     image, affine = read_nifti(f"{folder}/volume.nii.gz")
    >>> image.shape, image.dtype, affine.diagonal().tolist()
    (torch.Size([4, 3, 2]), torch.int16, [2.0, 2.0, 5.0, 1.0])
    """
    check_flags("read_nifti", return_codes=return_codes)
    path = Path(path)
    if form not in (None, "sform", "qform"):
        raise ValueError(f"read_nifti: form must be 'sform', 'qform' or None, got {form!r}")
    nibabel = optional_module("nibabel", "read_nifti", "nifti")
    path.stat()
    is_single = path.name.lower().endswith(_SINGLE)
    if not is_single and not path.name.lower().endswith(_PAIR):
        raise ValueError(
            f"read_nifti: {path.name} must be named .nii, .hdr or .img, also with .gz or .bz2"
        )
    with reader_errors("read_nifti", path.name, "a NIfTI file"):
        name = "Image" if is_single else "Pair"
        kinds = [getattr(nibabel, f"Nifti{version}{name}") for version in (1, 2)]
        kind = next((kind for kind in kinds if kind.path_maybe_image(path)[0]), kinds[0])
        image = kind.from_filename(path, mmap=False)
        values = _values(nibabel, Path(image.file_map["image"].filename), image.dataobj)
        affine, codes, doubt = _affine(path, image.header, form)
    if doubt:
        warnings.warn(doubt, UserWarning, stacklevel=2)
    return (values, affine, codes) if return_codes else (values, affine)


def _affine(path: Path, header: Any, form: str | None) -> tuple[Tensor, dict[str, int], str]:
    """Return the affine map in mm, the codes of the maps, and a warning or nothing."""
    unit = int(header["xyzt_units"]) & 7
    if unit not in _MM:
        raise ValueError(
            f"read_nifti: the unit of space of {path.name} must be one of {[*_MM]}, got {unit}"
        )
    maps = {"sform": header.get_sform, "qform": header.get_qform}
    codes = {name: int(header[f"{name}_code"]) for name in maps}
    coded = [name for name, code in codes.items() if code]
    if form is not None and not codes[form]:
        raise ValueError(
            f"read_nifti: {path.name} must have the {form} that was asked for, got code 0; "
            f"its codes are {codes}"
        )
    chosen = form or next(iter(coded), None)
    affine = np.array(maps[chosen]() if chosen else header.get_base_affine(), np.float64)
    affine[:3] *= _MM[unit]
    if not np.isfinite(affine).all():
        raise ValueError(
            f"read_nifti: the affine map of {path.name} must be finite, got {affine.tolist()}"
        )
    doubt = ""
    if not chosen:
        doubt = (
            f"read_nifti: {path.name} has neither an sform nor a qform; its affine map is a guess "
            "from the size of the voxels, with the origin in the middle and x reversed"
        )
    elif form is None and len({*codes.values()}) == len(coded) == 2 and forms_differ(header):
        doubt = (
            f"read_nifti: the maps of {path.name} lead to different spaces (codes {codes}); this "
            'is the sform; pass form="sform" or form="qform" to choose'
        )
    return torch.from_numpy(affine), codes, doubt


def forms_differ(header: Any) -> bool:
    """Return whether the two maps move a voxel apart, by more than the rounding of a quaternion."""
    sform, qform = (np.asarray(f(), np.float64)[:3] for f in (header.get_sform, header.get_qform))
    shape = header.get_data_shape()[:3]
    ends = [*shape, *(1,) * (3 - len(shape)), 1]
    voxel = np.linalg.norm(qform[:, :3], axis=0).min()
    return not (np.abs(sform - qform) @ ends <= 0.1 * voxel).all()


def _values(nibabel: Any, path: Path, data: Any) -> Tensor:
    """Return the values of a file, read and scaled in parts.

    nibabel itself makes several arrays of the size of the image, and scales the real part only.
    """
    shape, dtype = tuple(map(int, data.shape)), data.dtype
    most = {"c": 16, "f": 8, "i": 8, "u": 8}.get(dtype.kind, 0)
    if dtype.itemsize > most:
        raise ValueError(
            f"read_nifti: {path.name} must hold integers, or real or complex numbers of at most "
            f"double precision, got {dtype}"
        )
    _check_length(path, shape, data)
    slope, inter = data.slope, data.inter
    is_scaled, is_complex = (slope, inter) != (1, 0), dtype.kind == "c"
    if is_complex:
        inter *= 1 + 1j
    kind = np.dtype("c16" if is_complex else "f8") if is_scaled else dtype_for_torch(dtype)
    image = np.empty(shape, kind)
    with nibabel.openers.ImageOpener(path) as file:
        file.seek(data.offset)
        for index in indices_in_pieces(shape[::-1]):
            piece = image.T[index]
            raw = file.read(piece.size * dtype.itemsize)
            if len(raw) != piece.size * dtype.itemsize:
                raise ValueError(
                    f"read_nifti: {path.name} must have {image.size * dtype.itemsize} bytes of "
                    f"values for shape {shape} of {dtype}, but it ends before"
                )
            part = np.frombuffer(raw, dtype).reshape(piece.shape)
            if kind == np.int64 and dtype.kind == "u" and (part > np.iinfo(kind).max).any():
                raise ValueError(
                    f"read_nifti: {path.name} must hold integers below 2**63, got {part.max()}"
                )
            piece[...] = part.astype(kind) * slope + inter if is_scaled else part
    return torch.from_numpy(image)


def _check_length(path: Path, shape: tuple[int, ...], data: Any) -> None:
    """Refuse a header that claims more than the file can hold, before memory is taken for it."""
    claimed, size = data.offset + data.dtype.itemsize * prod(shape), path.stat().st_size
    factor = {".gz": MOST_DEFLATED, ".bz2": MOST_IN_BZIP2}.get(path.suffix.lower(), 1)
    if claimed > size * factor:
        raise ValueError(
            f"read_nifti: {path.name} must have {claimed} bytes for shape {shape} of "
            f"{data.dtype}, got a file of {size}"
        )
