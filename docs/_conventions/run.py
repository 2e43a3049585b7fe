"""All rows, in the order of the page."""

import non_uniform  # noqa: F401
import xray  # noqa: F401

import bart  # noqa: F401  # isort: skip
import transforms  # noqa: F401  # isort: skip
import coil_maps  # noqa: F401  # isort: skip
import functions  # noqa: F401  # isort: skip
import files  # noqa: F401  # isort: skip
import ranks  # noqa: F401  # isort: skip
import little_used  # noqa: F401  # isort: skip
import neighbours  # noqa: F401  # isort: skip
import numerics  # noqa: F401  # isort: skip
import complex_weights  # noqa: F401  # isort: skip
import rarely_met  # noqa: F401  # isort: skip
import optics  # noqa: F401  # isort: skip
import image_tools  # noqa: F401  # isort: skip
import other_fields  # noqa: F401  # isort: skip
import geometry  # noqa: F401  # isort: skip
import less_known  # noqa: F401  # isort: skip
from table import main

main()
