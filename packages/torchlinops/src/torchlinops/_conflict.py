"""Refuse to be imported beside the other distribution that is imported as ``torchlinops``."""

from importlib import metadata

_OTHER = "torch-named-linops"


def refuse_other_distribution() -> None:
    """Raise if torch-named-linops is installed as well.

    The one that was installed last has replaced files of the other, and what runs would be a
    mixture of both.

    Raises
    ------
    ImportError
        If it is installed; the message says what to remove.
    """
    try:
        version = metadata.version(_OTHER)
    except metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"torchlinops is the import name of two distributions, and both are installed: "
        f"torchlinops and {_OTHER} {version}. Remove both, then install the one you want: "
        f"pip uninstall {_OTHER} torchlinops"
    )
