"""Collectives on gloo, and what loses the bits of a lazily conjugated tensor."""

import io
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from table import row

SECTION = "Ranks and bits"
N_RANKS = 3


@cache
def of_ranks() -> list[dict[str, Any]]:
    """Return what each of three ranks sees."""
    program = Path(__file__).with_name("of_ranks.py")
    with tempfile.TemporaryDirectory() as folder:
        running = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "ignore",
                    program,
                    str(rank),
                    str(N_RANKS),
                    f"{folder}/meet",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for rank in range(N_RANKS)
        ]
        outputs = [each.communicate(timeout=120)[0] for each in running]
    return [json.loads(output) for output in outputs]


@row(
    SECTION,
    "torch",
    guess="gloo reduces complex tensors with every operation or with none",
    here="`linops_distributed` adds only",
)
def complex_collectives() -> str:
    for found in of_ranks():
        assert found["SUM"] == ["(3+6j)"] * 2 and found["AVG"] == ["(1+2j)"] * 2, found
        assert found["PRODUCT"] == found["MAX"] == "ValueError", found
    return "SUM and AVG work; PRODUCT and MAX raise ValueError"


@row(
    SECTION,
    "torch",
    guess="`all_reduce` of a strided view sums it, or raises an error",
    here="`linops_distributed` exchanges contiguous tensors; pass `x.contiguous()` yourself",
)
def strided_collectives() -> str:
    found = of_ranks()
    assert all(each["transposed"] == ["0.0", "12.0", "6.0", "18.0"] for each in found)
    assert found[0]["column"] == ["0.0", "12.0", "4.0", "6.0"]  # 0, 12, 24, 36 were right
    return (
        "a transposed tensor is summed; of a column of a 4 x 2 tensor, gloo sums the first "
        "four numbers in memory: 2 of 4 are right, and the other column is overwritten"
    )


@row(
    SECTION,
    "torch",
    guess="`all_reduce(x)` of a lazy view (`z.conj()`, `z.conj().imag`) resolves it, or raises",
    here="`x.resolve_conj()`, `x.resolve_neg()` before",
)
def lazy_collectives() -> str:
    found = of_ranks()
    assert [each["conjugate"] for each in found] == ["RuntimeError"] * N_RANKS
    assert [each["negative"] for each in found] == [["-1.0"] * 2, ["-2.0"] * 2, ["-3.0"] * 2]
    return "`z.conj()` raises RuntimeError; `z.conj().imag` stays as it was, without a word"


@row(
    SECTION,
    "torch",
    guess="`distribute_tensor(x, mesh, [Replicate()])` leaves `x` as it is",
    here="pass `x.clone()`",
)
def replicated() -> str:
    assert [each["replicated"] for each in of_ranks()] == [0.0] * N_RANKS
    return "it writes the values of rank 0 into `x` on the other ranks"


@row(
    SECTION,
    "torch",
    guess="`x[1].fill_(1)` and `x[0, 0] = 1` change a DTensor `x` of `Shard(0)`, or raise",
    here="write into `x.to_local()`",
)
def written_shards() -> str:
    for found in of_ranks():
        assert found["row"] == found["entry"] == 0.0, found
        assert found["rows"] == "NotImplementedError", found
    return "both are lost without a word; `x[0:2] = 1` raises NotImplementedError"


@row(
    SECTION,
    "torch",
    guess="the sum of the same numbers does not depend on their place in the buffer",
    here="compare with a tolerance, or sum in float32",
)
def orders() -> str:
    assert all(found["bfloat16"] > 1 for found in of_ranks())
    return (
        "64 bfloat16 numbers of 3 ranks have other sums at another place in the buffer: ranks add "
        "in another order in each part"
    )


@row(
    SECTION,
    "safetensors",
    guess="a lazily conjugated tensor is saved conjugated, as by torch.save and dcp.save",
    here="`x.resolve_conj()` before",
)
def saved() -> str:
    from safetensors.torch import load, save

    lazy = torch.tensor([1 + 1j]).conj()
    assert load(save({"x": lazy}))["x"].item() == 1 + 1j
    buffer = io.BytesIO()
    torch.save(lazy, buffer)
    buffer.seek(0)
    assert torch.load(buffer).item() == 1 - 1j
    inverse = torch.fft.ifft(torch.tensor([1.0, 2, 4])).contiguous()  # of real numbers
    assert inverse.is_conj() and torch.equal(load(save({"x": inverse}))["x"], inverse.conj())
    return (
        "without the conjugate: (1+1j).conj() is 1+1j; `torch.fft.ifft` of real numbers is such a "
        "tensor, too, and `contiguous()` keeps it"
    )


@row(
    SECTION,
    "torch",
    guess="torch.export.save keeps a lazily conjugated buffer",
    here="`x.resolve_conj()` before",
)
def exported() -> str:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.tensor([1 + 1j]).conj())

        def forward(self, x: torch.Tensor) -> Any:
            return self.w * x

    x = torch.ones(1)
    program, buffer = torch.export.export(Module(), (x,)), io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()(x).item()
    assert (program.module()(x).item(), loaded) == (1 - 1j, 1 + 1j)
    return "the program has the conjugate, the saved and loaded one has not"


@row(
    SECTION,
    "torch",
    guess="`torch.compile` takes `z.conj().imag` as any other view",
    here="`x.resolve_neg()` before the compiled function: within it operators cannot see the sign",
)
def compiled() -> str:
    inputs = torch.tensor([1 + 2j]).conj().imag, torch.fft.ifft(torch.tensor([1.0, 2, 4])).imag
    for x in inputs:
        assert torch.equal(torch.compile(lambda x: x.clone() * 2)(x), -2 * x)
        assert torch.equal(torch.compile(lambda x: x.clone() * 2)(x.resolve_neg()), 2 * x)
    return "with the opposite sign, also the imaginary part of `torch.fft.ifft` of real numbers"


@row(
    SECTION,
    "torch",
    guess="a worker of a `DataLoader` returns lazy conjugates as the process itself does",
    here="`x.resolve_conj()` in the dataset; weights of operators are never lazy",
)
def from_a_worker() -> str:
    lazy = [torch.tensor([1 + 2j]).conj()]
    here, there = (
        next(iter(torch.utils.data.DataLoader(lazy, batch_size=None, num_workers=number)))
        for number in (0, 1)
    )
    assert (here.item(), there.item()) == (1 - 2j, 1 + 2j)
    return "without the conjugate, if samples are not stacked: 1-2j arrives as 1+2j"


@row(
    SECTION,
    "torch",
    guess="torch.addmm and torch.bmm of sparse matrices are their sum and product",
    here="`Y + A @ X`, or a CSR matrix",
)
def sparse() -> str:
    dense = torch.tensor([[1 + 1j, 0], [0, 1]])
    X = torch.tensor([[1j, 2j], [0, 1]]).conj()
    Y = torch.zeros_like(X)
    coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    assert torch.equal(coo @ X, dense @ X) and torch.allclose(torch.addmm(Y, csr, X), dense @ X)
    assert torch.equal(torch.addmm(Y, coo, X), dense @ X.conj())
    assert torch.equal(torch.bmm(coo[None], X[None])[0], dense @ X.conj())
    return (
        "of a COO matrix and a lazily conjugated X both give A @ conj(X); CSR and `A @ X` are right"
    )


@row(
    SECTION,
    "mpi4py",
    guess="a buffer that is not contiguous raises an error",
    here="pass `x.contiguous()`; `linops_distributed` exchanges contiguous tensors",
)
def turned_buffers() -> str:
    from mpi4py import MPI

    x, received = torch.arange(4.0).reshape(2, 2), torch.zeros(2, 2)
    MPI.COMM_SELF.Sendrecv(x.T, dest=0, recvbuf=received, source=0)
    assert torch.equal(received, x)
    try:
        MPI.COMM_SELF.Sendrecv(x[:, 0], dest=0, recvbuf=torch.zeros(2), source=0)
    except BufferError:
        return "a column does; a transposed matrix is sent as it lies in memory, and arrives as x"
    raise AssertionError("mpi4py sent a column")
