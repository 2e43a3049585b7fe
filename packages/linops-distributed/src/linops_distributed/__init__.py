"""Linear operators over the ranks of torch.distributed, placed by the names of dimensions."""

from ._distribute import distribute_linop as distribute_linop
from ._distributed import DistributedLinop as DistributedLinop

__all__ = ["DistributedLinop", "distribute_linop"]
