"""What a tuple of dimensions must be to be part of a shape."""

from nameddim._dimension import ANY, ELLIPSES
from nameddim._errors import pointing_at, written
from nameddim._parse import Dims


def check_distinct(key: str, dims: Dims) -> None:
    """Refuse `dims`, which is called `key`, if it has a name twice or a second ellipsis."""
    if len(set(dims)) == len(dims):
        return
    for position, dim in enumerate(dims):
        if dim != ANY and dim in dims[:position]:
            what = "at most one ellipsis" if dim == ELLIPSES else "different dimensions"
            before = written(dims[:position])
            raise ValueError(
                f"NamedShape: {key} must have {what}, got a second {dim!r} "
                f"at position {position} of {written(dims)}"
                + pointing_at(written(dims), len(before) + len(", ") - len(")"))
            )
