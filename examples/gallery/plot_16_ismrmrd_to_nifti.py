"""
From ISMRMRD to NIfTI: the files of a scanner
=============================================

A scan in an ISMRMRD file becomes an image with its place in the scanner, which other programs read.
The second part removes the ghost of an echo planar scan.
"""

# %%
# A file
# ------
# The scan is simulated: a volume of a head, eight coils, noise, and a readout that is sampled twice
# as densely as the image needs, as scanners do. The volume is tilted by 20 degrees. ``path`` can be
# a file of your scanner instead; ISMRMRD has converters from the formats of the vendors.

import dataclasses
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import torchlinops as tl
from torchlinops import io, mri

torch.manual_seed(0)
SIZE, SLICES, COILS, NOISE = 64, 16, 8, 0.02
folder = TemporaryDirectory()
path = Path(folder.name, "scan.h5")

head = tl.phantoms.shepp_logan([SIZE, SIZE, SLICES]).permute(2, 1, 0)  # (Z, Y, X)
coils = tl.phantoms.CoilSeries.around(COILS).on_grid([SIZE, SIZE])
wide = tl.PadLast([SIZE, 2 * SIZE], [SIZE, SIZE])(coils.unsqueeze(1) * head)
kspace = tl.FFT(3, centered=True)(wide)  # (C, Z, Y, X)
kspace = kspace + NOISE * torch.randn_like(kspace)

scan = io.IsmrmrdScan.from_grid(kspace, (480.0, 240.0, 160.0), recon_size=(SIZE, SIZE, SLICES))
tilt = math.radians(20)
place = {
    "position": torch.tensor([0.0, -15.0, 40.0]),  # mm to the left, the back and the top
    "read_dir": torch.tensor([1.0, 0.0, 0.0]),
    "phase_dir": torch.tensor([0.0, math.cos(tilt), -math.sin(tilt)]),
    "slice_dir": torch.tensor([0.0, math.sin(tilt), math.cos(tilt)]),
}
lines = scan.kspace.shape[1]
scan = dataclasses.replace(
    scan,
    details={name: vector.expand(lines, 3) for name, vector in place.items()},
    noise=NOISE * torch.randn(COILS, 1024, dtype=torch.complex64),
    noise_dwell_time=scan.dwell_time,
)
io.write_ismrmrd(path, scan)

# %%
# What is in it
# -------------
# Files have lines of several kinds, lengths and bandwidths. A group is what can be read together:
# ``io.read_ismrmrd(path, **group.selection)``. Without a group, the lines of imaging are read.
# ``where={"slice": [3, 4], "contrast": 0}`` selects some; the samples of the others are not kept.

for group in io.ismrmrd_groups(path):
    print(f"{group.n_lines} lines of {group.lines}, {group.number_of_samples} samples")

scan = io.read_ismrmrd(path)
grid, measured = scan.on_grid()
print("axes C, Z, Y, X:", tuple(grid.shape))

# %%
# The image
# ---------
# White noise first, then the inverse transform. One line removes the oversampling, and then the
# coils are combined.

assert scan.noise is not None
white, _ = tl.mri.prewhiten(grid, tl.mri.noise_covariance(scan.noise))
images = tl.FFT(3, centered=True).H(white)
images = tl.Crop([scan.encoding.recon_size[0]], [scan.encoding.encoded_size[0]])(images)
image = images.norm(dim=0)  # (Z, Y, X)

# %%
# NIfTI
# -----
# ``scan.affine()`` is the place of the image in the scanner. The axes of NIfTI are X, Y, Z. The
# same image can be kept in the ISMRMRD file, beside the lines.

affine = scan.affine()
io.write_nifti(Path(folder.name, "head.nii.gz"), image.permute(2, 1, 0), affine)
io.write_ismrmrd_images(path, io.IsmrmrdImages.from_volume(image, affine, kind="magnitude"))

found, its_affine = io.read_nifti(Path(folder.name, "head.nii.gz"))
again = io.read_ismrmrd_images(path)
assert torch.equal(found.permute(2, 1, 0), again.data[0, 0])
torch.testing.assert_close(its_affine, again.affine(), atol=1e-4, rtol=0)
middle = affine @ torch.tensor([SIZE // 2, SIZE // 2, SLICES // 2, 1], dtype=torch.float64)
print("the middle is at", [round(float(mm), 1) for mm in middle[:3]], "mm (right, front, top)")

# %%
# Echo planar imaging
# -------------------
# An echo planar scan reads every other line backwards. Their echoes are not exactly where those of
# the other lines are, so a ghost of the object appears, half a field of view away. Three lines
# without phase encoding show the difference. It is a phase along the readout, with a constant and a
# slope, and :class:`~linops_imaging.mri.LinePhase` is its operator. In a file, the three lines have
# the kind "phase correction": ``mri.estimate_phase(three.readouts(), three.is_reversed)``, and
# ``scan.to_grid(scan.is_reversed)`` says which lines of the grid were read backwards.
# ``write_ismrmrd(path, scan, others={"phase correction": three})`` writes them.

slice_ = coils * head[SLICES // 2]  # (C, Ny, Nx)
is_reversed = torch.arange(SIZE) % 2 == 1
three = torch.tensor([False, True, False])
along_x = tl.FFT(dims=("Nx",), to=("Kx",), centered=True)
along_y = tl.FFT(dims=("Ny",), shape=("C", "Ny", "Nx"), to=("Ky",), centered=True)
of_scanner = mri.LinePhase(0.6, 0.05, is_reversed, SIZE)
epi_lines = (along_x @ of_scanner @ along_y)(slice_)
echo = slice_.sum(1, keepdim=True).expand(-1, 3, -1)
reference = along_x(mri.LinePhase(0.6, 0.05, three, SIZE)(echo))
for data in (epi_lines, reference):
    data += NOISE * torch.randn_like(data)

constant, slope = mri.estimate_phase(reference, three)
print(f"constant {constant:.3f}, slope {slope:.4f} per pixel")
corrected = along_x @ mri.LinePhase(constant, slope, is_reversed, SIZE) @ along_y
ghost = (along_x @ along_y).H(epi_lines).norm(dim=0)
without_ghost = corrected.H(epi_lines).norm(dim=0)

# %%
# Images
# ------

expected = slice_.norm(dim=0)
scale = float(head.max() / image.max())
pictures = {
    "slice of the volume": scale * image[SLICES // 2],
    "from the left": scale * image[:, :, SIZE // 2].flip(0).repeat_interleave(3, 0),
    "echo planar": ghost,
    "corrected": without_ghost,
}
tl.show(pictures, limits=(0, 0.6))

assert (without_ghost - expected).norm() < 0.2 * expected.norm() < (ghost - expected).norm()
folder.cleanup()
