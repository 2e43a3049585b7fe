"""The contents of an ISMRMRD file, and its lines on a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from .._checks import check_real
from ._ismrmrd_header import Encoding, header_of

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
            or ``mask`` has another shape or no line.
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
        if len(fov) != 3 or not all(0 < length < math.inf for length in fov):
            raise ValueError(f"IsmrmrdScan: fov must be three lengths in mm, got {fov!r}")
        check_real("IsmrmrdScan", "dwell_time", dwell_time, 0, more=True)
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
        lengths = (float(fov[0]), float(fov[1]), float(fov[2]))
        encoding = Encoding("cartesian", (x, y, z), lengths, (x, y, z), lengths, (y // 2, z // 2))
        ones = torch.eye(3, device=kspace.device)
        axes = ("read_dir", "phase_dir", "slice_dir")
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
            header=header_of(encoding, n_coils),
            details={"position": torch.zeros(len(steps), 3, device=kspace.device)}
            | {name: one.expand(len(steps), 3) for name, one in zip(axes, ones, strict=True)},
        )

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
        names = ("position", "read_dir", "phase_dir", "slice_dir")
        if missing := [name for name in names if name not in self.details]:
            raise ValueError(f"IsmrmrdScan: the file must have {', '.join(missing)}, got none")
        shape = (self.kspace.shape[1], 3)
        for name in names:
            if self.details[name].shape != shape or not self.details[name].isfinite().all():
                raise ValueError(
                    f"IsmrmrdScan: {name} must be finite and of the shape {shape}, got the shape "
                    f"{tuple(self.details[name].shape)}"
                )
        position, *directions = (self.details[name].double() for name in names)
        matrix = torch.stack([direction[0] for direction in directions], 1)
        for name, direction in zip(names[1:], directions, strict=True):
            if (direction - direction[0]).abs().max() > 1e-4:
                raise ValueError(
                    f"IsmrmrdScan: {name} must be one direction for all lines, got "
                    f"{direction.unique(dim=0)[:3].tolist()}; select lines by where"
                )
        if (matrix.mT @ matrix - torch.eye(3, device=matrix.device)).abs().max() > 1e-3:
            raise ValueError(
                "IsmrmrdScan: read_dir, phase_dir and slice_dir must be perpendicular and of "
                f"length 1, got {matrix.mT.tolist()}"
            )
        if grid == "recon":
            sizes, fov = self.encoding.recon_size, self.encoding.recon_fov
        else:
            sizes, fov = self.encoding.encoded_size, self.encoding.encoded_fov
        steps = matrix * (matrix.new_tensor(fov) / matrix.new_tensor(sizes))
        number = self.counters["slice"]
        slices = number.unique()
        centres = torch.stack([position[number == one][0] for one in slices])
        if (position - centres[torch.searchsorted(slices, number)]).abs().max() > 1e-2:
            raise ValueError("IsmrmrdScan: position must be the same for all lines of a slice")
        index = matrix.new_tensor([size // 2 for size in sizes])
        if len(slices) > 1:
            step = (centres[-1] - centres[0]) / (len(slices) - 1)
            expected = centres[0] + matrix.new_tensor(range(len(slices)))[:, None] * step
            worst = (centres - expected).norm(dim=1).max()
            if sizes[2] > 1 or not step.any() or worst > 0.01 * step.norm():
                raise ValueError(
                    "IsmrmrdScan: slices must be single and equally spaced in the order of their "
                    f"counter, got {sizes[2]} partitions and the positions {centres.tolist()}; "
                    "select one by where={'slice': ...}"
                )
            steps[:, 2] = step
        affine = torch.eye(4, dtype=torch.float64, device=matrix.device)
        affine[:3, :3] = steps
        affine[:3, 3] = centres[0] - steps @ index
        affine[:2] *= -1  # from left and back to right and front
        return affine

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
