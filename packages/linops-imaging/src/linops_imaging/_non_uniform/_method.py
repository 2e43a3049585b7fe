"""The method of a NUFFT: which is the fastest, and why there is no table."""

from __future__ import annotations

from linops_core import Interpolate

from ._finufft_plan import is_installed
from ._kaiser_bessel import LEAST_OF_SINGLE


def plans_are_faster(
    sizes: tuple[int, ...], tol: float, device_type: str, *, is_for_coils: bool, has_table: bool
) -> bool:
    """Return whether plans of finufft take less time of many calls than the other methods.

    On a CPU a table takes less time for images in one and two dimensions that share it
    (``is_for_coils``), in single precision, for any number of locations and threads, as
    `benchmarks/bench_nufft.py` measures. Data that need a small ``tol`` are in double precision.
    On a GPU, of which few measurements are known, a table is taken if there is one. Without a
    table, plans are always faster.
    """
    is_table_fast = len(sizes) < 3 and is_for_coils and tol >= LEAST_OF_SINGLE
    is_table_taken = has_table and (is_table_fast or device_type != "cpu")
    return is_installed(device_type) and not is_table_taken


def refuse_table(interpolate: Interpolate, budget: int) -> None:
    """Raise the error that says why there is no table."""
    nbytes = interpolate.table_nbytes
    if not nbytes:
        raise ValueError(
            'NUFFT: method="table" needs locations that do not require gradients and were not made '
            'in torch.inference_mode, got others; use method="auto"'
        )
    raise ValueError(
        f"NUFFT: table_budget must be at least {nbytes} bytes for this table, got {budget}; raise "
        'it, choose a smaller width or a larger tol, or method="auto"'
    )
