"""An operator over ranks in several steps, with exchanges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from linops_core import Chain, Identity, NamedLinop, Side, Wrapper

from .._ranks._transport import Transport
from .._shares._sharding import Sharding
from ._distributed import DistributedLinop


class DistributedSteps(DistributedLinop, Wrapper):
    """An operator made of operators over ranks, with the shardings of its vectors.

    Parameters
    ----------
    linop : NamedLinop
        The operator on tensors of this rank: mostly a chain of parts and exchanges.
    shardings : mapping of side to Sharding
    ranks : Transport
    """

    def __init__(
        self, linop: NamedLinop, shardings: Mapping[Side, Sharding], ranks: Transport
    ) -> None:
        super().__init__(linop)
        self._shardings, self.ranks = shardings, ranks

    @property
    def name(self) -> str:
        """The given name, else the default name of operators over ranks."""
        return self._name or DistributedLinop.__name__

    @staticmethod
    def fn(linop: DistributedSteps, x: Tensor, /) -> Tensor:
        """Return A x, of one step after the other."""
        return linop.linop(x)

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H inner A; steps whose normal is a number are replaced by it.

        Raises
        ------
        NotImplementedError
            If ``inner`` is of one process and mixes elements of several shares.
        """
        linops, number = self.linop.flatten(), 1.0
        while inner is None and linops:
            last = linops[-1]
            if not isinstance(last, DistributedLinop) or last._gain is None:
                break
            number *= last._gain
            linops.pop()
        steps = Chain(*linops, name=self.name) if linops else Identity(self.ishape)
        normal = steps.normal(inner)
        normal = normal if number == 1 else number * normal
        other = self.with_operands([normal], normal.shape)
        of_input = self._shardings["input"]
        names = dict(zip(self.ishape, normal.oshape, strict=True))
        other._shardings = {"input": of_input, "output": of_input.renamed(names)}
        return self._with_derivation(other, "normal").as_endomorphism()


def in_steps(linops: Sequence[DistributedLinop], ranks: Transport) -> DistributedLinop:
    """Return the composition of operators over ranks; the first one is applied first."""
    first, last = linops[0], linops[-1]
    if len(linops) == 1:
        return first
    shardings: dict[Side, Sharding] = {
        "input": first._shardings["input"].of_vector(first.ishape),
        "output": last._shardings["output"].of_vector(last.oshape),
    }
    return DistributedSteps(Chain(*linops), shardings, ranks)
