import sys

import pytest

from linops_core._extras import optional_module


def test_an_installed_library_is_returned() -> None:
    assert optional_module("json.decoder", "somebody") is sys.modules["json.decoder"]


def test_one_that_is_not_installed_is_named_with_what_installs_it() -> None:
    with pytest.raises(
        ImportError,
        match=r"to_other: not_there must be installed: pip install 'linops-core\[not_there\]",
    ):
        optional_module("not_there.linop", "to_other")


def test_an_error_inside_of_a_library_is_not_taken_for_its_absence() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'json.nothing'"):
        optional_module("json.nothing", "somebody")
