import pathlib
import re
import subprocess
import sys
import types

import linops_core


def test_importing_does_not_import_hypothesis() -> None:
    code = "import sys, linops_core.testing; assert 'hypothesis' not in sys.modules; print('done')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr


def test_all_public_names_are_there_and_no_others() -> None:
    public = {
        name
        for name, value in vars(linops_core).items()
        if not name.startswith("_")
        and not (isinstance(value, types.ModuleType) and name == "testing")
    }
    assert public == set(linops_core.__all__)


def test_the_map_names_each_module_once_and_no_others() -> None:
    package = pathlib.Path(__file__).parents[1]
    modules = [path.stem for path in package.glob("src/linops_core/**/*.py")]
    named = [
        name
        for row in (package / "MODULES.md").read_text().splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    assert sorted(named) == sorted(name for name in modules if name != "__init__")
