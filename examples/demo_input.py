"""What the demos make of their command lines, and of what is wrong in them."""

from __future__ import annotations

import sys

import torch


class BadInput(ValueError):
    """Input that cannot be used; the message is one line for the user."""


def refuse(program: str, message: str) -> int:
    """Say in one line what is wrong, and return the exit status."""
    print(f"{program}: {' '.join(message.split())}", file=sys.stderr)
    return 2


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on the CPU or on a GPU; torch has no type for the CPU."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "DefaultCPUAllocator" in str(error)


def check_range(option: str, value: float, low: float, high: float) -> None:
    """Raise if the value of a command line option is not in its range."""
    if not low <= value <= high:
        raise BadInput(f"{option} must be from {low} to {high}, got {value}")


def parse_batch(text: str, example: str = "C=2,Nz=4") -> dict[str, int]:
    """Return tile sizes from a string like ``example``."""
    sizes: dict[str, int] = {}
    for item in text.split(","):
        dim, _, size = (part.strip() for part in item.partition("="))
        is_size = size.isdecimal() and len(size) < 10
        if not dim.isidentifier() or not is_size or dim in sizes:
            raise BadInput(f"--batch must look like {example}, each name once, got {text[:80]!r}")
        if int(size) == 0:
            raise BadInput(f"--batch: tiles of {dim} must have a positive integer size, got 0")
        sizes[dim] = int(size)
    return sizes


def parse_devices(text: str | None) -> list[torch.device]:
    """Return the devices of a string like ``cuda:0,cuda:1``; all CUDA devices by default."""
    if text is None:
        count = torch.cuda.device_count()
        return [torch.device("cuda", k) for k in range(count)] or [torch.device("cpu")]
    devices = []
    for name in text.split(","):
        try:
            devices.append(torch.empty(0, device=name.strip()).device)
        except Exception as error:
            known = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
            raise BadInput(
                f"--devices must name devices of this machine ({', '.join(known)}), "
                f"got {name.strip()[:80]!r}"
            ) from error
        if devices[-1].type == "meta":
            raise BadInput("--devices must name devices that hold values, got 'meta'")
    return devices
