"""Numbers of bytes as text."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def bytes_text(nbytes: int) -> str:
    """Bytes in a unit that fits: 1023 B, 1.5 KiB, 3.0 GiB."""
    value, exponent = float(nbytes), 0
    while round(value, 1) >= 1024 and exponent < len(_UNITS) - 1:
        value /= 1024
        exponent += 1
    return f"{value:.1f} {_UNITS[exponent]}" if exponent else f"{nbytes} B"
