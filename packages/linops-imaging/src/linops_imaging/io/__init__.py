"""Files of other programs: BART's cfl, ISMRMRD, NIfTI.

Nothing in a file is executed, and nothing outside of it is read. Where a file is damaged, or holds
what these functions cannot return, the error names the file and what is wrong in it.
"""

from ._cfl import read_cfl as read_cfl
from ._cfl import write_cfl as write_cfl
from ._ismrmrd import read_ismrmrd as read_ismrmrd
from ._ismrmrd_header import Encoding as Encoding
from ._ismrmrd_scan import IsmrmrdScan as IsmrmrdScan
from ._nifti import read_nifti as read_nifti

__all__ = ["Encoding", "IsmrmrdScan", "read_cfl", "read_ismrmrd", "read_nifti", "write_cfl"]
