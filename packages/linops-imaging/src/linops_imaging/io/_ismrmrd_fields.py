"""The fields of ISMRMRD's headers of lines and images."""

from __future__ import annotations

import numpy as np

COUNTERS = (
    "kspace_encode_step_1",
    "kspace_encode_step_2",
    "average",
    "slice",
    "contrast",
    "phase",
    "repetition",
    "set",
    "segment",
)
REPEATED = ("repetition", "set", "phase", "contrast", "average", "slice")
"""Counters that tell images apart, in the order of their axes."""
DIRECTIONS = ("read_dir", "phase_dir", "slice_dir")
_GEOMETRY = tuple((name, "<f4", 3) for name in ("position", *DIRECTIONS, "patient_table_position"))
_OF_USERS = ("user_int", "<i4", 8), ("user_float", "<f4", 8)
_TIMES = ("acquisition_time_stamp", "<u4"), ("physiology_time_stamp", "<u4", 3)
IDX = np.dtype([*((name, "<u2") for name in COUNTERS), ("user", "<u2", 8)])
HEAD = np.dtype(
    [
        ("version", "<u2"),
        ("flags", "<u8"),
        ("measurement_uid", "<u4"),
        ("scan_counter", "<u4"),
        *_TIMES,
        ("number_of_samples", "<u2"),
        ("available_channels", "<u2"),
        ("active_channels", "<u2"),
        ("channel_mask", "<u8", 16),
        ("discard_pre", "<u2"),
        ("discard_post", "<u2"),
        ("center_sample", "<u2"),
        ("encoding_space_ref", "<u2"),
        ("trajectory_dimensions", "<u2"),
        ("sample_time_us", "<f4"),
        *_GEOMETRY,
        ("idx", IDX),
        *_OF_USERS,
    ]
)
IMAGE_HEAD = np.dtype(
    [
        ("version", "<u2"),
        ("data_type", "<u2"),
        ("flags", "<u8"),
        ("measurement_uid", "<u4"),
        ("matrix_size", "<u2", 3),
        ("field_of_view", "<f4", 3),
        ("channels", "<u2"),
        *_GEOMETRY,
        ("average", "<u2"),
        ("slice", "<u2"),
        ("contrast", "<u2"),
        ("phase", "<u2"),
        ("repetition", "<u2"),
        ("set", "<u2"),
        *_TIMES,
        ("image_type", "<u2"),
        ("image_index", "<u2"),
        ("image_series_index", "<u2"),
        *_OF_USERS,
        ("attribute_string_len", "<u4"),
    ]
)
