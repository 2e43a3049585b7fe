"""Other libraries, used as their users do; as many as are installed."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from calls import Work
from torch import Tensor

_DECLARED: list[torch.library.Library] = []  # which last as long as these objects
PEERS = ("sigpy", "pylops", "mrpro")


def peers(maps: Tensor, image: Tensor, mask: Tensor) -> dict[str, Work]:
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
    makers: Mapping[str, Callable[[Any, Tensor, Tensor, Tensor], Work]] = {
        "sigpy": _sigpy,
        "pylops": _pylops,
        "mrpro": _mrpro,
    }
    libraries = importable(PEERS)
    return {name: makers[name](library, maps, image, mask) for name, library in libraries.items()}


def calls_of_peers(weight: Tensor, x: Tensor) -> dict[str, tuple[Work, Work]]:
    """Return for each library its diagonal operator, and the bare product of the same arrays."""
    w, v = weight.numpy(), x.numpy()
    result: dict[str, tuple[Work, Work]] = {}
    libraries = importable(("sigpy", "pylops"))
    if "sigpy" in libraries:
        M = libraries["sigpy"].linop.Multiply(v.shape, w)
        result["sigpy, Multiply"] = (lambda: M * v, lambda: w * v)
    if "pylops" in libraries:
        D = libraries["pylops"].Diagonal(w, dtype="complex64")
        result["PyLops, Diagonal"] = (lambda: D @ v, lambda: w * v)
    return result


def importable(names: Iterable[str]) -> dict[str, Any]:
    """Return the libraries that are there and can be imported, by name."""
    result = {}
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name in ("mrinufft", "mrpro"):
                    let_torchvision_load()
                result[name] = importlib.import_module(name)
        except Exception as error:  # whatever goes wrong there, the others can be timed
            print(f"{name} is left out: {type(error).__name__}: {error}")
    return result


def let_torchvision_load() -> None:
    """Declare two functions that it expects, and mrpro does not call, where its binaries differ."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library = torch.library.Library("torchvision", "DEF")
        for function in ("nms", "qnms"):
            library.define(function + boxes)
        _DECLARED.append(library)


def _sigpy(sigpy: Any, maps: Tensor, image: Tensor, mask: Tensor) -> Work:
    arrays = maps.numpy(), image.numpy(), mask.numpy()
    S = sigpy.linop.Multiply(arrays[1].shape, arrays[0])
    F = sigpy.linop.FFT(S.oshape, axes=(-2, -1))
    M = sigpy.linop.Multiply(F.oshape, arrays[2])
    A = (M * F * S).N
    return lambda: A * arrays[1]


def _pylops(pylops: Any, maps: Tensor, image: Tensor, mask: Tensor) -> Work:
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


def _mrpro(mrpro: Any, maps: Tensor, image: Tensor, mask: Tensor) -> Work:
    operators = mrpro.operators
    S = operators.SensitivityOp(maps[None, :, None])
    F = operators.FastFourierOp(dim=(-2, -1))
    M = operators.CartesianMaskingOp(mask[None, None, None])
    normal = (M @ F @ S).gram
    x = image[None, None, None]
    return lambda: normal(x)[0]
