"""Files of other programs: BART's cfl, fastMRI, ISMRMRD, NIfTI.

Reading a file executes nothing in it and opens no other file, except the second one of a pair. If
a file is damaged or cannot be represented, the error names the file and the problem.
"""

from ._cfl import read_cfl as read_cfl
from ._cfl import write_cfl as write_cfl
from ._fastmri import FastmriScan as FastmriScan
from ._fastmri import read_fastmri as read_fastmri
from ._ismrmrd import ismrmrd_groups as ismrmrd_groups
from ._ismrmrd import read_ismrmrd as read_ismrmrd
from ._ismrmrd_header import Encoding as Encoding
from ._ismrmrd_images import IsmrmrdImages as IsmrmrdImages
from ._ismrmrd_images import read_ismrmrd_images as read_ismrmrd_images
from ._ismrmrd_images import write_ismrmrd_images as write_ismrmrd_images
from ._ismrmrd_lines import IsmrmrdGroup as IsmrmrdGroup
from ._ismrmrd_scan import IsmrmrdScan as IsmrmrdScan
from ._nifti import read_nifti as read_nifti
from ._write_ismrmrd import write_ismrmrd as write_ismrmrd
from ._write_nifti import write_nifti as write_nifti

__all__ = [
    "Encoding",
    "FastmriScan",
    "IsmrmrdGroup",
    "IsmrmrdImages",
    "IsmrmrdScan",
    "ismrmrd_groups",
    "read_cfl",
    "read_fastmri",
    "read_ismrmrd",
    "read_ismrmrd_images",
    "read_nifti",
    "write_cfl",
    "write_ismrmrd",
    "write_ismrmrd_images",
    "write_nifti",
]
