"""Functions and operators of MRI: coils, off-resonance, motion, echo planar imaging.

The operators are put around a transform (a Fourier transform or NUFFT) and maps of the coils:

>>> import torch
>>> from linops_core import FFT, Dense
>>> from linops_imaging import mri
>>> maps = torch.ones(2, 4, 4) + 0j
>>> S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
>>> field, times = torch.linspace(-50, 50, 16).view(4, 4), torch.linspace(0, 0.01, 16).view(4, 4)
>>> A = mri.TimeSegments(FFT(2, centered=True), field, times) @ S
>>> A.shape
(Nx, Ny) -> (C, Kx, Ky)

The names of :mod:`linops_imaging.coil_maps` and :mod:`linops_imaging.epi` are here, too.
"""

from ._mri._fit_motion import fit_motion as fit_motion
from ._mri._rigid_motion import rigid_motion as rigid_motion
from ._mri._time_segments import TimeSegments as TimeSegments
from .coil_maps import compress_coils as compress_coils
from .coil_maps import espirit as espirit
from .coil_maps import noise_covariance as noise_covariance
from .coil_maps import prewhiten as prewhiten
from .coil_maps import walsh as walsh
from .epi import LinePhase as LinePhase
from .epi import estimate_phase as estimate_phase
from .epi import trapezoid as trapezoid

__all__ = [
    "LinePhase",
    "TimeSegments",
    "compress_coils",
    "espirit",
    "estimate_phase",
    "fit_motion",
    "noise_covariance",
    "prewhiten",
    "rigid_motion",
    "trapezoid",
    "walsh",
]
