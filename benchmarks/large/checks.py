"""What is measured of an operator, a proximal map and a solver."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import resource
import signal
import threading
import time
from typing import Any

import operators
import solvers
import torch
from torch import Tensor

MOST_ERROR = 1e-5
"""Relative error of a result in single precision."""
# Positions of detectors are in single precision, of some hundred or thousand pixels.
MORE_ERROR = dict.fromkeys(["ConeBeam", "FanBeam", "ParallelBeam", "ParallelBeam3D"], 1e-3)
MORE_ERROR["Dense with long rows"] = 1e-4
MOST_MEMORY = 12.0
"""Peak of one product, in sizes of input and output together."""
BEYOND = 2**31 + 16
SECONDS = 1.0


def doubled(x: Tensor) -> Tensor:
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def difference(result: Tensor, expected: Tensor) -> float:
    """Return the relative error, from sums in double precision of parts."""
    assert result.shape == expected.shape, (result.shape, expected.shape)
    squares = [0.0, 0.0]
    pairs = zip(result.reshape(-1).split(2**22), expected.reshape(-1).split(2**22), strict=True)
    for a, b in pairs:
        squares[0] += float((doubled(a) - b).abs().square().sum())
        squares[1] += float(b.abs().square().sum())
    return float((squares[0] / max(squares[1], 1e-300)) ** 0.5)


def inner(a: Tensor, b: Tensor) -> complex:
    pairs = zip(a.reshape(-1).split(2**22), b.reshape(-1).split(2**22), strict=True)
    return complex(sum(torch.vdot(*map(doubled, pair)).item() for pair in pairs))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def of_operator(name: str, n: int) -> dict[str, Any]:
    """Compare with double precision, both directions, and with the definition of the adjoint."""
    torch.manual_seed(0)
    A, shape = operators.OPERATORS[name](n)
    x = operators.random_input(name, shape)
    with torch.no_grad():
        before = peak()
        y = A(x)
        moved = (peak() - before) / (x.nbytes + y.nbytes)
        back = A.H(y)
        exact = copy.deepcopy(A).double()
        there = exact(doubled(x))
        forward = difference(y, there)
        del y
        again = exact.H(there)
        adjoint = difference(back, again)
        del back
        left, right = inner(there, there), inner(doubled(x), again)
    real = name in ("RealPart", "ImagPart")  # whose adjoint is for real inner products
    gap = abs(left.real - right.real if real else left - right) / max(abs(left), 1e-300)
    result = {"forward": forward, "adjoint": adjoint, "gap": gap, "memory": round(moved, 2)}
    most = MORE_ERROR.get(name, MOST_ERROR)
    assert forward < most and adjoint < most and gap < 1e-9, result
    assert n < 2**20 or moved < MOST_MEMORY, result
    return result


def of_meta(name: str, n: int) -> dict[str, Any]:
    """Return the shape for more than 2^31 entries, which indices of 32 bits do not count."""
    n = BEYOND - BEYOND % operators.FULL + operators.FULL
    with torch.device("meta"):
        A, shape = operators.OPERATORS[name](n)
        dtype = torch.float32 if name in operators.REAL else torch.complex64
        x = torch.empty(shape, dtype=dtype)
        y = A(x)
        assert A.H(y).shape == x.shape and A.N(x).shape == x.shape
    return {"ishape": list(x.shape), "oshape": list(y.shape)}


def of_proximal(name: str, n: int) -> dict[str, Any]:
    """Compare map and value with double precision."""
    torch.manual_seed(0)
    make, kind, shape = solvers.PROXIMALS[name]
    z = torch.randn(shape(n), dtype=kind, generator=torch.Generator().manual_seed(1))
    proximal = make(n)
    p, expected = proximal(z, 0.7), proximal(doubled(z), 0.7)
    result = {"error": difference(p, expected)}
    if getattr(proximal, "value_in", None) is not None:
        values = float(proximal.value(z)), float(proximal.value(doubled(z)))
        same = values[0] == values[1]
        result["value"] = 0.0 if same else abs(values[0] - values[1]) / abs(values[1])
    assert all(error < MOST_ERROR for error in result.values()), result
    return result


def of_solver(name: str, n: int) -> dict[str, Any]:
    """Compare with double precision, and interrupt a long run."""
    torch.manual_seed(0)
    solve = solvers.SOLVERS[name]
    single, double = solve(n, torch.float32, 5, None), solve(n, torch.float64, 5, None)
    result: dict[str, Any] = {"error": difference(single, double)}
    assert result["error"] < 1e-3, result
    del single, double
    if name in solvers.NO_CALLBACK:
        return result
    # Interrupt in the middle of a step that is not the first.
    steps, sent = [], []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    def watch(step: Any) -> None:
        steps.append(time.perf_counter())
        if len(steps) == 2:
            threading.Timer((steps[1] - steps[0]) / 3, interrupt).start()

    bar = io.StringIO()
    try:
        with contextlib.redirect_stderr(bar):
            solve(n, torch.float32, 10**6, watch)
    except KeyboardInterrupt:
        result["heard"] = round(time.perf_counter() - sent[0], 2)
    assert "it" in bar.getvalue(), "no progress bar"
    assert result.get("heard", 1e9) < SECONDS + (steps[1] - steps[0]), result
    return result
