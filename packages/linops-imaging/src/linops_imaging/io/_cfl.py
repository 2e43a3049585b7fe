"""BART's cfl files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import is_dense, not_a_tensor, written_aside

from ._in_pieces import indices_in_pieces

_N_DIMS = 16
"""Number of dimensions that BART writes; it reads more if their size is 1."""


def read_cfl(path: str | os.PathLike[str]) -> Tensor:
    """Return the array of a pair of files ``path.hdr`` and ``path.cfl``, as BART writes them.

    Parameters
    ----------
    path : path
        With or without the suffix ``.cfl`` or ``.hdr``.

    Returns
    -------
    Tensor
        complex64. Axis d is dimension d of BART (0 to 2 the grid, 3 the coils). Trailing
        dimensions of size 1 are left out. The first axis is contiguous, as in the file; call
        ``.contiguous()`` to make the last one contiguous.

    Raises
    ------
    FileNotFoundError
        If one of the files is missing.
    ValueError
        If the header has no dimensions, or the data do not have the length that the header gives.
    """
    base = _base(path)
    header = base.with_name(base.name + ".hdr").read_text("utf-8", errors="replace")
    sizes = _dimensions(header, base)
    file = base.with_name(base.name + ".cfl")
    expected, actual = 8 * int(np.prod(sizes, dtype=object)), file.stat().st_size
    if actual != expected:
        raise ValueError(
            f"read_cfl: {file.name} must have {expected} bytes for dimensions {sizes}, got {actual}"
        )
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    flat = torch.from_numpy(np.fromfile(file, dtype="<c8").astype(np.complex64, copy=False))
    return flat.view(*sizes[::-1]).permute(*range(len(sizes) - 1, -1, -1))


def write_cfl(path: str | os.PathLike[str], array: Tensor) -> None:
    """Write ``array`` to a pair of files ``path.hdr`` and ``path.cfl``, as BART reads them.

    Parameters
    ----------
    path : path
        With or without the suffix ``.cfl`` or ``.hdr``. Existing files are replaced when the new
        ones are complete. A process that is killed meanwhile leaves the old files, the new ones, or
        no header; then the old ones are in folders ``.writing-*`` beside.
    array : Tensor
        Real or complex, of up to 16 axes, which are the dimensions of BART. It is written as
        complex64: values above 3.4e38 become infinite.

    Raises
    ------
    TypeError
        If ``array`` is not a dense tensor.
    ValueError
        If it has more than 16 axes, no elements, or no values (it is on the meta device).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_cfl(f"{folder}/image", torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    ...     read_cfl(f"{folder}/image").real
    tensor([[1., 2., 3.],
            [4., 5., 6.]])
    """
    if not is_dense(array):
        raise not_a_tensor("write_cfl", "the array", array)
    if array.ndim > _N_DIMS or not array.numel():
        raise ValueError(
            f"write_cfl: the array must have elements and at most {_N_DIMS} axes, got shape "
            f"{tuple(array.shape)}"
        )
    if array.is_meta:
        raise ValueError("write_cfl: the array must have values, got a tensor on the meta device")
    base = _base(path)
    sizes = [*array.shape, *(1,) * (_N_DIMS - array.ndim)]
    header = f"# Dimensions\n{' '.join(map(str, sizes))}\n"
    turned = array.detach().permute([*range(array.ndim - 1, -1, -1)])
    names = [base.with_name(base.name + suffix) for suffix in (".cfl", ".hdr")]
    with written_aside(*names) as (data, text):
        with data.open("wb") as file:
            for index in indices_in_pieces(turned.shape):
                part = turned[index].to("cpu", torch.complex64).resolve_conj().resolve_neg()
                np.ascontiguousarray(part.numpy(), "<c8").tofile(file)
        text.write_text(header, "utf-8")


def _base(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path.with_suffix("") if path.suffix in (".cfl", ".hdr") else path


def _dimensions(header: str, base: Path) -> list[int]:
    """Return the numbers in the line after "# Dimensions"."""
    lines = iter(header.splitlines())
    words = next((next(lines, "") for line in lines if line.strip() == "# Dimensions"), "").split()
    if not words or not all(word.isascii() and word.isdecimal() for word in words):
        raise ValueError(
            f'read_cfl: {base.name}.hdr must have a line "# Dimensions" followed by a line of '
            f"integers, got {header[:80]!r}"
        )
    # Python refuses integers of more than 4300 digits; 20 digits are too large for any file.
    sizes = [int(word[:20]) for word in words]
    while len(sizes) > _N_DIMS and sizes[-1] == 1:
        sizes = sizes[:-1]
    if len(sizes) > _N_DIMS or 0 in sizes:
        raise ValueError(
            f"read_cfl: {base.name}.hdr must have at most {_N_DIMS} positive dimensions, got "
            f"{sizes}"
        )
    return sizes
