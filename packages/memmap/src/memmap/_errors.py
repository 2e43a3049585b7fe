"""What memmap raises beyond TypeError and ValueError."""


class StorageError(ValueError):
    """A tensor or view does not fit the storage it is said to lie in."""
