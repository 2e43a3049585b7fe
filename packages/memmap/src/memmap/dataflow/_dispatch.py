"""Being asked about every PyTorch operator before it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode, ABC):  # type: ignore[no-untyped-call]  # torch's
    """A context in which every operator that passes the dispatcher is run by a method."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's

    @abstractmethod
    def run(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run one operator; ``NotImplemented`` asks again for the tensors in a wrapper."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        return self.run(func, args, kwargs or {})
