"""Lines of k-space that are selected by their headers, whatever file they are in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import check_integer, check_real

from ._hdf5 import numbers_for_torch
from ._ismrmrd_fields import COUNTERS, DIRECTIONS
from ._ismrmrd_header import Encoding
from ._ismrmrd_scan import IsmrmrdScan

Array = np.ndarray[Any, Any]
Rows = Iterator[tuple[int, Array, Array]]
Where = Mapping[str, float | Sequence[float]]

ALIKE = ("number_of_samples", "active_channels", "trajectory_dimensions", "sample_time_us")
"""Fields of the header in which the lines of a scan agree."""
SELECTABLE = (*ALIKE, "center_sample", *COUNTERS)
# Numbers of flags in the header of a line, counted from 1 as in ismrmrd.h.
_NOISE, _CALIBRATION, _CALIBRATION_AND_IMAGING, _REVERSED = 19, 20, 21, 22
_OTHER_KINDS = {
    23: "navigation",
    24: "phase correction",
    26: "feedback",
    27: "dummy",
    28: "feedback",
    29: "coil correction",
    30: "phase stabilization",
    31: "phase stabilization",
}
KINDS = ("imaging", "calibration", "noise", *dict.fromkeys(_OTHER_KINDS.values()))
FLAG_OF = {"calibration": _CALIBRATION}
"""The number of the flag that lines of a kind are written with."""
for _flag, _kind in _OTHER_KINDS.items():
    FLAG_OF.setdefault(_kind, _flag)
_DETAILS = (
    "measurement_uid",
    "scan_counter",
    "acquisition_time_stamp",
    "physiology_time_stamp",
    "acquisition_time_stamp_ns",
    "physiology_time_stamp_ns",
    "position",
    *DIRECTIONS,
    "patient_table_position",
    "user_int",
    "user_float",
)


class FileLines(NamedTuple):
    """The lines in a file, whose samples are read when they are asked for."""

    header: str
    """XML."""
    encodings: list[Encoding]
    heads: Array
    """The header of each line, as in the standard."""
    rows: Callable[[Array], Rows]
    """Gives the number of each chosen line, its samples (C, X) and its trajectory (X, D)."""
    others: Mapping[str, int] = {}
    """Numbers of what is in the file beside lines."""


class IsmrmrdGroup(NamedTuple):
    """Lines of a file that have one kind, encoding, length, number of coils and dwell time."""

    lines: str
    """Their kind, such as "imaging" or "phase correction"."""
    encoding: int
    """Index of the encoding in the header."""
    number_of_samples: int
    active_channels: int
    """Number of coils."""
    trajectory_dimensions: int
    sample_time_us: float
    """Dwell time in microseconds."""
    n_lines: int
    counters: dict[str, list[int]]
    """The values of each counter that has several."""

    @property
    def selection(self) -> dict[str, Any]:
        """Arguments of :func:`read_ismrmrd` that select these lines."""
        where = {name: getattr(self, name) for name in ALIKE}
        return {"lines": self.lines, "encoding": self.encoding, "where": where}


def groups_of(heads: Array) -> list[IsmrmrdGroup]:
    """Return the groups of lines, in the order of their first lines."""
    by_first: dict[int, list[IsmrmrdGroup]] = {}
    for kind in KINDS:
        for encoding in [0] if kind == "noise" else np.unique(heads["encoding_space_ref"]).tolist():
            chosen = kinds_of(heads, kind, encoding) == kind
            _, group = np.unique(
                np.stack([heads[name][chosen].astype(np.float64) for name in ALIKE]),
                axis=1,
                return_inverse=True,
            )
            for number in range(group.max(initial=-1) + 1):
                at = np.flatnonzero(chosen)[group.reshape(-1) == number]
                values = {name: np.unique(heads["idx"][name][at]).tolist() for name in COUNTERS}
                alike = {name: heads[name][at[0]].item() for name in ALIKE}
                several = {name: numbers for name, numbers in values.items() if len(numbers) > 1}
                by_first.setdefault(int(at[0]), []).append(
                    IsmrmrdGroup(kind, encoding, n_lines=len(at), counters=several, **alike)
                )
    return [group for first in sorted(by_first) for group in by_first[first]]


def numbers_of(owner: str, where: Where | None, names: Sequence[str]) -> dict[str, list[float]]:
    """Return the numbers that a header may have in each of some fields."""
    if where is not None and not isinstance(where, Mapping):
        raise TypeError(f"{owner}: where must be a mapping of names to numbers, got {where!r}")
    fields: dict[str, Any] = dict(where or {})
    if strange := fields.keys() - {*names}:
        raise ValueError(
            f"{owner}: where must name some of {(*names,)}, got {sorted(map(str, strange))}"
        )
    lists = {name: [*given] if np.ndim(given) else [given] for name, given in fields.items()}
    if empty := [name for name, given in lists.items() if not given]:
        raise ValueError(f"{owner}: where[{empty[0]!r}] must have a number, got none")
    numbers = {
        name: [check_real(owner, f"where[{name!r}]", number, 0) for number in given]
        for name, given in lists.items()
    }
    return {name: [int(n) if n.is_integer() else n for n in row] for name, row in numbers.items()}


def is_one_of(values: Array, numbers: Sequence[float]) -> Array:
    """Return which values are one of the numbers, in the precision of the values."""
    matches: Array = np.logical_or.reduce([values == number for number in numbers])
    return matches


def scan_from_lines(
    source: FileLines, lines: str, encoding: int, where: Mapping[str, Sequence[float]]
) -> IsmrmrdScan:
    """Return the lines of one kind and encoding whose headers have the numbers of ``where``."""
    heads, encodings = source.heads, source.encodings
    check_integer("read_ismrmrd", "encoding", encoding, 0)
    if encoding >= len(encodings):
        raise ValueError(
            f"read_ismrmrd: encoding must be one of the {len(encodings)} in the header, got "
            f"{encoding}"
        )
    kinds = kinds_of(heads, lines, encoding)
    for name, numbers in where.items():
        values = heads["idx"][name] if name in COUNTERS else heads[name]
        kinds[(kinds == lines) & ~is_one_of(values, numbers)] = "not selected"
    chosen = kinds == lines
    if not chosen.any():
        raise ValueError(
            f"read_ismrmrd: there must be lines of kind {lines}"
            f"{f' where {dict(where)}' if where else ''}, got "
            f"{ ({**_counted(kinds), **source.others}) }"
        )
    kspace, trajectory = _samples(source, chosen)
    noise = (kinds == "noise") & ~chosen
    if {*heads["active_channels"][noise]} != {len(kspace)} or (
        len({*heads["sample_time_us"][noise]}) > 1
    ):
        noise[:] = False
    noise_lines = None
    if noise.any():
        noise_lines = torch.from_numpy(np.concatenate([x for _, x, _ in source.rows(noise)], -1))
    some = heads[chosen]
    return IsmrmrdScan(
        kspace=kspace,
        counters={name: _integers(some["idx"][name]) for name in COUNTERS},
        centre_sample=_integers(some["center_sample"]),
        discarded=_integers(np.stack([some["discard_pre"], some["discard_post"]], -1)),
        is_reversed=torch.from_numpy(_has_flag(some, _REVERSED)),
        trajectory=trajectory,
        noise=noise_lines,
        dwell_time=_only(heads, chosen, "sample_time_us"),
        noise_dwell_time=_only(heads, noise, "sample_time_us") if noise.any() else None,
        encoding=encodings[encoding],
        details=_details(some),
        left_out={**_counted(kinds[~chosen & ~noise]), **source.others},
        header=source.header,
    )


def kinds_of(heads: Array, lines: str, encoding: int) -> Array:
    """Return the kind of each line; of calibration and imaging together, ``lines`` if it can be."""
    both = _has_flag(heads, _CALIBRATION_AND_IMAGING)
    kinds = np.full(len(heads), "imaging", dtype=object)
    kinds[_has_flag(heads, _CALIBRATION) & ~both] = "calibration"
    kinds[both] = "calibration" if lines == "calibration" else "imaging"
    for flag, kind in _OTHER_KINDS.items():
        kinds[_has_flag(heads, flag)] = kind
    kinds[heads["encoding_space_ref"] != encoding] = "other encodings"
    kinds[_has_flag(heads, _NOISE)] = "noise"
    return kinds


def _has_flag(heads: Array, flag: int) -> Array:
    is_set: Array = (heads["flags"] >> np.uint64(flag - 1)) & np.uint64(1) == 1
    return is_set


def _counted(kinds: Array) -> dict[str, int]:
    return {str(kind): int((kinds == kind).sum()) for kind in dict.fromkeys(kinds)}


def _samples(source: FileLines, chosen: Array) -> tuple[Tensor, Tensor | None]:
    """Return the samples (C, L, X) and the trajectory (L, X, D) of lines of one length."""
    n_samples, n_coils, n_dims = (_only(source.heads, chosen, name) for name in ALIKE[:3])
    _only(source.heads, chosen, "sample_time_us")
    if not n_samples or not n_coils:
        raise ValueError(
            f"read_ismrmrd: lines must have samples and coils, got {n_samples} of {n_coils} coils"
        )
    kspace = np.empty((n_coils, int(chosen.sum()), n_samples), np.complex64)
    trajectory = np.empty((kspace.shape[1], n_samples, n_dims), np.float32)
    for number, data, traj in source.rows(chosen):
        kspace[:, number], trajectory[number] = data, traj
    return torch.from_numpy(kspace), torch.from_numpy(trajectory) if n_dims else None


def _only(heads: Array, chosen: Array, name: str) -> Any:
    """Return the number that is the same for all chosen lines."""
    numbers, first, counts = np.unique(heads[name][chosen], return_index=True, return_counts=True)
    if len(numbers) > 1:
        at = np.flatnonzero(chosen)[first]
        members = [
            f"{number.item()} ({n} times, first in line {line})"
            for number, n, line in list(zip(numbers, counts, at, strict=True))[:5]
        ]
        usual = numbers[counts.argmax()].item()
        raise ValueError(
            f"read_ismrmrd: {name} must be the same for all lines, got {', '.join(members)}; "
            f"select lines, for example by where={{{name!r}: {usual}}}, or read each of "
            "ismrmrd_groups(path)"
        )
    return numbers[0].item()


def _details(heads: Array) -> dict[str, Tensor]:
    """Return the further numbers of the headers that the file has."""
    fields = {name: heads[name] for name in _DETAILS if name in (heads.dtype.names or ())}
    if "user" in (heads["idx"].dtype.names or ()):
        fields["user"] = heads["idx"]["user"]
    return field_tensors("in the header of lines", fields)


def field_tensors(where: str, fields: Mapping[str, Array]) -> dict[str, Tensor]:
    """Return fields of headers as tensors, integers as int64."""
    arrays = {
        name: numbers_for_torch("read_ismrmrd", f"{name} {where}", values)
        for name, values in fields.items()
    }
    return {
        name: _integers(values) if values.dtype.kind in "ui" else torch.from_numpy(values + 0.0)
        for name, values in arrays.items()
    }


def _integers(values: Array) -> Tensor:
    return torch.from_numpy(values.astype(np.int64))
