"""What the packages of this repository need of linops-split, and users do not.

These names may change in any release: the packages are released together, each with the range of
versions that it fits. An executor of a table computes the parts of a `Work` in any order and gives
the results to an `Output`. `WithoutData` runs operators without data, for plans.
"""

from ._batch_sizes import slices_along as slices_along
from ._cutting import cut_into_parts as cut_into_parts
from ._execution import Forward as Forward
from ._execution import Output as Output
from ._execution import RecordedByAutograd as RecordedByAutograd
from ._execution import Work as Work
from ._execution import sum_dtype as sum_dtype
from ._out_of_place import applied_out_of_place as applied_out_of_place
from ._part_slices import Slices as Slices
from ._planning._peak import tensors_in as tensors_in
from ._planning._plan_input import complex_dtype as complex_dtype
from ._planning._plan_input import input_of as input_of
from ._planning._plan_trial import WORK_OPERATORS as WORK_OPERATORS
from ._planning._plan_trial import WithoutData as WithoutData
from ._private_torch import FakeTensor as FakeTensor
from ._private_torch import TorchDispatchMode as TorchDispatchMode
from ._private_torch import is_batch as is_batch
from ._training._gradient_sums import GradientSums as GradientSums
from ._training._part_copies import PartCopies as PartCopies
from ._training._recording import Backward as Backward
from ._training._weight_views import WeightViews as WeightViews
from ._training._weight_views import is_dense as is_dense
from ._training._weight_views import memory_order as memory_order
from ._training._weights import tensors_read_by as tensors_read_by
from ._training._weights import weights_held_by as weights_held_by
from ._training._weights import with_tensors_read as with_tensors_read
