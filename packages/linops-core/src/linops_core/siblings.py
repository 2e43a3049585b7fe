"""What the packages of this repository need of linops-core, and users do not.

These names may change in any release: the packages are released together, each with the range of
versions that it fits. Use the names of ``linops_core`` for your own operators.
"""

from typing import TYPE_CHECKING

from memmap.siblings import bytes_text as bytes_text
from memmap.siblings import check_flags as check_flags
from memmap.siblings import loaded_when_used as loaded_when_used
from memmap.siblings import written_aside as written_aside

from ._algebra._composite import supports_of as supports_of
from ._algebra._fitting import finds_grid_by_name as finds_grid_by_name
from ._algebra._identity import is_unitary as is_unitary
from ._algebra._normal import normal_around as normal_around
from ._algebra._over_processes import check_shares_pass as check_shares_pass
from ._algebra._own_tile import OwnTile as OwnTile
from ._algebra._same_space import same_space as same_space
from ._base._copying import attributes_of_linked as attributes_of_linked
from ._base._copying import children_of as children_of
from ._base._copying import submodules_of as submodules_of
from ._base._copying import with_attributes as with_attributes
from ._base._cutting import own_window as own_window
from ._base._cutting import tile_of as tile_of
from ._base._description import method_of as method_of
from ._base._description import shown_operands as shown_operands
from ._base._dimensions import SIDES as SIDES
from ._base._dimensions import axis_of as axis_of
from ._base._dimensions import dims_of as dims_of
from ._base._dimensions import is_renamed_by as is_renamed_by
from ._base._dimensions import named_axes as named_axes
from ._base._dimensions import size_of_side as size_of_side
from ._base._dimensions import unused_names as unused_names
from ._base._grid_questions import factor_along as factor_along
from ._base._grid_questions import without_fftshift as without_fftshift
from ._base._module import state_of as state_of
from ._base._question import acts_as as acts_as
from ._base._sizes import input_space as input_space
from ._base._sliceable import WeightPart as WeightPart
from ._base._totals import WHOLE as WHOLE
from ._base._totals import Processes as Processes
from ._base._totals import Totals as Totals
from ._base._totals import is_over_processes as is_over_processes
from ._base._totals import totals_of as totals_of
from ._extras import optional_module as optional_module
from ._kept import Kept as Kept
from ._kept import Memo as Memo
from ._kept import made_once_per_call as made_once_per_call
from ._kept import one_call as one_call
from ._kernels._accumulate import concatenate as concatenate
from ._kernels._accumulate import dtype_of_sums as dtype_of_sums
from ._kernels._accumulate import writing_is_safe as writing_is_safe
from ._kernels._alike import choosing_steps as choosing_steps
from ._kernels._alike import steps_that_differ as steps_that_differ
from ._kernels._changes import TensorState as TensorState
from ._kernels._changes import writes_are_counted as writes_are_counted
from ._kernels._contraction import aligned as aligned
from ._kernels._dtype import at_least_single as at_least_single
from ._kernels._dtype import check_vector as check_vector
from ._kernels._dtype import is_dense as is_dense
from ._kernels._dtype import not_a_tensor as not_a_tensor
from ._kernels._dtype import real_part as real_part
from ._kernels._inner_products import host_numbers as host_numbers
from ._kernels._inner_products import host_products_and_norms as host_products_and_norms
from ._kernels._inner_products import inner_products as inner_products
from ._kernels._inner_products import norm as norm
from ._kernels._inner_products import real_parts as real_parts
from ._kernels._inner_products import squared_norm as squared_norm
from ._kernels._inner_products import vdot as vdot
from ._kernels._plain import can_read_values as can_read_values
from ._kernels._plain import is_plain as is_plain
from ._kernels._torch_state import FakeTensor as FakeTensor
from ._kernels._torch_state import becomes_a_graph as becomes_a_graph
from ._kernels._torch_state import has_storage as has_storage
from ._kernels._torch_state import is_in_vmap as is_in_vmap
from ._kernels._torch_state import is_transformed as is_transformed
from ._kernels._tracing import constant_when_compiled as constant_when_compiled
from ._kernels._tracing import in_plain_python as in_plain_python
from ._kernels._tracing import is_differentiated as is_differentiated
from ._kernels._tracing import is_recorded as is_recorded
from ._numbers import check_integer as check_integer
from ._numbers import check_real as check_real
from ._numbers import is_integer as is_integer
from ._numbers import is_size as is_size

if TYPE_CHECKING:
    from ._adapters._arrays import as_tensor as as_tensor
    from ._algebra._block_matrices._side_by_side import SideBySide as SideBySide
    from ._kernels._correlate import fast_length as fast_length
    from ._kernels._interpolation._weights import beatty_beta as beatty_beta
    from ._operators._grid_names import checked_dims as checked_dims
    from ._operators._grid_operator import GridPart as GridPart
    from ._operators._grid_operator import MixedAxis as MixedAxis
else:  # solvers of plain functions load no operators
    __getattr__, __dir__ = loaded_when_used(
        __name__,
        {
            "linops_core._adapters._arrays": "as_tensor",
            "linops_core._algebra._block_matrices._side_by_side": "SideBySide",
            "linops_core._kernels._correlate": "fast_length",
            "linops_core._kernels._interpolation._weights": "beatty_beta",
            "linops_core._operators._grid_names": "checked_dims",
            "linops_core._operators._grid_operator": "GridPart MixedAxis",
        },
    )
