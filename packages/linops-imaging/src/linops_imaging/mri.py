"""Off-resonance and motion while k-space is measured."""

from ._mri._fit_motion import fit_motion as fit_motion
from ._mri._rigid_motion import rigid_motion as rigid_motion
from ._mri._time_segments import TimeSegments as TimeSegments

__all__ = ["TimeSegments", "fit_motion", "rigid_motion"]
