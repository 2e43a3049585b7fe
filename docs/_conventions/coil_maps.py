"""Coil maps: their norm, phase and support."""

from functools import cache
from typing import Any

import numpy as np
from bart import bart
from table import row

SECTION = "Coil maps"


@cache
def maps() -> dict[str, Any]:
    """Return maps (C, X, Y) of BART's phantom with 4 coils."""
    from sigpy import mri

    kspace = bart("phantom -k -s 4 -x 64")[:, :, None]
    lines = kspace[:, :, 0].transpose(2, 0, 1)
    lines = lines / abs(lines).max()
    return {
        "ecalib": bart("ecalib -m 1", kspace).transpose(2, 0, 1),
        "uncropped": bart("ecalib -m 1 -c 0", kspace).transpose(2, 0, 1),
        "intensity": bart("ecalib -m 1 -I", kspace).transpose(2, 0, 1),
        "caldir": bart("caldir 24", kspace).transpose(2, 0, 1),
        "sigpy": mri.app.EspiritCalib(lines, calib_width=24, show_pbar=False).run(),
    }


def norms(name: str) -> Any:
    return np.linalg.norm(maps()[name], axis=0)


@row(
    SECTION,
    "bart",
    guess="`ecalib` and sigpy's ESPIRiT have the same maps",
    here="`coil_maps.espirit` has BART's; divide by the phase of the first coil for sigpy's",
)
def phases() -> str:
    ours, theirs = maps()["ecalib"], maps()["sigpy"]
    both = (norms("ecalib") > 0) & (norms("sigpy") > 0)
    products = (ours.conj() * theirs).sum(0)[both]
    spread, zeros = (
        np.angle(products).std(),
        [float((norms(n) == 0).mean()) for n in ("ecalib", "sigpy")],
    )
    assert abs(products).mean() > 0.99 and spread > 1, spread
    assert abs(np.angle(theirs[0][norms("sigpy") > 0])).max() < 1e-5
    return (
        "only up to a phase in each pixel: BART's is that of the first principal component of the "
        f"coils (`-P`: of the first coil), sigpy's of the first coil; {zeros[0]:.0%} and "
        f"{zeros[1]:.0%} of the pixels are cropped to 0"
    )


@row(
    SECTION,
    "bart",
    guess="coil maps have a sum of squares of 1 in every pixel",
    here="`coil_maps.espirit`: 1 inside of `crop`, 0 outside",
)
def sums() -> str:
    inside = norms("ecalib")[norms("ecalib") > 0]
    assert np.allclose(inside, 1, atol=1e-4) and np.allclose(norms("uncropped"), 1, atol=1e-4)
    assert np.allclose(norms("caldir"), 1, atol=1e-4)
    intensity = norms("intensity")[norms("intensity") > 0]
    assert intensity.min() > 1
    return (
        "`ecalib` has 0 where it crops, and 1 everywhere with `-c 0`; with `-I` sums are from "
        f"{intensity.min():.2f} to {intensity.max():.2f}; `caldir` has 1 everywhere"
    )
