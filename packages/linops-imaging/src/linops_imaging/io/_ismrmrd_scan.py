"""The contents of an ISMRMRD file, and its lines on a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from linops_core.siblings import check_real

from .._checks import sizes_of_grid
from ._geometry import affine_of
from ._ismrmrd_fields import COUNTERS, DIRECTIONS, REPEATED
from ._ismrmrd_header import Encoding, header_of

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
    details: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    """Further numbers of the header of each line, (L,) or (L, n), by the names of the standard, if
    the file has them: ``acquisition_time_stamp`` and ``physiology_time_stamp`` in ticks of the
    scanner; ``position``, ``read_dir``, ``phase_dir``, ``slice_dir`` and
    ``patient_table_position``; ``user`` (counters), ``user_int``, ``user_float``; ``scan_counter``
    and ``measurement_uid``. Positions are in mm; the axes point to the left, the back and the top
    of the patient."""

    @classmethod
    def from_grid(
        cls,
        kspace: Tensor,
        fov: Sequence[float],
        *,
        mask: Tensor | None = None,
        dwell_time: float = 1.0,
        recon_size: Sequence[int] | None = None,
    ) -> IsmrmrdScan:
        """Return the scan of a Cartesian grid, for :func:`write_ismrmrd`.

        Parameters
        ----------
        kspace : Tensor
            Complex, (C, [Z,] Y, X), with the centre of k-space at index N // 2.
        fov : sequence of float
            Field of view along X, Y and Z in mm; for two axes Z is the thickness of the slice.
        mask : Tensor, optional
            Which lines were measured, bool, ([Z,] Y). Default: all.
        dwell_time : float
            Time from one sample to the next in microseconds.
        recon_size : (int, int, int), optional
            Pixels of the image along X, Y and Z, in the middle of the grid: (X // 2, Y, Z) if the
            readout is oversampled twice. Default: all.

        Returns
        -------
        IsmrmrdScan
            Of complex64. Its position is the centre of the scanner, and its axes X, Y, Z point to
            the left, the back and the top of the patient. Change ``details`` with
            ``dataclasses.replace``.

        Raises
        ------
        TypeError
            If ``kspace`` or ``mask`` is not a tensor, or ``fov`` is not a sequence.
        ValueError
            If ``kspace`` does not have three or four axes, ``fov`` is not three positive numbers,
            ``mask`` has another shape or no line, or ``recon_size`` is not three numbers from 1 to
            the sizes of the grid.
        """
        for name, tensor in (("kspace", kspace), ("mask", mask)):
            if not isinstance(tensor, Tensor) and (name == "kspace" or tensor is not None):
                raise TypeError(f"IsmrmrdScan: {name} must be a torch.Tensor, got {type(tensor)}")
        if not isinstance(fov, Sequence):
            raise TypeError(f"IsmrmrdScan: fov must be three lengths in mm, got {fov!r}")
        kspace = kspace.detach()
        if kspace.ndim not in (3, 4) or not kspace.numel() or not kspace.is_complex():
            raise ValueError(
                "IsmrmrdScan: kspace must be complex with the axes (C, [Z,] Y, X), got "
                f"{kspace.dtype} of the shape {tuple(kspace.shape)}"
            )
        if len(fov) != 3:
            raise ValueError(f"IsmrmrdScan: fov must be three lengths in mm, got {fov!r}")
        fov = [check_real("IsmrmrdScan", "fov", length, above=0) for length in fov]
        check_real("IsmrmrdScan", "dwell_time", dwell_time, above=0)
        grid = kspace if kspace.ndim == 4 else kspace.unsqueeze(1)
        n_coils, *sizes = grid.shape
        z, y, x = sizes
        if mask is None:
            mask = torch.ones(kspace.shape[1:-1], dtype=torch.bool, device=kspace.device)
        if mask.shape != kspace.shape[1:-1] or mask.dtype != torch.bool or not mask.any():
            raise ValueError(
                f"IsmrmrdScan: mask must be of bool, of the shape {tuple(kspace.shape[1:-1])} and "
                f"have a line, got {mask.dtype} of the shape {tuple(mask.shape)}"
            )
        steps = mask.view(z, y).nonzero()
        zeros = torch.zeros_like(steps[:, 0])
        whole = (x, y, z)
        recon: Sequence[int] = whole
        if recon_size is not None:
            recon = sizes_of_grid("IsmrmrdScan", recon_size, 3, name="recon_size")
        if any(n > most for n, most in zip(recon, whole, strict=True)):
            raise ValueError(f"IsmrmrdScan: recon_size must be at most {whole}, got {recon}")
        recon_fov = [length * n / most for length, n, most in zip(fov, recon, whole, strict=True)]
        sides: Any = (*map(tuple, (whole, fov, recon, recon_fov)), (y // 2, z // 2))
        encoding = Encoding("cartesian", *sides)
        ones = torch.eye(3, device=kspace.device)
        return cls(
            kspace=grid[:, steps[:, 0], steps[:, 1]].to(torch.complex64),
            counters=dict.fromkeys(COUNTERS, zeros)
            | {"kspace_encode_step_1": steps[:, 1], "kspace_encode_step_2": steps[:, 0]},
            centre_sample=torch.full_like(zeros, x // 2),
            discarded=torch.zeros_like(steps),
            is_reversed=torch.zeros_like(zeros, dtype=torch.bool),
            trajectory=None,
            noise=None,
            dwell_time=dwell_time,
            noise_dwell_time=None,
            encoding=encoding,
            left_out={},
            header=header_of([encoding], n_coils),
            details={"position": torch.zeros(len(steps), 3, device=kspace.device)}
            | {name: one.expand(len(steps), 3) for name, one in zip(DIRECTIONS, ones, strict=True)},
        )

    def on_grid(self) -> tuple[Tensor, Tensor]:
        """Return Cartesian lines on the encoded grid, and which of its points were measured.

        The centre of k-space is at index N // 2 along each axis, as in a centred
        :class:`linops_core.FFT`. Lines that were read backwards are turned. The phase between them
        and the others remains: :class:`linops_imaging.mri.LinePhase` is its operator.

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
            If the lines are not Cartesian, samples were taken on ramps of the gradient, two lines
            have the same place, or a line is outside of the grid.
        """
        sizes, line = self._lines_on_grid()
        self._check_readouts()
        kspace, mask = self._put(line, math.prod(sizes))
        return kspace.view(-1, *sizes, kspace.shape[-1]), mask.view(*sizes, mask.shape[-1])

    def to_grid(self, values: Tensor) -> Tensor:
        """Return numbers of the lines at the places of the lines in :meth:`on_grid`.

        For example, ``scan.to_grid(scan.is_reversed)`` says which lines of the grid were read
        backwards.

        Parameters
        ----------
        values : Tensor
            (L, ...), in the order of the lines.

        Returns
        -------
        Tensor
            (..., [Z,] Y), and then the further axes of ``values``; 0 where no line was measured.

        Raises
        ------
        ValueError
            As for :meth:`on_grid`, or if there is not one entry for each line.
        """
        sizes, line = self._lines_on_grid()
        if values.ndim < 1 or len(values) != len(line):
            raise ValueError(
                f"IsmrmrdScan: values must have an entry for each of {len(line)} lines, got the "
                f"shape {tuple(values.shape)}"
            )
        grid = values.new_zeros(math.prod(sizes), *values.shape[1:])
        grid[line] = values
        return grid.view(*sizes, *values.shape[1:])

    def readouts(self) -> Tensor:
        """Return the lines in their order, each on the encoded grid along the readout.

        They are turned if they were read backwards, and their centre is at index X // 2. It is for
        lines without a place of their own, such as the reference lines of
        :func:`linops_imaging.mri.estimate_phase`.

        Returns
        -------
        Tensor
            complex64, (C, L, X); 0 where nothing was measured.

        Raises
        ------
        ValueError
            If the lines are not Cartesian, samples were taken on ramps of the gradient, or a line
            is longer than the grid.
        """
        self._check_cartesian()
        self._check_readouts()
        n_lines = self.kspace.shape[1]
        return self._put(torch.arange(n_lines, device=self.centre_sample.device), n_lines)[0]

    def _check_cartesian(self) -> None:
        if self.encoding.trajectory not in ("cartesian", "epi"):
            raise ValueError(
                "IsmrmrdScan: the trajectory must be Cartesian for a grid, got "
                f"{self.encoding.trajectory!r}; use kspace and trajectory"
            )

    def _check_readouts(self) -> None:
        """Raise an error if the header says that samples do not have equal distances."""
        told, n_samples = self.encoding.parameters, self.kspace.shape[-1]
        up, flat, down = (told.get(f"{name}Time", 0) for name in ("rampUp", "flatTop", "rampDown"))
        dwell = told.get("dwellTime", self.dwell_time)
        constant = max(0, flat - abs(up - down))  # the readout is in the middle of the gradient
        if n_samples * dwell > 1.001 * constant and up + down:
            raise ValueError(
                f"IsmrmrdScan: readouts must be at equal distances for a grid, got {n_samples} "
                f"samples of {dwell:g} us for a gradient that is constant for {constant:g} us "
                "around its middle; use a NUFFT along the readout, with the locations "
                f"linops_imaging.mri.trapezoid({n_samples}, {self.encoding.encoded_size[0]}, "
                f"{dwell:g}, {up:g}, {flat:g}, {down:g})"
            )

    def _lines_on_grid(self) -> tuple[list[int], Tensor]:
        """Return the sizes of the grid without its readout, and the index in it of each line."""
        self._check_cartesian()
        several = {name: self.counters[name].unique() for name in REPEATED}
        several = {name: values for name, values in several.items() if len(values) > 1}
        _, y, z = self.encoding.encoded_size
        sizes = [*map(len, several.values()), z, y]
        n_lines = math.prod(sizes)
        if n_lines > _MOST_EMPTY * max(1, self.kspace.shape[1]):
            raise ValueError(
                f"IsmrmrdScan: the grid must have at most {_MOST_EMPTY} lines for each measured "
                f"line, got {n_lines} for {dict(zip([*several, 'Z', 'Y'], sizes, strict=True))}"
            )
        indices = [
            torch.searchsorted(values, self.counters[name]) for name, values in several.items()
        ]
        indices += [self._indices(2, z), self._indices(1, y)]
        line = torch.zeros_like(self.centre_sample)
        for index, size in zip(indices, sizes, strict=True):
            line = line * size + index
        n_repeated = len(line) - len(line.unique())
        if n_repeated:
            raise ValueError(
                f"IsmrmrdScan: lines must have different counters for a grid, got {n_repeated} "
                "with the counters of another line; use kspace and counters"
            )
        return [*sizes[:-2], *([z] if z > 1 else []), y], line

    def _put(self, line: Tensor, n_lines: int) -> tuple[Tensor, Tensor]:
        """Return lines of the encoded grid with these indices, and which points were measured."""
        x, n_samples = self.encoding.encoded_size[0], self.kspace.shape[-1]
        kspace = self.kspace.new_zeros(len(self.kspace), n_lines, x)
        mask = torch.zeros(n_lines, x, dtype=torch.bool, device=line.device)
        layout = torch.stack([self.centre_sample, *self.discarded.unbind(-1), self.is_reversed], -1)
        for row in layout.unique(dim=0):
            centre, first, n_after, backwards = row.tolist()
            n_used = n_samples - first - n_after
            column = x // 2 - (centre - first)
            if backwards:  # the last sample comes first
                column = x // 2 - (n_samples - 1 - centre - n_after)
            if n_used <= 0:
                continue
            if column < 0 or column + n_used > x:
                remedy = (
                    "or, if the file counts the centre of lines that were read backwards from "
                    "their end: dataclasses.replace(scan, centre_sample=torch.where("
                    f"scan.is_reversed, {n_samples - 1} - scan.centre_sample, scan.centre_sample))"
                    if backwards
                    else "or set the right centre if the file has none: dataclasses.replace(scan, "
                    f"centre_sample=torch.full_like(scan.centre_sample, {n_samples // 2}))"
                )
                raise ValueError(
                    f"IsmrmrdScan: lines of {n_samples} samples about centre_sample must fit {x} "
                    f"points of the grid, got the centre {centre}{' read backwards' * backwards}; "
                    f"use kspace{f', {remedy}' if n_used <= x else ''}"
                )
            alike = (layout == row).all(-1)
            to, of_all = line[alike], bool(alike.all())
            n_coils = max(1, _AT_ONCE // (len(to) * n_used))
            parts = zip(self.kspace.split(n_coils), kspace.split(n_coils), strict=True)
            for given, grid in parts:
                used = (given if of_all else given[:, alike]).narrow(2, first, n_used)
                used = used.flip(-1) if backwards else used
                grid.narrow(2, column, n_used).index_copy_(1, to, used)
            mask.narrow(1, column, n_used)[to] = True
        return kspace, mask

    def affine(self, grid: Literal["recon", "encoded"] = "recon") -> Tensor:
        """Return the map from indices to positions in the scanner, for ``io.write_nifti``.

        It is for an image with the axes X, Y, Z (or X, Y and slices), with indices that grow along
        the directions of reading, phase encoding and slices. The position in the header is that of
        index N // 2 of X, Y and Z, as a centred :class:`linops_core.FFT` has it.

        Parameters
        ----------
        grid : {"recon", "encoded"}
            Whose sizes and field of view to take. An image on the encoded grid becomes one on the
            grid of the image by a :class:`linops_core.Crop`, which removes oversampling.

        Returns
        -------
        Tensor
            float64, (4, 4), in mm: ``affine @ [i, j, k, 1]`` is a position. Its axes point to the
            right, the front and the top of the patient, as in NIfTI.

        Raises
        ------
        ValueError
            If the file lacks the positions or directions; if the directions are not perpendicular
            and of length 1, or differ between lines; if positions differ within a slice; or if
            slices are not equally spaced in the order of their counter.
        """
        if grid not in ("recon", "encoded"):
            raise ValueError(f"IsmrmrdScan: grid must be 'recon' or 'encoded', got {grid!r}")
        if grid == "recon":
            sizes, fov = self.encoding.recon_size, self.encoding.recon_fov
        else:
            sizes, fov = self.encoding.encoded_size, self.encoding.encoded_fov
        return affine_of("IsmrmrdScan", self.details, self.counters["slice"], sizes, fov)

    def _indices(self, step: int, size: int) -> Tensor:
        """Return the index on the grid of each line."""
        name = f"kspace_encode_step_{step}"
        index = self.counters[name] - self.encoding.centre[step - 1] + size // 2
        if ((index < 0) | (index >= size)).any():
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
        return index
