"""What a PyTorch operator reads and writes: from its schema, and from tables for missing facts.

The tables hold names of operators, without ``aten::``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import torch

from .._torch import OpOverload, TorchDispatchMode, without_modes

Arguments: TypeAlias = Mapping[str, object]

# Operators that change or query only sizes, strides and flags, besides those that torch marks as
# views or tags as `inplace_view`.
_WITHOUT_DATA = frozenset({
    "_assert_tensor_metadata", "_has_compatible_shallow_copy_type", "_is_zerotensor",
    "_resize_output_", "_version", "is_coalesced", "is_contiguous", "is_leaf",
    "is_non_overlapping_and_dense", "is_pinned", "is_same_size", "is_set_to",
    "is_strides_like_format", "record_stream", "requires_grad_", "result_type", "retain_grad",
    "set_data", "sym_is_contiguous", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride",
    "prim::device", "prim::layout",
})  # fmt: skip
# Operators that return uninitialised memory, or zeros that have no memory.
_UNINITIALISED = frozenset({
    "_efficientzerotensor", "_empty_affine_quantized", "_empty_per_channel_affine_quantized",
    "empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty",
    "new_empty_strided",
})  # fmt: skip
# Operators that take only the size, dtype and device of `self`.
_LIKE_SELF = _UNINITIALISED | {
    "full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randint_like",
    "randn_like", "zeros_like",
}  # fmt: skip
# In-place operators that do not read the memory that they overwrite.
_OVERWRITING = frozenset({
    "_foreach_copy_", "_foreach_zero_", "bernoulli_", "cauchy_", "copy_", "exponential_",
    "fill_", "geometric_", "log_normal_", "normal_", "random_", "uniform_", "zero_",
})  # fmt: skip
_ONE_VALUE = frozenset({"_foreach_zero_", "fill_", "zero_"})
# Operators that write to arguments that are constant in their schema.
_RUNNING_STATISTICS = frozenset({"running_mean", "running_var"})
_UNDECLARED_WRITES: Mapping[str, frozenset[str]] = {
    "_cudnn_rnn": frozenset({"dropout_state"}),
    "batch_norm_gather_stats": _RUNNING_STATISTICS,
    "batch_norm_gather_stats_with_counts": _RUNNING_STATISTICS,
    "batch_norm_update_stats": _RUNNING_STATISTICS,
    "cudnn_batch_norm": _RUNNING_STATISTICS,
    "miopen_batch_norm": _RUNNING_STATISTICS,
    "native_batch_norm": _RUNNING_STATISTICS,
}
# Schemas of collectives do not say what is written, nor when the write is complete.
_REFUSED_NAMESPACES = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd"})


class OperatorUse(NamedTuple):
    """How an operator uses its arguments and results.

    Views and changes of sizes and strides move no data. An elementwise operator may write an
    element of its result where the elements with the same index were read.
    """

    arguments: dict[str, tuple[bool, bool]]  # in the order of the schema: is it read, written?
    moves_data: bool
    fills_results: bool
    is_elementwise: bool
    writes_one_value: bool
    may_draw: bool


class TensorArgument(NamedTuple):
    """One tensor argument of an operator call, with its index if it is in a list of tensors."""

    name: str
    item: int | None
    tensor: torch.Tensor
    reads: bool
    writes: bool


class OperatorMode(TorchDispatchMode):
    """Calls `run` instead of every operator that reaches the dispatcher."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        return self.run(func, args, kwargs or {})

    @abstractmethod
    def run(self, function: OpOverload, args: Sequence[object], kwargs: Arguments) -> object:
        """Run the operator or something else, and return the result."""


@cache
def use_of(function: OpOverload) -> OperatorUse:
    """How an operator uses its arguments and results; raises an error for collectives."""
    schema = function._schema
    if function.namespace in _REFUSED_NAMESPACES:
        raise NotImplementedError(
            f"trace: an operator must declare what it writes, and finish writing before it "
            f"returns, got the collective {function}"
        )
    name = schema.name.removeprefix("aten::")
    undeclared = _UNDECLARED_WRITES.get(name, frozenset())
    arguments = {}
    for argument in schema.arguments:
        declared = argument.alias_info is not None and argument.alias_info.is_write
        reads = not (
            argument.is_out
            or (declared and name in _OVERWRITING)
            or (argument.name == "self" and name in _LIKE_SELF)
        )
        arguments[argument.name] = reads, declared or argument.name in undeclared
    is_view = function.is_view or torch.Tag.inplace_view in function.tags
    return OperatorUse(
        arguments,
        moves_data=not is_view and name not in _WITHOUT_DATA,
        fills_results=name not in _UNINITIALISED,
        is_elementwise=torch.Tag.pointwise in function.tags
        or name == "copy_"
        or name.startswith(("_foreach_", "_fused_")),
        writes_one_value=name in _ONE_VALUE,
        may_draw=torch.Tag.nondeterministic_seeded in function.tags,
    )


def tensor_arguments(
    function: OpOverload, args: Sequence[object], kwargs: Arguments
) -> Iterator[TensorArgument]:
    """The tensor arguments of an operator call; those in lists one by one."""
    uses = use_of(function).arguments
    given = {**dict(zip(uses, args, strict=False)), **kwargs}
    for name, (reads, writes) in uses.items():
        # In evaluation mode, batch norms only read their statistics.
        if name in _RUNNING_STATISTICS and given.get("training") is False:
            writes = False
        value = given.get(name)
        items: Iterable[tuple[int | None, object]] = [(None, value)]
        if isinstance(value, (list, tuple)):
            items = enumerate(value)
        for item, tensor in items:
            if isinstance(tensor, torch.Tensor):
                yield TensorArgument(name, item, tensor, reads, writes)


def random_source(
    arguments: Sequence[TensorArgument], args: Sequence[object], kwargs: Arguments
) -> torch.Generator | torch.device | None:
    """The generator that a call may use; None if its tensors are meta or fake and it uses none."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            return value
    if arguments:
        device = arguments[0].tensor.untyped_storage().device  # a fake tensor's device is not real
    else:
        device = torch.device(str(kwargs.get("device") or "cpu"))
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "meta":
        return None
    module = torch.get_device_module(device)
    generators = getattr(module, "default_generators", None)
    if not generators:
        return device
    generator: torch.Generator = generators[
        module.current_device() if device.index is None else device.index
    ]
    return generator


def state_of(source: torch.Generator | torch.device | None) -> bytes | None:
    """State of a generator; None for a device, because torch does not show its generator."""
    if not isinstance(source, torch.Generator):
        return None
    with without_modes():
        state: bytes = source.get_state().numpy().tobytes()
        return state
