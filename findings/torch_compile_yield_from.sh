#!/usr/bin/env bash
# torch.compile(fullgraph=True) of a function whose loop enumerates a generator that ends with
# `yield from`. Guessed: it compiles, as plain generators do. Seen on 28 November 2026, CPU:
#   torch 2.13.0: compiled, the right value
#   torch 2.14.1: an AssertionError of the compiler; with `for ...: yield ...` instead it compiles
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 2.13.0 2.14.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet "torch==$version" "numpy==2.4.6" setuptools
    "$folder/$version/bin/python" - "$version" <<'PYTHON'
import sys
import torch


def from_another(x):
    for factor in (1, 2):
        numbers = factor * x, factor * x + 1
        yield from zip(*[number.split(2) for number in numbers], strict=True)


def from_a_loop(x):
    for factor in (1, 2):
        numbers = factor * x, factor * x + 1
        for pair in zip(*[number.split(2) for number in numbers], strict=True):
            yield pair


def total(parts, x):
    result = 0
    for step, (first, second) in enumerate(parts(x)):
        result = result + step * (first * second).sum()
    return result


x = torch.arange(4.0)
seen = []
for parts in (from_another, from_a_loop):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: total(parts, x), backend="eager", fullgraph=True)
    try:
        seen.append(bool(compiled(x) == total(parts, x)))
    except Exception as error:
        seen.append(type(error).__name__)
print(torch.__version__, seen)
expected = {"2.13.0": [True, True], "2.14.1": ["AssertionError", True]}
assert seen == expected[sys.argv[1]], "the behaviour has changed"
PYTHON
done
