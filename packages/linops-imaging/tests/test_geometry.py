"""The geometry of operators of images: half precision does not move it."""

import copy
import math

import pytest
import torch
from torch import nn

from linops_core import FFT
from linops_imaging import NUFFT, ConeBeam, FanBeam, ParallelBeam, ParallelBeam3D
from linops_imaging.epi import LinePhase
from linops_imaging.mri import TimeSegments
from memmap import memory_aware_to

LOCS, ANGLES = torch.linspace(-3.9, 3.7, 24).view(12, 2), torch.linspace(0.1, math.pi, 3)
SIZES, OFFSET = (8, 8), torch.tensor(0.3)
CASES = {
    **{
        method: NUFFT(LOCS, SIZES, ("K",), method=method)
        for method in ("table", "interpolate", "finufft")
    },
    "parallel": ParallelBeam(ANGLES, 9, SIZES, detector_offset=OFFSET),
    "parallel 3d": ParallelBeam3D(ANGLES, (3, 9), (2, *SIZES), tilt=OFFSET),
    "fan": FanBeam(ANGLES, 9, SIZES, 40.0, 20.0),
    "cone": ConeBeam(ANGLES, (3, 9), (2, *SIZES), 40.0, 20.0, heights=ANGLES),
    "off-resonance": TimeSegments(
        FFT(2),
        torch.linspace(-33.3, 51.7, 64).view(SIZES),
        torch.linspace(0.001, 0.02, 8)[:, None].repeat(1, 8),
    ),
    "echo planar": LinePhase(1.2345, OFFSET, torch.tensor([True, False] * 4), 8),
}


# Complex weights become complex32 by `memory_aware_to`, in which torch computes little.
@pytest.mark.parametrize(
    ("name", "is_memory_aware"),
    [(name, False) for name in CASES] + [(name, True) for name in CASES if name[:3] != "off"],
)
def test_a_network_in_half_precision_keeps_the_geometry(name: str, is_memory_aware: bool) -> None:
    A = CASES[name]
    net = nn.ModuleList([copy.deepcopy(A)])
    net = memory_aware_to(net, dtype=torch.float16) if is_memory_aware else net.half()
    (B,) = net
    x = torch.randn(
        [n or 8 for n in A.sizes("input")][-3 if "3d" in name or name == "cone" else -2 :]
    )
    assert torch.equal(B(x), A(x))
    assert not any(t.dtype is torch.float16 for t in (*net.parameters(), *net.buffers()))
