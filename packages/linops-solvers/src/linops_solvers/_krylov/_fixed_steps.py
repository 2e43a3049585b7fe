"""Conjugate gradients with a fixed number of steps that read no values, for compilers."""

from __future__ import annotations

import torch
from torch import Tensor

from .._shared._precision import narrowed
from ._conjugate_steps import Run
from ._definiteness import N_CHECKED


def fixed_steps(run: Run, n_steps: int) -> Tensor:
    """Return x after that number of steps; NaN where the eager solver would raise an error.

    A system stays as it is once its residual or curvature is lost in rounding.
    """
    state, definite, norm = run.state, run.definite, run.batch.norm(run.state.residual)
    lowest = definite.precision * (run.size + norm * (run.size == 0))
    run.active = ~(norm <= lowest)  # so that NaN propagates and is seen
    energy, length = run.begin()
    refused = run.active & definite.refutes_energy(energy, norm, length)
    for number in range(n_steps):
        found = run.step(is_checked=number < N_CHECKED)
        sizes = found.direction * found.image * found.residual
        bad = definite.refutes_curvature(found) | ~sizes.isfinite()
        if found.cross is not None:
            bad = bad | definite.refutes_conjugacy(found, length)
            definite.note_rounding(found, state.energy)
        length = found.searched
        refused = refused | (run.active & bad)
        run.active = run.active & (found.step != 0) & ~(found.residual <= lowest)
        wrong = definite.refutes_energy(found.energy, found.residual, length)
        refused = refused | (run.active & wrong)
        run.advance(found)
    x = state.x * run.own_unit()
    return narrowed(torch.where(refused, torch.nan, x), run.y.dtype)
