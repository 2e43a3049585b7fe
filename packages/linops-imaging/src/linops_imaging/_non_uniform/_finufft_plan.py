"""Plans of finufft on a CPU, and of cufinufft on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._extras import needed

Execute: TypeAlias = Callable[[Tensor], Tensor]
"""Maps contiguous images, stacked along the first axis, to values at locations, or back."""

LIBRARIES = {"cpu": "finufft", "cuda": "cufinufft"}
"""The library for each type of device; the extra of this package has the same name."""


def library_for(device_type: str) -> Any:
    """Return the library that computes on such a device, if it is installed."""
    name = LIBRARIES[device_type]
    return needed(name, "NUFFT", name)


def planned(
    locs: Tensor, sizes: Sequence[int], n: int, dtype: torch.dtype, eps: float, *, is_back: bool
) -> Execute:
    """Return the function that transforms ``n`` images, or ``n`` sets of values at the locations.

    On a GPU it runs on the current stream of this call.
    """
    device = locs.device
    turns = 2 * math.pi / torch.tensor(sizes, dtype=torch.float64, device=device)
    angles = (locs.reshape(-1, len(sizes)).double() * turns).to(dtype.to_real())
    axes = [at.contiguous() for at in angles.unbind(-1)]
    kind, sign = (1, 1) if is_back else (2, -1)
    options: dict[str, object] = {"dtype": str(dtype).removeprefix("torch.")}
    if device.type == "cpu":
        options["nthreads"] = torch.get_num_threads()
    else:
        options["gpu_device_id"] = device.index
        options["gpu_stream"] = torch.cuda.current_stream(device).cuda_stream
    eps = max(eps, torch.finfo(dtype).eps)
    plan = library_for(device.type).Plan(kind, tuple(sizes), n, eps, sign, **options)
    if device.type == "cpu":
        plan.setpts(*(at.numpy() for at in axes))
        return lambda part: torch.from_numpy(plan.execute(part.numpy()))
    plan.setpts(*axes)
    own = tuple(sizes) if is_back else (len(angles),)

    def execute(part: Tensor) -> Tensor:
        result = part.new_empty(n, *own)
        plan.execute(part, result)
        return result

    return execute
