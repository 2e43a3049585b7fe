"""The contents of an ISMRMRD file, and its lines on a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ._ismrmrd_header import Encoding

COUNTERS = (
    "kspace_encode_step_1",
    "kspace_encode_step_2",
    "average",
    "slice",
    "contrast",
    "phase",
    "repetition",
    "set",
    "segment",
)
_REPEATED = ("repetition", "set", "phase", "contrast", "average", "slice")
"""Counters that tell images apart, in the order of their axes."""
_MOST_EMPTY = 1000
"""Largest number of lines of a grid for each measured line."""
_AT_ONCE = 2**21
"""Samples that are copied at a time."""


@dataclass(frozen=True, eq=False)
class IsmrmrdScan:
    """Lines of k-space in the order in which they were measured.

    C coils, L lines of X samples. Two scans are equal if they are the same object.
    """

    kspace: Tensor
    """complex64, (C, L, X)."""
    counters: Mapping[str, Tensor]
    """The place of each line, int64, (L,): ``kspace_encode_step_1``, ``kspace_encode_step_2``,
    ``average``, ``slice``, ``contrast``, ``phase``, ``repetition``, ``set``, ``segment``."""
    centre_sample: Tensor
    """For each line, the index of the sample in the centre of k-space, int64, (L,)."""
    discarded: Tensor
    """Numbers of samples to discard at the beginning and at the end of each line, int64, (L, 2)."""
    is_reversed: Tensor
    """Which lines were read backwards, bool, (L,)."""
    trajectory: Tensor | None
    """float32, (L, X, D), in the units of the file, or None. Units differ between programs:
    :class:`linops_imaging.NUFFT` takes locations in [-N/2, N/2]."""
    noise: Tensor | None
    """Samples of the noise lines, complex64, (C, T), or None if the file has none, or if they have
    other coils than the lines or several dwell times: ``left_out`` counts them then."""
    dwell_time: float
    """Time from one sample to the next in microseconds."""
    noise_dwell_time: float | None
    """Dwell time of the noise. The variance of noise is proportional to its inverse."""
    encoding: Encoding
    """Sizes of the grids, and the kind of trajectory."""
    left_out: Mapping[str, int]
    """Number of lines of each other kind in the file: "calibration", "navigation", ..., and "not
    selected" by ``where``."""
    header: str = field(repr=False)
    """The whole XML header. Refuse a DOCTYPE when you parse it."""

    def on_grid(self) -> tuple[Tensor, Tensor]:
        """Return Cartesian lines on the encoded grid, and which of its points were measured.

        The centre of k-space is at index N // 2 along each axis, as in a centred
        :class:`linops_core.FFT`.

        Returns
        -------
        kspace : Tensor
            complex64, (C, ..., [Z,] Y, X), where X, Y, Z is ``encoding.encoded_size``. There is no
            axis Z if Z is 1. Each of the counters repetition, set, phase, contrast, average and
            slice that has several values has an axis, in this order. Index k along it is the value
            ``counters[name].unique()[k]``. Points that were not measured are 0.
        mask : Tensor
            bool, (..., [Z,] Y, X).

        Raises
        ------
        ValueError
            If the lines are not Cartesian, some were read backwards, two lines have the same place,
            or a line is outside of the grid.
        """
        if self.encoding.trajectory not in ("cartesian", "epi"):
            raise ValueError(
                "IsmrmrdScan: the trajectory must be Cartesian for a grid, got "
                f"{self.encoding.trajectory!r}; use kspace and trajectory"
            )
        if self.is_reversed.any():
            raise ValueError(
                "IsmrmrdScan: lines must be read forwards for a grid, got "
                f"{int(self.is_reversed.sum())} backwards; turn and correct them in kspace"
            )
        several = {name: self.counters[name].unique() for name in _REPEATED}
        several = {name: values for name, values in several.items() if len(values) > 1}
        x, y, z = self.encoding.encoded_size
        sizes = [*map(len, several.values()), z, y]
        n_lines = 1
        for size in sizes:
            n_lines *= size
        if n_lines > _MOST_EMPTY * max(1, self.kspace.shape[1]):
            raise ValueError(
                f"IsmrmrdScan: the grid must have at most {_MOST_EMPTY} lines for each measured "
                f"line, got {n_lines} for {dict(zip([*several, 'Z', 'Y'], sizes, strict=True))}"
            )
        places = [
            torch.searchsorted(values, self.counters[name]) for name, values in several.items()
        ]
        places += [self._place(2, z), self._place(1, y)]
        line = torch.zeros_like(self.centre_sample)
        for place, size in zip(places, sizes, strict=True):
            line = line * size + place
        n_repeated = len(line) - len(line.unique())
        if n_repeated:
            raise ValueError(
                f"IsmrmrdScan: lines must have different counters for a grid, got {n_repeated} "
                "with the counters of another line; use kspace and counters"
            )
        n_samples = self.kspace.shape[-1]
        kspace = self.kspace.new_zeros(len(self.kspace), n_lines, x)
        mask = torch.zeros(n_lines, x, dtype=torch.bool, device=line.device)
        layout = torch.cat([self.centre_sample.unsqueeze(-1), self.discarded], -1)
        for own in layout.unique(dim=0):
            centre, first, n_after = own.tolist()
            n_used, column = n_samples - first - n_after, x // 2 - centre + first
            if n_used <= 0:
                continue
            if column < 0 or column + n_used > x:
                remedy = (
                    ", or set the right centre if the file has none: dataclasses.replace(scan, "
                    f"centre_sample=torch.full_like(scan.centre_sample, {n_samples // 2}))"
                )
                raise ValueError(
                    f"IsmrmrdScan: lines of {n_samples} samples about centre_sample must fit {x} "
                    f"points of the grid, got the centre {centre}; use kspace"
                    f"{remedy if n_used <= x else ''}"
                )
            alike = (layout == own).all(-1)
            to, of_all = line[alike], bool(alike.all())
            n_coils = max(1, _AT_ONCE // (len(to) * n_used))
            parts = zip(self.kspace.split(n_coils), kspace.split(n_coils), strict=True)
            for given, grid in parts:
                used = (given if of_all else given[:, alike]).narrow(2, first, n_used)
                grid.narrow(2, column, n_used).index_copy_(1, to, used)
            mask.narrow(1, column, n_used)[to] = True
        shape = [*sizes[:-2], *([z] if z > 1 else []), y, x]
        return kspace.view(-1, *shape), mask.view(shape)

    def _place(self, step: int, size: int) -> Tensor:
        """Return the index on the grid of each line."""
        name = f"kspace_encode_step_{step}"
        place = self.counters[name] - self.encoding.centre[step - 1] + size // 2
        if ((place < 0) | (place >= size)).any():
            first, last = int(self.counters[name].min()), int(self.counters[name].max())
            centre = [*self.encoding.centre]
            # All lines fit with this centre, if any; it is the middle if they fill the grid.
            centre[step - 1] = max(last - (size - 1) // 2, min(first + size // 2, size // 2))
            remedy = (
                "; if the file has no centre or a wrong one, set the right one, such as: "
                "dataclasses.replace(scan, encoding=scan.encoding._replace("
                f"centre={tuple(centre)}))"
            )
            raise ValueError(
                f"IsmrmrdScan: {name} must be on a grid of {size} with centre "
                f"{self.encoding.centre[step - 1]}, got {first} to {last}; use kspace and counters"
                f"{remedy if last - first < size else ''}"
            )
        return place
