"""The base class of operators over ranks: vectors as shares, whole, and as DTensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, cast

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from linops_core import NamedLinop, Processes, Side, SplitError, Totals, Window
from linops_core.siblings import (
    is_differentiated,
    is_over_processes,
    totals_of,
    without_fftshift,
    writing_is_safe,
)
from nameddim import NamedDimension

from .._plans._dry_run import dry_run, has_ranks
from .._plans._plan import MeshPlan, merged
from .._ranks._marks import Meeting
from .._ranks._transport import Transport
from .._shares._sharding import Sharding

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement


@dataclass(frozen=True)
class ShareSum:
    """Sums numbers of the shares of a vector over ranks; equal for the same ranks."""

    dims: tuple[str, ...]
    mesh: DeviceMesh | None
    ranks: Transport = field(compare=False)
    owner: str = field(compare=False)

    def __call__(self, numbers: Tensor) -> Tensor:
        """Return the sum over the ranks."""
        if numbers.requires_grad:
            raise NotImplementedError(
                f"{self.owner}: gradients must not flow through the steps of a solver over ranks; "
                "give implicit=True, or use torch.no_grad()"
            )
        return self.ranks.sum(numbers, self.dims, self.owner, "inner products")


class DistributedLinop(NamedLinop):
    """An operator over the ranks of a mesh; made by :func:`distribute_linop`.

    It takes and returns tensors of its rank: shares along the cut dimensions, whole along the
    others. A result with partial sums on several ranks is summed over them and is then equal on all
    of them. Given a DTensor, it returns a DTensor.

    ``A.H``, ``A.N`` and gradients to input and weights work in the same way. All ranks must call
    the same operators in the same order.
    """

    ranks: Transport
    _shardings: Mapping[Side, Sharding]
    _gain: float | None = None
    """The number c if A^H A and A A^H are known to be c times the identity."""
    _derivations = frozenset[str]()

    @property
    def sharding(self) -> Sharding:
        """The shares of its vectors."""
        ins, outs = self._shardings["input"], self._shardings["output"]
        return ins if ins is outs else replace(ins, cuts={**outs.cuts, **ins.cuts})

    @property
    def window(self) -> Window:
        """The slice of each cut dimension that this rank has."""
        return self.sharding.window

    def extra_repr(self) -> str:
        """Return the text of ``repr``: the rank and its share."""
        pieces = ", ".join(f"{dim} {p.start}:{p.stop}" for dim, p in self.window.items())
        return f"rank {self.ranks.mesh.rank} of {len(self.ranks.mesh.numbers)}: {pieces}"

    @property
    def step_owner(self) -> str:
        """The name of the operator in steps. The adjoint has another name in steps."""
        return ", ".join([self.signature, *sorted(self._derivations)])

    # Whole vectors, and DTensors

    def local_input(self, x: Tensor) -> Tensor:
        """Return the view of a whole input that is the share of this rank.

        Raises
        ------
        ValueError
            If a cut dimension has a wrong length.
        """
        return self._shardings["input"].local(x, self.ishape, f"{self.signature}: local_input")

    def local_output(self, y: Tensor) -> Tensor:
        """Return the view of a whole output that is the share of this rank; see local_input."""
        return self._shardings["output"].local(y, self.oshape, f"{self.signature}: local_output")

    def full_output(self, y: Tensor) -> Tensor:
        """Return the whole output on all ranks, given the shares; all ranks must call it.

        The gradient of a share is the slice of the gradient of the whole output, which must be the
        same on all ranks.

        Raises
        ------
        ValueError
            If a share has a wrong length.
        """
        whole: Tensor = Moved.apply(y, self._joined, self.local_output)  # type: ignore[no-untyped-call]
        return whole

    def _joined(self, y: Tensor) -> Tensor:
        owner = f"{self.signature}: full_output"
        sharding = self._shardings["output"]
        for axis, cut in sharding.axes(self.oshape).items():
            lengths = cut.lengths
            length = lengths[sharding.at[cut.mesh_dim]]
            if not -y.ndim <= axis < y.ndim or y.shape[axis] != length:
                text = (
                    f"{owner}: axis {axis} of the share of rank {self.ranks.mesh.rank} must have "
                    f"length {length}, got shape {tuple(y.shape)}"
                )
                meeting = Meeting((cut.mesh_dim,), 0, torch.float32, y.device)
                self.ranks.interrupt(meeting, self.signature, "full_output", f" ({text})")
                raise ValueError(text)
            y = self.ranks.joined(y, cut.mesh_dim, lengths, axis, self.signature, "full_output")
        return y

    @property
    def input_placements(self) -> tuple[Placement, ...]:
        """Placements of an input, as in DTensor."""
        return self._shardings["input"].placements(self.ishape)

    @property
    def output_placements(self) -> tuple[Placement, ...]:
        """Placements of an output, as in DTensor."""
        return self._shardings["output"].placements(self.oshape)

    def forward(self, x: Tensor) -> Tensor:
        """Return A x for the share of this rank or for a DTensor."""
        # Without the module there is no DTensor; another thread may be importing it.
        kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
        if kind is not None and isinstance(x, kind):
            return self._of_dtensor(x)
        ranks, owner = self.ranks, self.step_owner
        if isinstance(x, Tensor):
            self._refuse_what_follows(x)
        call = self._call_of(x)
        if call is None or (owner, call) not in ranks.order.calls:
            self._compare_calls(x, call)
            ranks.order.calls.add((owner, call))
        outer, ranks.order.met = ranks.order.met, None
        y = super().forward(x)
        if ranks.order.met is not None:
            ranks.order.meetings[owner] = ranks.order.met
        ranks.order.met = outer or ranks.order.met
        return y

    def _follows(self, x: Tensor) -> tuple[bool, bool]:
        """Return whether autograd records the input, and whether it records the result."""
        is_differentiated = torch.is_grad_enabled() and (x.requires_grad or self._is_trained())
        return is_differentiated and x.requires_grad, is_differentiated

    def _is_trained(self) -> bool:
        """Whether a weight requires gradients; the parts implement it."""
        return False

    def _call_of(self, x: Tensor) -> tuple[object, ...] | None:
        """Return the facts that must be equal on all ranks; None if x is not a share."""
        if not isinstance(x, Tensor):
            return None
        sharding, whole = self._shardings["input"], [*x.shape]
        for axis, cut in sharding.axes(self.ishape).items():
            piece = cut.piece(sharding.at[cut.mesh_dim])
            if not -x.ndim <= axis < x.ndim or whole[axis] != piece.stop - piece.start:
                return None
            whole[axis] = cut.length
        return str(x.dtype), tuple(whole), *self._follows(x)

    def _compare_calls(self, x: Tensor, call: tuple[object, ...] | None) -> None:
        """Raise an error on all ranks if an input is wrong on one of them or differs.

        Repeated calls do not compare anything: the first message of the call shows a difference.
        """
        ranks, owner = self.ranks, self.step_owner
        failure: Exception | None = None
        try:
            self._check_vector(x, "input")
            if call is None:
                lengths = {str(dim): n for dim, n in self._shardings["input"].lengths.items()}
                raise ValueError(
                    f"{self.signature}: the input must be a share with the lengths {lengths}, got "
                    f"shape {tuple(x.shape)}"
                )
        except (TypeError, ValueError) as error:
            failure = error
        text = "" if failure is None else str(failure)
        meeting = ranks.order.meetings.get(owner)
        if meeting is not None:
            given = f" ({text or call})"
            ranks.interrupt(meeting, owner, "a call with another input than before", given)
        what = "dtype, shape and gradient of the input"
        gathered = ranks.all_gather((text, None if text else call), owner, what)
        refused = {
            number: message
            for number, (message, _) in zip(ranks.mesh.numbers, gathered, strict=True)
        }
        for number, message in refused.items():
            if message:
                words = message if len({*refused.values()}) == 1 else f"on rank {number}: {message}"
                raise (type(failure) if failure else ValueError)(words) from failure
        ranks.check_same([other_call for _, other_call in gathered], owner, what)

    def _of_dtensor(self, x: DTensor) -> Tensor:
        from torch.distributed.tensor import DTensor

        wanted, given = _of_ndim(self.input_placements, x.ndim), _of_ndim(x.placements, x.ndim)
        mesh = self.ranks.mesh.device_mesh
        if mesh is None or x.device_mesh != mesh or given != wanted:
            raise ValueError(
                f"{self.signature}: a DTensor must be on the mesh {mesh} with "
                f"placements {wanted}, got {x.device_mesh} with {given}; see redistribute"
            )
        y = self(x.to_local(grad_placements=wanted))
        shape = self._shardings["output"].whole_shape(y.shape, self.oshape)
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return DTensor.from_local(
            y,
            mesh,
            _of_ndim(self.output_placements, y.ndim),
            run_check=False,
            shape=torch.Size(shape),
            stride=tuple(strides),
        )

    def plan(
        self,
        *,
        like: Tensor | None = None,
        sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
        dtype: torch.dtype | None = None,
    ) -> MeshPlan:
        """Return the communication of A, A.H and A.N; all ranks must call it.

        Nothing is computed and no vector is sent: the operators run without data.

        Parameters
        ----------
        like : Tensor, optional
            A tensor of the size, strides and dtype of a share of an input. Instead of it:
        sizes : mapping of dimension to int, optional
            Sizes of the input dimensions that the operator does not know.
        dtype : torch.dtype, optional
            Dtype of the input; needed if no weight is complex. By default the dtype of the
            complex weights.

        Raises
        ------
        ValueError
            If the input is not known, or the operator reads values.
        """
        plan = dry_run(self, self.ranks, like, sizes, dtype)
        return merged(
            self.signature,
            self.ranks.mesh.sizes,
            self.ranks.all_gather(plan, self.step_owner, "plan"),
        )

    # Derived operators

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, on shares of the output."""
        other = self._with_derivation(super().adjoint(), "adjoint")
        ins, outs = self._shardings["input"], self._shardings["output"]
        other._shardings = {"input": outs, "output": ins}
        return other

    def conj(self) -> NamedLinop:
        """Return the conjugate, on the same shares."""
        other = super().conj()
        return other if other is self else self._with_derivation(other, "conjugate")

    def _with_derivation(self, other: NamedLinop, derivation: str) -> DistributedLinop:
        assert isinstance(other, DistributedLinop)
        other._derivations = self._derivations ^ {derivation}
        return other

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        other = cast(DistributedLinop, super().renamed(names))
        if other is not self:
            other._shardings = {
                side: sharding.renamed(names) for side, sharding in self._shardings.items()
            }
        return other

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced."""
        return "the operator is distributed over ranks; cut it before, with batch_specs"

    def _tiles_at(self, windows: Sequence[Window]) -> NoReturn:
        raise SplitError(f"{self.signature}: it cannot be split: {self.why_opaque('')}")

    def _refuse_what_follows(self, x: Tensor) -> None:
        """Raise an error for a transform of torch that cannot record communication."""
        is_plain = type(x) in (Tensor, torch.nn.Parameter) or self.ranks.is_dry
        if not is_plain or not writing_is_safe() or is_differentiated():  # in forward mode
            self._refuse_transforms()

    def _refuse_transforms(self) -> NoReturn:
        raise NotImplementedError(
            f"{self.signature}: over ranks it must be called with a plain tensor, for values and "
            "first derivatives, got a transform of torch.func, a compiler, autocast, a second "
            "derivative or random numbers"
        )


for question in (has_ranks, is_over_processes):
    question.register(DistributedLinop)(lambda linop: True)


class Moved(torch.autograd.Function):
    """A vector that was sent between ranks, whose gradient is moved back."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None


def _of_ndim(placements: Sequence[Placement], ndim: int) -> tuple[Placement, ...]:
    """Return placements in which axes count from the first."""
    from torch.distributed.tensor import Shard

    return tuple(Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in placements)


@totals_of.register(DistributedLinop)
def _totals_of_shares(linop: DistributedLinop, side: Side) -> Totals:
    """Return how sums over the shares of a vector are collected from the ranks."""
    names = linop.ishape if side == "input" else linop.oshape
    sharding, ranks, owner = linop._shardings[side], linop.ranks, linop.step_owner
    dims, mesh = sharding.present_in(names), ranks.mesh

    def all_gather(value: object, what: str) -> list[object]:
        return ranks.all_gather(value, owner, what)

    processes = Processes(mesh.index(mesh.names), len(mesh.numbers), all_gather)
    if mesh.size(dims) == 1:
        return Totals(processes=processes)
    cut = frozenset(sharding.cuts) & {*names}
    add = ShareSum(dims, mesh.device_mesh, ranks, owner)
    return Totals(add, cut, mesh.index(dims), mesh.size(dims), processes)


@without_fftshift.register(DistributedLinop)
def _keeps_shifts(linop: DistributedLinop, dims: object) -> None:
    """Return None: all ranks must make the same simplifications."""
