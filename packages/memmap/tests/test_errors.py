import pytest

import memmap


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("StorageError", ValueError),
        ("NonLeafError", RuntimeError),
        ("CastError", ValueError),
        ("MoveError", RuntimeError),
        ("AliasError", memmap.MoveError),
        ("AliasWarning", UserWarning),
    ],
)
def test_errors_are_caught_by_existing_handlers(name: str, base: type[Exception]) -> None:
    assert issubclass(getattr(memmap, name), base)


def test_importing_the_package_does_not_import_hypothesis() -> None:
    import subprocess
    import sys

    code = "import sys, memmap; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_exists() -> None:
    names = vars(memmap)["__all__"]
    assert sorted(set(names)) == sorted(names)
    assert all(hasattr(memmap, name) for name in names)
