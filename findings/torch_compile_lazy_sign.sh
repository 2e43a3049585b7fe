#!/usr/bin/env bash
# torch.compile with its default backend. Guessed: a compiled function returns what the function does, for
# every view of complex numbers. Seen on 29 November 2026 (torch 2.13.0, CPU, Python 3.11; 2.14.1 is
# alike): given z.conj().imag, or the imaginary part of ifft of real numbers, whose sign torch keeps as a
# bit, it computes with the opposite sign, without a word; so do its gradients. resolve_neg() and clone()
# inside of the function change nothing. The backend "aot_eager" is right, lazily conjugated inputs are
# right, and so is the imaginary part that is taken inside of the function.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
cat > "$folder/program.py" <<'PYTHON'
import torch

print("torch", torch.__version__)
z = torch.tensor([1 + 2j, 3 - 4j, 5 + 6j])
negated, of_ifft = z.conj().imag, torch.fft.ifft(torch.tensor([1.0, 2.0, 3.0])).imag
weight = torch.ones(3, requires_grad=True)


def error(function, x, **options):
    torch._dynamo.reset()
    return (torch.compile(function, **options)(x) - function(x)).abs().max().item()


wrong = {
    "x + 1": error(lambda x: x + 1, negated),
    "x + 1 of ifft": error(lambda x: x + 1, of_ifft),
    "x.resolve_neg() + 1": error(lambda x: x.resolve_neg() + 1, negated),
    "x.clone() + 1": error(lambda x: x.clone() + 1, negated),
    "matrix @ x": error(lambda x: torch.eye(3) @ x, negated),
}
right = {
    "aot_eager": error(lambda x: x + 1, negated, backend="aot_eager"),
    "resolved before": error(lambda x: x + 1, negated.resolve_neg()),
    "inside": error(lambda z: z.conj().imag + 1, z),
    "conjugate": error(lambda z: z * 1j, z.conj()),
}
torch.compile(lambda x: (weight * x).sum())(negated).backward()
print("errors", wrong)
print("errors", right)
print("gradient", weight.grad.tolist(), "of the sum of w times", negated.tolist())
assert min(wrong.values()) > 0.5 and max(right.values()) < 1e-6, "the behaviour has changed"
assert torch.equal(weight.grad, -negated), "the behaviour has changed"
PYTHON
"$folder/env/bin/python" -W ignore "$folder/program.py"
