"""Errors and warnings of memmap, besides TypeError and ValueError."""

# A traceback shows the name that users import: hence the module of each class.


class StorageError(ValueError):
    """A tensor or view does not fit its storage."""

    __module__ = "memmap"


class NonLeafError(RuntimeError):
    """A tensor with a history (a non-leaf) cannot be copied or moved without losing it."""

    __module__ = "memmap"


class CastError(ValueError):
    """Tensors that share memory cannot be cast so that they still share it."""

    __module__ = "memmap"


class MoveError(RuntimeError):
    """A module cannot be moved. It is unchanged, unless the message names tensors that stayed."""

    __module__ = "memmap"


class AliasError(MoveError):
    """Memory of a module is also held outside of it, so a move would separate the two."""

    __module__ = "memmap"


class AliasWarning(UserWarning):
    """Memory of a module is also held outside of it. The move or copy separates the two."""

    __module__ = "memmap"


class CheckpointError(ValueError):
    """A file is not a checkpoint, is damaged, or is of a kind that cannot be read."""

    __module__ = "memmap"


class OwnershipError(ValueError):
    """Memory offered to one owner belongs to another one."""

    __module__ = "memmap.borrow"
