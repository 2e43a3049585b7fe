import subprocess
import sys


def test_importing_does_not_import_hypothesis() -> None:
    code = "import sys, linops_core.testing; assert 'hypothesis' not in sys.modules; print('done')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stderr
