"""The operators and data of medical imaging on named dimensions."""

from . import io, masks, phantoms, trajectories
from ._fbp import fbp as fbp
from ._parallel_beam import ParallelBeam as ParallelBeam
from ._wavelet import Wavelet as Wavelet

__all__ = ["ParallelBeam", "Wavelet", "fbp", "io", "masks", "phantoms", "trajectories"]
