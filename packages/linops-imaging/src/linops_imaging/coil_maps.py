"""Coil sensitivities estimated from data, coil compression, and noise prewhitening.

All functions take tensors whose axes have names: ``dims`` names every axis of the tensor, in order,
and ``coil_dim`` and ``grid_dims`` say which of them are the coils and the grid.
"""

from ._coils._coil_mixing import compress_coils as compress_coils
from ._coils._coil_mixing import noise_covariance as noise_covariance
from ._coils._coil_mixing import prewhiten as prewhiten
from ._coils._espirit import espirit as espirit
from ._coils._walsh import walsh as walsh

__all__ = ["compress_coils", "espirit", "noise_covariance", "prewhiten", "walsh"]
