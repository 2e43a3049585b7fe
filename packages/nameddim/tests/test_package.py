import subprocess
import sys

import nameddim
from nameddim.testing import words


def test_exports_are_what_it_says() -> None:
    public = {name for name in vars(nameddim) if not name.startswith("_")}
    assert public - {"testing"} == set(nameddim.__all__)
    assert nameddim.ND is nameddim.NamedDimension
    assert nameddim.NS is nameddim.NamedShape


def test_import_brings_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import nameddim; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(*sorted(new - sys.stdlib_module_names))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["nameddim"]


def test_words_are_those_of_the_regular_expression() -> None:
    assert words((), "AB", 2) == {()}
    assert words(("()",), "AB", 2) == {("A",), ("B",)}
    assert words(("A", "..."), "AB", 2) == {("A",), ("A", "A"), ("A", "B")}
    assert words(("(1)", "(1)"), "AB", 3) == {(a, b) for a in "AB" for b in "AB"}
