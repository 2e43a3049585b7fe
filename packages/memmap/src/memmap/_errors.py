"""What memmap raises and warns of beyond TypeError and ValueError."""


class StorageError(ValueError):
    """A tensor or view does not fit the storage it is said to lie in."""


class NonLeafError(RuntimeError):
    """A tensor with a history cannot be copied or moved without losing it."""


class CastError(ValueError):
    """Tensors that share memory cannot all be cast so that they still share it."""


class MoveError(RuntimeError):
    """A module cannot be moved; nothing of it was changed."""


class AliasError(MoveError):
    """Memory of a module is also held outside, so that a move would take them apart."""


class AliasWarning(UserWarning):
    """Memory of a module is also held outside, where a move or a copy takes them apart."""


class CheckpointError(ValueError):
    """A file is no checkpoint, or one that is damaged or of a kind that is not read."""
