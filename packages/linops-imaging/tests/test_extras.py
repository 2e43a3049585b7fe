import pytest

from linops_imaging._extras import optional_module


def test_one_that_is_not_installed_is_named_with_what_installs_it() -> None:
    with pytest.raises(
        ImportError,
        match=r"read_a: not_there must be installed: pip install 'linops-imaging\[extra\]'",
    ):
        optional_module("not_there.physics", "read_a", "extra")
