"""Hazards: what a trace costs for each operator, and the analysis of long programs.

Times are those of the processor, in one thread.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch
from results import record
from torch import nn

from memmap.dataflow import (
    FillOperation,
    Operation,
    Tensor,
    TensorView,
    TransformOperation,
    analyze_dependencies,
    trace,
)


def main() -> None:
    """Check each number of hazards, and time it."""
    torch.set_num_threads(1)
    x = torch.zeros(8)
    seconds = best_of(lambda: trace(add_many, x)) - best_of(lambda: add_many(x))
    record("Trace, processor time", "each of 1,000 operators", seconds, "ms")
    print(f"trace, for each of 1,000 operators             {seconds:8.3f} ms")
    for name, program, n_waves in (
        ("three rounds over 10,000 slices", slices(10_000), 5),
        ("5,000 columns of a matrix", columns(512, 5_000), 3),
        ("one training step of a small transformer", training_step(), None),
    ):
        graph = analyze_dependencies(program)
        assert n_waves is None or len(graph.waves()) == n_waves
        seconds = best_of(lambda program=program: analyze_dependencies(program))  # type: ignore[misc]
        size = f"{len(program)} operations, {len(graph.edges)} hazards"
        record("Analysis, processor time", f"{name}: {size}", seconds, "s")
        print(
            f"{name:46} {seconds:8.3f} s, {len(program):6} operations, {len(graph.edges):6} hazards"
        )


def add_many(x: torch.Tensor) -> None:
    """Run 1,000 operators."""
    for _ in range(1_000):
        x.add_(1)


def slices(n: int) -> list[Operation]:
    """A buffer that is cleared, changed slice by slice three times, and scaled."""
    tensor = Tensor("flat", (10 * n,))
    whole = TensorView("all", tensor)
    parts = [TensorView(f"part{i}", tensor, 10 * i, (10,)) for i in range(n)]
    program: list[Operation] = [FillOperation("clear").set_outputs(whole)]
    for turn in range(3):
        program += [
            TransformOperation(f"{turn}:{part.name}").set_inputs(part).set_outputs(part)
            for part in parts
        ]
    return [*program, TransformOperation("scale").set_inputs(whole).set_outputs(whole)]


def columns(n_rows: int, n_columns: int) -> list[Operation]:
    """A matrix that is cleared, changed column by column, and scaled."""
    tensor = Tensor("matrix", (n_rows, n_columns))
    whole = TensorView("all", tensor)
    program: list[Operation] = [FillOperation("clear").set_outputs(whole)]
    for i in range(n_columns):
        column = TensorView(f"column{i}", tensor, i, (n_rows,), (n_columns,))
        program.append(TransformOperation(column.name).set_inputs(column).set_outputs(column))
    return [*program, TransformOperation("scale").set_inputs(whole).set_outputs(whole)]


def training_step() -> list[Operation]:
    """Forward and backward pass, and the optimizer's step."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 4)
    optimizer = torch.optim.Adam(model.parameters())

    def step(model: nn.Module, x: torch.Tensor) -> None:
        model(x).square().mean().backward()
        optimizer.step()

    return trace(step, model, torch.randn(2, 10, 32))


def best_of(work: Callable[[], object], rounds: int = 5) -> float:
    """Seconds of the fastest of some rounds."""
    seconds = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
