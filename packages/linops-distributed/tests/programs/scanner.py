"""An MRI scanner over ranks, compared with that of one process."""

from collections.abc import Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh

from linops_core import FFT, Dense, Identity
from linops_distributed import DistributedLinop, distribute_linop
from linops_solvers import conjugate_gradients


def check_scanner(
    mesh: DeviceMesh,
    device: torch.device,
    dims_to_cut: Sequence[str],
    ordered: Sequence[bool] = (False,),
) -> None:
    """Check values, gradients to the maps and a solution, with one dimension cut over "r"."""
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(5, 6, 4, dtype=torch.complex128, generator=generator).to(device)
    x = torch.randn(7, 6, 4, dtype=torch.complex128, generator=generator).to(device)
    maps.requires_grad_()
    dims = ("C", "Nx", "Ny"), ("B", "Nx", "Ny"), ("B", "C", "Nx", "Ny")
    A = FFT(2, batch_shape=("B", "C")) @ Dense(maps, *dims)
    y = A(x)
    (wanted,) = torch.autograd.grad(y.abs().square().sum(), maps)
    for dim in dims_to_cut:
        for is_ordered in ordered:
            B = distribute_linop(A, mesh, {dim: "r"}, sizes={"B": 7}, ordered=is_ordered)
            mine = B.local_input(x)
            z = B(mine)
            torch.testing.assert_close(B.full_output(z.detach()), y.detach())
            (result,) = torch.autograd.grad(z.abs().square().sum(), maps)
            torch.testing.assert_close(result, wanted)
            back = B.H
            assert isinstance(back, DistributedLinop)
            with torch.no_grad():
                normal, right = B.N + Identity(B.ishape), B.N(mine) + mine
                solution = conjugate_gradients(
                    normal, right, gtol=1e-10, ltol=0.0, max_num_iters=60
                )
            torch.testing.assert_close(back.full_output(solution), x, rtol=1e-6, atol=1e-8)
