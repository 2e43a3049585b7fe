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
        and not (isinstance(value, types.ModuleType) and name in ("siblings", "testing"))
    }
    assert public == set(linops_core.__all__)
