"""A check that torch-named-linops, which is also imported as ``torchlinops``, is not installed."""

from importlib import metadata


def refuse_other_distribution() -> None:
    """Raise an ImportError if torch-named-linops is installed: each replaces files of the other."""
    other = "torch-named-linops"
    try:
        version = metadata.version(other)
    except metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"torchlinops is the import name of two distributions, and both are installed: "
        f"torchlinops and {other} {version}. Remove both, then install the one you want: "
        f"pip uninstall {other} torchlinops"
    )
