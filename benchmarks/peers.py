"""The SENSE normal operator in other libraries, as their users write it; as many as there are."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor


def peers(maps: Tensor, image: Tensor, mask: Tensor) -> dict[str, Callable[[], object]]:
    """Return one way for each library that is installed.

    Parameters
    ----------
    maps : Tensor
        Coil maps, shape (coils, Nx, Ny), complex64.
    image : Tensor
        Shape (Nx, Ny).
    mask : Tensor
        Shape (Nx, Ny), 0 or 1, with the centre of k-space in the middle.
    """
    makers: Mapping[str, Callable[[Any, Tensor, Tensor, Tensor], Callable[[], object]]] = {
        "sigpy": _sigpy,
        "pylops": _pylops,
        "mrpro": _mrpro,
    }
    found = {}
    for name, make in makers.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                library = importlib.import_module(name)
        except Exception as error:  # whatever goes wrong there, the others can be timed
            print(f"{name} is left out: {type(error).__name__}: {error}")
        else:
            found[name] = make(library, maps, image, mask)
    return found


def _sigpy(sigpy: Any, maps: Tensor, image: Tensor, mask: Tensor) -> Callable[[], object]:
    arrays = maps.numpy(), image.numpy(), mask.numpy()
    S = sigpy.linop.Multiply(arrays[1].shape, arrays[0])
    F = sigpy.linop.FFT(S.oshape, axes=(-2, -1))
    M = sigpy.linop.Multiply(F.oshape, arrays[2])
    A = (M * F * S).N
    return lambda: A * arrays[1]


def _pylops(pylops: Any, maps: Tensor, image: Tensor, mask: Tensor) -> Callable[[], object]:
    weights, x = maps.numpy(), image.numpy().ravel()
    coils = [pylops.Diagonal(one.ravel(), dtype="complex64") for one in weights]
    F = pylops.signalprocessing.FFTND(
        weights.shape,
        axes=(1, 2),
        norm="ortho",
        ifftshift_before=True,
        fftshift_after=True,
        engine="scipy",
        dtype="complex64",
    )
    M = pylops.Diagonal(mask.expand(maps.shape).numpy().ravel().copy(), dtype="complex64")
    A = M * F * pylops.VStack(coils)
    normal = A.H * A
    return lambda: normal @ x


def _mrpro(mrpro: Any, maps: Tensor, image: Tensor, mask: Tensor) -> Callable[[], object]:
    operators = mrpro.operators
    S = operators.SensitivityOp(maps[None, :, None])
    F = operators.FastFourierOp(dim=(-2, -1))
    M = operators.CartesianMaskingOp(mask[None, None, None])
    normal = (M @ F @ S).gram
    x = image[None, None, None]
    return lambda: normal(x)[0]
