"""memmap with distributed tensors of PyTorch, on two pretended processes."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import distributed

from memmap import MemoryReport, memory_aware_deepcopy, memory_aware_to

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch")


@pytest.fixture
def mesh() -> Iterator[Any]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        yield distributed.device_mesh.init_device_mesh("cpu", (2,))
    finally:
        distributed.destroy_process_group()


def test_a_cast_of_a_distributed_tensor_also_casts_its_placement(mesh: Any) -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    whole = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)], src_data_rank=None)
    module: Any = torch.nn.Module()
    module.w = module.tied = torch.nn.Parameter(whole)
    del whole  # else it holds the memory of the parameter, too
    weight = module.w
    assert [t.entry.names for s in MemoryReport(module).storages for t in s.tensors] == [
        ["w._local_tensor", "tied._local_tensor"]
    ]
    made = memory_aware_deepcopy(module)
    assert made.w is made.tied and made.w.device_mesh is mesh
    assert torch.equal(made.w.to_local(), weight.to_local())
    memory_aware_to(module, dtype=torch.float64, attributes=True)
    assert module.w is weight and weight.device_mesh is mesh
    assert weight._spec.tensor_meta.dtype is weight.to_local().dtype is torch.float64
    memory_aware_to(module, "meta", attributes=True)
    assert weight.to_local().is_meta and not mesh.mesh.is_meta
