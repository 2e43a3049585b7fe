"""Values: objects that cannot be changed, with what they hold to compare them by."""

from __future__ import annotations

from typing import Any, Self

from ._streams import Stream


class Value:
    """An object that cannot be changed, so that its copies are itself."""

    def __copy__(self) -> Self:
        """Return the value itself."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the value itself, streams and all."""
        return self


def refuse_to_pickle(what: str, *streams: Stream | None) -> None:
    """Raise a TypeError if there is a stream: it is a handle of this process."""
    if any(stream is not None for stream in streams):
        raise TypeError(
            f"{what}: streams belong to one process and must be given again in another, "
            f"got one with streams to pickle"
        )
