import sys

import pytest

from linops_imaging._extras import needed


def test_an_installed_library_is_returned() -> None:
    assert needed("json.decoder", "somebody", "extra") is sys.modules["json.decoder"]


def test_one_that_is_not_installed_is_named_with_what_installs_it() -> None:
    with pytest.raises(
        ImportError,
        match=r"read_a: not_there must be installed: pip install 'linops-imaging\[extra\]'",
    ):
        needed("not_there.physics", "read_a", "extra")


def test_an_error_inside_of_a_library_is_not_taken_for_its_absence() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'json.nothing'"):
        needed("json.nothing", "somebody", "extra")
