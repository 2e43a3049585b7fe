"""Linear operators over the ranks of torch.distributed, placed by the names of dimensions."""

from ._distribute import distribute_linop as distribute_linop
from ._operators._distributed import DistributedLinop as DistributedLinop
from ._plan_mesh import plan_mesh as plan_mesh
from ._plans._plan import Computed as Computed
from ._plans._plan import Link as Link
from ._plans._plan import MeshPlan as MeshPlan
from ._plans._plan import RankPlan as RankPlan
from ._ranks._program import run_rank as run_rank
from ._ranks._transport import Sent as Sent

__version__ = "0.1.0"

__all__ = [
    "Computed",
    "DistributedLinop",
    "Link",
    "MeshPlan",
    "RankPlan",
    "Sent",
    "distribute_linop",
    "plan_mesh",
    "run_rank",
]
