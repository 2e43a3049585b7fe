"""OwnTile: a tile with tensors of its own, from the ``split`` of a user's class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from memmap import same_storage
from nameddim import NamedShape

from .._base._arithmetic import rules
from .._base._copying import attributes_of_linked, submodules_of, with_attributes
from .._base._description import shown_operands
from .._base._grid_questions import without_fftshift
from .._base._linop import NamedLinop
from .._base._module import state_of
from .._base._tile import SplitError, Window
from .._kept import Kept
from .._kernels._plain import is_plain
from .._kernels._tracing import in_plain_python, is_recorded
from ._wrapper import Wrapper

Derivation: TypeAlias = tuple[Any, ...]
"""The name of a method that derives an operator, and its arguments."""

_CUT_IN_A_GRAPH = (
    "a tile by a split of your own is cut anew in each call, outside of compiled graphs; cut "
    "weights by their names, as SliceableLinop does, to have one graph"
)


def _as_of_tile(name: str) -> Any:
    """Return a method that does to a tile what the method of that name does."""

    def derived(self: OwnTile, *args: object) -> NamedLinop | None:
        return cast("NamedLinop | None", self._with_derivation(name, *args))

    return derived


class OwnTile(Wrapper):
    """A tile that is cut anew whenever weights of the operator have changed.

    A tile that holds slices of the weights as tensors of its own is right only until a weight is
    replaced, moved or cast. As a module, this is the operator that was cut: it has the same
    submodules, weights and names. While autograd follows a weight, each call cuts anew.

    Parameters
    ----------
    whole : NamedLinop
        The operator that was cut.
    window : mapping of dimension to slice
    tile : NamedLinop
        What its ``split`` returns for the window.
    """

    _whole: NamedLinop
    _steps: tuple[Derivation, ...]
    _outline: NamedLinop
    """The tile with weights without data."""
    _kept: Kept[NamedLinop]

    def __init__(self, whole: NamedLinop, window: Window, tile: NamedLinop) -> None:
        super().__init__(tile)
        # It says sizes and roles. Real weights would stay in memory after they are replaced.
        outline = tile.with_weights(lambda tensor: torch.empty_like(tensor, device="meta"))
        state = vars(self)  # setattr would register the operators as submodules
        state.update(
            state_of(whole), _whole=whole, **_facts_of(outline, (("split", dict(window)),))
        )

    def cut(self) -> NamedLinop:
        """Return the tile with the current weights."""
        whole = with_attributes(self._whole, attributes_of_linked(self._whole) | state_of(self))
        return reduce(_derive, self._steps, whole)

    def current(self) -> NamedLinop:
        """Return the tile with the current weights; it is kept until these change."""
        weights = [w for held in _dictionaries(self) for w in held.values() if w is not None]
        if is_recorded(*weights) or not is_plain(*weights):
            return self.cut()
        return self._kept.get_or_make(weights, None, self.cut)

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x."""

        def applied() -> Tensor:
            y: Tensor = linop.current()(x)
            return y

        return in_plain_python(applied, _CUT_IN_A_GRAPH)

    @property
    def linops(self) -> tuple[NamedLinop, ...]:
        """The tile, with weights without data."""
        return (self._outline,)

    def _operand(self, number: int) -> NamedLinop:
        return self._outline

    input_devices = NamedLinop.input_devices
    extra_repr = NamedLinop.extra_repr

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the tile with ``change(w)`` for every w that it reads."""
        return self.cut().with_weights(change)

    def _with_derivation(self, name: str, *args: object) -> Any:
        """Return what a method returns for the tile: None, the same tile, or another one."""
        outline = _derive(self._outline, (name, *args))
        if outline is None or outline is self._outline:
            return None if outline is None else self
        state = attributes_of_linked(self, NamedShape(outline.ishape, outline.oshape))
        return with_attributes(self, state | _facts_of(outline, (*self._steps, (name, *args))))

    adjoint, conj = _as_of_tile("adjoint"), _as_of_tile("conj")
    own_normal, renamed = _as_of_tile("normal"), _as_of_tile("renamed")
    fitted_to = _as_of_tile("fitted_to")

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the tile with its wildcards replaced."""
        return cast(NamedLinop, self._with_derivation("resolved", shape.ishape, shape.oshape))

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        return [self._with_derivation("split", dict(window)) for window in windows]


def _facts_of(outline: NamedLinop, steps: tuple[Derivation, ...]) -> dict[str, Any]:
    """Return the attributes of a tile that are not those of the whole."""
    of_outline = {"_name": outline.name, "_is_endomorphism": outline.is_endomorphism}
    return {**of_outline, "_outline": outline, "_steps": steps, "_kept": Kept[NamedLinop]()}


def _derive(linop: NamedLinop, step: Derivation) -> Any:
    """Return what a step derives from an operator."""
    name, *args = step
    return getattr(linop, name)(*([linop] if name == "split" else []), *args)


def tile_that_follows_weights(whole: NamedLinop, window: Window, tile: NamedLinop) -> NamedLinop:
    """Return a tile that follows the weights of the operator from which ``split`` cut it.

    Raises
    ------
    SplitError
        If a weight of the operator is trained, and gradients of the tile do not reach it.
    """
    held = {id(kept) for kept in _dictionaries(whole)}
    if all(id(kept) in held for kept in _dictionaries(tile) if kept):
        return tile
    with torch.inference_mode(False), torch.enable_grad():
        tile = whole.split(whole, window)
    weights = [*whole.parameters(), *whole.buffers()]
    for name, kept in (*tile.named_parameters(), *tile.named_buffers()):
        if not any(kept is weight for weight in weights) and _is_cut_off(kept, weights):
            raise SplitError(
                f"{whole.signature}: split must return a tile through whose weights gradients "
                f"reach those of the operator, got {name} without a connection to them; keep the "
                "slice by register_buffer, not as a Parameter or nn.Buffer, which are detached"
            )
    return OwnTile(whole, window, tile)


def _is_cut_off(view: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether a tensor of a tile trains by itself, or is part of a weight and does not train."""
    if not is_plain(view, *weights):
        return False  # a transform of torch.func does not tell
    if view.requires_grad:
        return view.is_leaf
    return any(weight.requires_grad and same_storage(view, weight) for weight in weights)


def _dictionaries(linop: NamedLinop) -> Iterator[dict[str, Any]]:
    """Yield the dictionaries in which an operator and its submodules hold tensors."""
    for module in submodules_of(linop):
        yield from (module._parameters, module._buffers)


rules.tile_that_follows_weights = tile_that_follows_weights


@shown_operands.register(OwnTile)
def _shown(linop: OwnTile) -> Sequence[NamedLinop]:
    return ()


@without_fftshift.register(OwnTile)
def _keeps_shifts(linop: OwnTile, dims: object) -> None:
    return None
