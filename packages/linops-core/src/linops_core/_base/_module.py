"""Operators as modules of torch: copies, state, moves."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator
from typing import Any, Self

import torch
from torch import Tensor, nn

from memmap.siblings import check_flags

from .._kept import CHECKED, Memo
from .._kernels._dtype import dtype_of_cast, in_precision_of, resolve_conj_and_neg
from .._kernels._tracing import constant_when_compiled
from ._copying import shallow_copy
from ._late_hooks import LateHooks
from ._state import add_repeated_entries, plain_weight, remove_repeated_entries
from ._swapped_functions import SWAPPED, finish_swap

_STATE = ("_modules", "_parameters", "_buffers", "_non_persistent_buffers_set", "_geometry")


def state_of(module: nn.Module) -> dict[str, Any]:
    """Return the attributes in which an operator has operands and weights."""
    return {name: vars(module)[name] for name in _STATE}


class OperatorModule(LateHooks):
    """A module from which others that share its tensors are derived."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name
        self._has_relatives = False
        self._geometry: tuple[str, ...] = ()
        """The names of weights that are coordinates, angles or times."""
        self._memos: dict[Memo[Any], Any] = {}
        # Not in `_memos`, since torch.compile makes a graph anew when a dictionary has grown.
        self._adjoint: Any = None
        """The adjoint, once it is made; the adjoint of an adjoint refers back weakly."""
        self._normal: Any = None
        """The normal operator, once it is made."""

    @property
    def name(self) -> str:
        """The name given, else the name of the class."""
        return self._name or type(self).__name__

    def __copy__(self) -> Self:
        """Return a copy that shares the tensors and has its own module dictionaries."""
        return shallow_copy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an independent copy; tensors that share storage here share it in the copy."""
        # Copies and moves are a third of all modules that are loaded: most programs have none.
        from memmap import memory_aware_deepcopy

        return memory_aware_deepcopy(self, memo)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without caches and without a compiled call."""
        state = {**vars(self), "_memos": {}, "_adjoint": None, "_normal": None}
        state.pop("_compiled_call_impl", None)
        return state

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the class and the attributes for pickling, without methods.

        The swapped methods of an adjoint are saved by name, because
        ``torch.load(weights_only=True)`` does not look up attributes of classes.
        """
        cls, state = type(self), self.__getstate__()
        for name in SWAPPED & state.keys():
            swapped = [other for other in SWAPPED if getattr(cls, other, None) is state[name]]
            state[name] = min(swapped, default=state[name])
        return copyreg.__newobj__, (cls,), state  # type: ignore[attr-defined] # what pickle calls

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes, and the methods by their names."""
        attributes = dict(state)
        for name in SWAPPED & attributes.keys():
            if attributes[name] in SWAPPED:
                attributes[name] = getattr(type(self), attributes[name])
        super().__setstate__(attributes)  # type: ignore[no-untyped-call]

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute.

        Raises
        ------
        RuntimeError
            If it is not a parameter or buffer, and other operators were derived from this one: they
            would not change.
        """
        attributes = vars(self)
        if attributes.get("_has_relatives") and not (
            name.startswith("_")
            or name == "training"
            or name in attributes["_parameters"]
            or name in attributes["_buffers"]
        ):
            raise RuntimeError(
                f"{self.name}: {name} must not change once other operators were made from it "
                f"(an adjoint, a normal, a tile, a composition), got {value!r}; "
                "make a new operator"
            )
        if isinstance(value, nn.Module):
            attributes["_memos"] = {}  # they were about the operand before
        elif "_memos" in attributes:
            CHECKED.forget(self)  # it may depend on the attribute
        if isinstance(value, Tensor) and name in attributes.get("_buffers", ()):
            value = plain_weight(value)
        super().__setattr__(name, value)
        if name in SWAPPED:
            finish_swap(self)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor; see :func:`plain_weight` for lazy conjugates."""
        super().register_buffer(name, None if tensor is None else plain_weight(tensor), persistent)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register a Parameter; a lazy conjugation is carried out in its memory."""
        if param is not None and (param.is_conj() or param.is_neg()):
            param.data = resolve_conj_and_neg(param.data)
        super().register_parameter(name, param)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield the operator and its parts by name; of parts with the same weights the first.

        ``torch.func.functional_call`` would not restore tensors that are listed twice.
        """
        listed: set[Any] = set() if memo is None else memo
        is_first = id(self._parameters) not in listed
        listed.add(id(self._parameters))
        for pair in super().named_modules(listed, prefix, remove_duplicate):
            if is_first or pair[1] is not self:
                yield pair

    def state_dict(self, *args: Any, prefix: str = "", **kwargs: Any) -> Any:
        """Return the tensors by the names of ``named_parameters``: the names of their first use."""
        state = super().state_dict(*args, prefix=prefix, **kwargs)
        remove_repeated_entries(self, state, args[1] if len(args) > 1 else prefix)
        return state

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Save the tensors, with the lazy conjugates among them carried out."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in (*self._parameters, *self._buffers):
            if prefix + name in destination:
                destination[prefix + name] = resolve_conj_and_neg(destination[prefix + name])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Load the tensors; an entry under one name counts for all names of the tensor."""
        others[-1].extend(add_repeated_entries(self, state_dict, prefix))  # messages of errors
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Change all tensors, as ``net.to`` and ``net.half`` do for the operators of a network.

        Complex weights stay complex. Coordinates, angles and times stay real, and are not rounded
        to half precision, which would move them.
        """
        for module in self.children() if recurse else ():
            module._apply(fn)
        held = {**self._parameters, **self._buffers}
        geometry = [t for name in self._geometry if (t := held.get(name)) is not None]
        at = {id(tensor) for weight in geometry for tensor in (weight, weight.grad)}

        def changed(tensor: Tensor) -> Tensor:
            is_geometry = id(tensor) in at
            if not is_geometry and not tensor.is_complex():
                return fn(tensor)
            empty = fn(torch.empty(0, dtype=tensor.dtype, device=tensor.device))
            dtype = dtype_of_cast(tensor.dtype, empty.dtype, is_geometry)
            return fn(tensor) if dtype is empty.dtype else tensor.to(empty.device, dtype)

        super()._apply(changed, recurse=False)  # type: ignore[no-untyped-call]
        return self

    def to(  # type: ignore[override]
        self,
        device: torch.device | str | int | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        memory_aware: bool = False,
    ) -> Self:
        """Move the operator, in place, to a device, or change its precision.

        Parameters
        ----------
        device : torch.device or str, optional
        dtype : torch.dtype, optional
            The new precision. Complex weights stay complex and real ones real, so ``torch.float64``
            and ``torch.complex128`` mean the same. Integers stay, and coordinates, angles and times
            are not rounded to half precision. For ``torch.bfloat16``, complex weights stay as they
            are.
        memory_aware : bool
            If True, tensors that share storage still share it (:func:`memmap.memory_aware_to`).

        Raises
        ------
        TypeError
            If dtype has no precision (an integer type), or fewer than 16 bits.
        """
        check_flags(type(self).__name__, memory_aware=memory_aware)
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        if memory_aware:
            from memmap import memory_aware_to

            return memory_aware_to(self, device, dtype)
        self._apply(lambda tensor: tensor.to(device, in_precision_of(tensor, dtype)))
        return self


@constant_when_compiled
def check_export(linop: OperatorModule) -> None:
    """Check that no weight is a lazy conjugate, of which torch.export.save saves the original.

    Raises
    ------
    ValueError
        If one is.
    """
    for name, tensor in (*linop.named_parameters(), *linop.named_buffers()):
        if tensor.is_conj() or tensor.is_neg():
            raise ValueError(
                f"{linop.name}: to be exported, {name} must not be a lazy conjugate, got one; "
                f"make the operator from its .resolve_conj().resolve_neg()"
            )
