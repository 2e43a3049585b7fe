#!/usr/bin/env bash
# ODL beside pytest 9. Guessed: a library that is installed but not imported does not change tests.
# Seen on 29 November 2026 (ODL 1.0.0, pytest 9.2.0, Python 3.11): ODL has an entry point for pytest,
# with a hook that takes `path`, which pytest 9 does not have. Each run of pytest ends with
# PluginValidationError, also of a file without ODL. The option -p no:odl_plugins leaves it out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet odl==1.0.0 pytest==9.2.0
printf 'def test_nothing():\n    assert True\n' >"$folder/test_nothing.py"
cd "$folder"
"$folder/env/bin/python" -m pytest --quiet -p no:odl_plugins test_nothing.py
if "$folder/env/bin/python" -m pytest --quiet test_nothing.py >seen.txt 2>&1; then
  echo "the behaviour has changed" >&2
  exit 1
fi
grep PluginValidationError seen.txt
