"""A job: its data, the solution that all ways must come close to, and how close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Data = Mapping[str, Array | float]


@dataclass(frozen=True)
class Problem:
    """One job; ``make(n)`` returns its data and its solution for a grid of n points a side."""

    name: str
    title: str
    size: int
    warm_up_size: int
    """Of a small problem that is solved first, so that nothing is loaded or compiled later."""
    tolerance: float
    """Relative error that must be reached."""
    make: Callable[[int], tuple[Data, Array]]
    is_magnitude: bool = False
    """Whether absolute values are compared: maps of coils have a phase of choice."""

    @property
    def description(self) -> str:
        """What is solved."""
        return " ".join((self.make.__doc__ or "").split())


def relative_error(result: Any, expected: Array, is_magnitude: bool) -> float:
    """Return the relative error of what a way has found."""
    x = np.asarray(result).squeeze().reshape(expected.shape)
    if is_magnitude:
        x, expected = np.abs(x), np.abs(expected)
    return float(np.linalg.norm(x - expected) / np.linalg.norm(expected))


def save(folder: Path, data: Data, expected: Array) -> None:
    """Write one file for each array; numbers are arrays of no dimension."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in {**data, "expected": expected}.items():
        np.save(folder / f"{name}.npy", value)


def load(folder: Path) -> tuple[dict[str, Any], Array]:
    """Return what `save` has written."""
    data: dict[str, Any] = {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}
    expected = data.pop("expected")
    return {name: value if value.ndim else value.item() for name, value in data.items()}, expected
