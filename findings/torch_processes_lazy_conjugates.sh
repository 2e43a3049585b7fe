#!/usr/bin/env bash
# Tensors sent between processes by torch: workers of a DataLoader, and arguments of a process. Guessed: a
# conjugate arrives as it was sent, as with pickle and torch.save, or raises an error. Seen on 29 November
# 2026 (torch 2.13.0, CPU, Python 3.11; a DataLoader of 2.14.1 is alike): from a worker, samples that are
# not stacked arrive without their conjugate, and z.conj().imag without its sign; with num_workers=0
# both are right. A module with such buffers that is given to a process has other values there.
# ifft of real numbers is such a conjugate, too, which nobody asked for.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
cat > "$folder/program.py" <<'PYTHON'
import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset

z = torch.tensor([1 + 2j, 3 - 4j])


class Samples(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        image = torch.fft.ifft(torch.tensor([1.0, 2.0, 4.0]))
        return {"conjugate": z.conj(), "imaginary part": z.conj().imag, "ifft": image}


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("conjugate", z.conj())
        self.register_buffer("imaginary", z.conj().imag)


def tell(module, queue):
    queue.put((module.conjugate.tolist(), module.imaginary.tolist()))


if __name__ == "__main__":
    print("torch", torch.__version__)
    (here,), (there,) = (
        list(DataLoader(Samples(), batch_size=None, num_workers=number)) for number in (0, 1)
    )
    for name in here:
        print(f"{name}: {here[name].tolist()}, from a worker {there[name].tolist()}")
    assert here["conjugate"].tolist() == z.conj().resolve_conj().tolist(), "the behaviour has changed"
    assert there["conjugate"].tolist() == z.tolist(), "the behaviour has changed"
    assert there["imaginary part"].tolist() == z.imag.tolist(), "the behaviour has changed"
    assert torch.equal(there["ifft"], here["ifft"].conj()), "the behaviour has changed"
    context = multiprocessing.get_context("spawn")
    queue, module = context.SimpleQueue(), Holder()
    process = context.Process(target=tell, args=(module, queue))
    process.start()
    conjugate, imaginary = queue.get()
    process.join()
    print(f"buffers {module.conjugate.tolist()} {module.imaginary.tolist()}")
    print(f"in the process {conjugate} {imaginary}")
    assert conjugate == z.tolist() and imaginary == z.imag.tolist(), "the behaviour has changed"
PYTHON
"$folder/env/bin/python" -W ignore "$folder/program.py"
