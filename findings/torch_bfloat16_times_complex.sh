#!/usr/bin/env bash
# A tensor in bfloat16 times a Python complex number. Guessed: complex64 in every release. Seen on
# 28 November 2026, CPU, Python 3.11:
#   torch 2.13.0: torch.complex64
#   torch 2.14.1: result_type is torch.bcomplex32, and the product raises NotImplementedError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 2.13.0 2.14.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet "torch==$version" "numpy==2.4.6"
    "$folder/$version/bin/python" - "$version" <<'PYTHON'
import sys
import torch

x = torch.ones(2, dtype=torch.bfloat16)
kind = str(torch.result_type(x, 1j))
try:
    seen = str((1j * x).dtype)
except NotImplementedError as error:
    seen = f"NotImplementedError: {error}"
print(torch.__version__, kind, seen)
if sys.argv[1] == "2.13.0":
    assert (kind, seen) == ("torch.complex64", "torch.complex64"), "the behaviour has changed"
else:
    assert kind == "torch.bcomplex32" and "BComplex32" in seen, "the behaviour has changed"
PYTHON
done
