"""Errors and warnings of memmap, besides TypeError and ValueError."""


class StorageError(ValueError):
    """A tensor or view does not fit its storage."""


class NonLeafError(RuntimeError):
    """A tensor with a history (a non-leaf) cannot be copied or moved without losing it."""


class CastError(ValueError):
    """Tensors that share memory cannot be cast so that they still share it."""


class MoveError(RuntimeError):
    """A module cannot be moved. Nothing in it was changed."""


class AliasError(MoveError):
    """Memory of a module is also held outside, so a move would separate the two."""


class AliasWarning(UserWarning):
    """Memory of a module is also held outside. The move or copy separates the two."""


class CheckpointError(ValueError):
    """A file is not a checkpoint, is damaged, or is of a kind that cannot be read."""
