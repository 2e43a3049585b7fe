"""What is new, gone and changed between two reports."""

from __future__ import annotations

from typing import NamedTuple

from .._reports._report import MemoryReport
from .._reports._table import printable


class Described(NamedTuple):
    """What two reports compare about a tensor: dtype, shape, and the names it shares bytes with."""

    dtype: str
    shape: tuple[int, ...]
    shares_with: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.dtype} {'x'.join(map(str, self.shape)) or 'scalar'}"
        return f"{text}, shares with {', '.join(self.shares_with)}" if self.shares_with else text


class ReportDiff(NamedTuple):
    """Differences between two reports, by the names of tensors; ``print`` shows them in lines.

    Values are not compared. A change of sharing counts only names that both reports have.

    Attributes
    ----------
    new, gone : dict of str to Described
        Tensors that only the second report has, or only the first.
    changed : dict of str to (Described, Described)
        Tensors with another dtype, shape or sharing, before and after.
    """

    new: dict[str, Described]
    gone: dict[str, Described]
    changed: dict[str, tuple[Described, Described]]

    def __str__(self) -> str:
        lines = [f"new      {name}: {tensor}" for name, tensor in self.new.items()]
        lines += [f"gone     {name}: {tensor}" for name, tensor in self.gone.items()]
        lines += [
            f"changed  {name}: {before} -> {after}"
            for name, (before, after) in self.changed.items()
        ]
        return "\n".join(map(printable, lines)) or "no difference (values are not compared)"

    def to_dict(self) -> dict[str, object]:
        """Return the differences as JSON types."""
        return {
            "new": {name: tensor._asdict() for name, tensor in self.new.items()},
            "gone": {name: tensor._asdict() for name, tensor in self.gone.items()},
            "changed": {
                name: {"before": before._asdict(), "after": after._asdict()}
                for name, (before, after) in self.changed.items()
            },
        }


def diff_reports(before: MemoryReport, after: MemoryReport) -> ReportDiff:
    """Compare two reports: which tensors are new, gone, or changed in dtype, shape or sharing.

    Parameters
    ----------
    before, after : MemoryReport
        Reports on files, modules or mappings. Tensors are compared by their names.

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(4)
    >>> tied = MemoryReport({"a": x, "b": x, "c": x[:2]})
    >>> print(diff_reports(tied, MemoryReport({"a": x, "b": x.clone(), "d": x.half()})))
    new      d: float16 4
    gone     c: float32 2, shares with a, b
    changed  a: float32 4, shares with b -> float32 4
    changed  b: float32 4, shares with a -> float32 4
    """
    old, new = _described(before), _described(after)
    changed = {}
    for name in old.keys() & new.keys():
        both = [_among(old[name], new), _among(new[name], old)]
        if both[0] != both[1]:
            changed[name] = (both[0], both[1])
    return ReportDiff(
        {name: new[name] for name in sorted(new.keys() - old.keys())},
        {name: old[name] for name in sorted(old.keys() - new.keys())},
        {name: changed[name] for name in sorted(changed)},
    )


def _described(report: MemoryReport) -> dict[str, Described]:
    described = {name: Described("?", (), ()) for name in report.unplaced}
    for storage in report.storages:
        for tensor in storage.tensors:
            entry = tensor.entry
            partners = {*tensor.shares_with, *entry.names} if tensor.shares_with else set()
            for name in entry.names:
                shared = tuple(sorted(partners - {name}))
                described[name] = Described(entry.dtype, tuple(entry.shape), shared)
    return described


def _among(tensor: Described, names: dict[str, Described]) -> Described:
    """A tensor without sharing with names that are not given."""
    return tensor._replace(shares_with=tuple(n for n in tensor.shares_with if n in names))
