"""The XML header of an ISMRMRD file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape


class Encoding(NamedTuple):
    """The encoding of k-space; three numbers are for read-out, phase encoding and partitions."""

    trajectory: str
    """"cartesian", "epi", "radial", "goldenangle", "spiral" or "other"."""
    encoded_size: tuple[int, int, int]
    """Points of the grid in k-space."""
    encoded_fov: tuple[float, float, float]
    """Its field of view in mm."""
    recon_size: tuple[int, int, int]
    """Pixels of the image to reconstruct."""
    recon_fov: tuple[float, float, float]
    """Field of view of the image in mm."""
    centre: tuple[int, int]
    """``kspace_encode_step_1`` and ``_2`` of the centre of k-space."""
    parameters: dict[str, float] = {}  # noqa: RUF012  # nobody writes to it
    """Numbers of the trajectory, such as ``rampUpTime`` in microseconds."""


def encodings_of(header: str, owner: str = "read_ismrmrd") -> list[Encoding]:
    """Return the encodings in the header of a file."""
    if "<!DOCTYPE" in header:  # a DOCTYPE can define entities that expand without bound
        raise ValueError(f"{owner}: the header must have no DOCTYPE, got one")
    try:
        root = ElementTree.fromstring(header)
    except ElementTree.ParseError as error:
        raise ValueError(f"{owner}: the header must be XML, got: {error}") from None
    encodings = [_encoding(element, owner) for element in root.iterfind("{*}encoding")]
    if not encodings:
        raise ValueError(f"{owner}: the header must have an encoding, got none")
    return encodings


def _encoding(element: ElementTree.Element, owner: str) -> Encoding:
    def text(path: str, default: str | None = None) -> str:
        value = element.findtext("/".join(f"{{*}}{part}" for part in path.split("/")), default)
        if value is None:
            raise ValueError(f"{owner}: the header must have encoding/{path}")
        return value.strip()

    def number(path: str, default: int | None = None, least: int = 1) -> int:
        value = text(path, None if default is None else str(default)).removeprefix("+")
        if not (value.isascii() and value.isdecimal() and least <= int(value[:9]) < 2**16):
            raise ValueError(
                f"{owner}: encoding/{path} must be an integer from {least} to "
                f"65535, got {value[:80]!r}"
            )
        return int(value)

    def length(path: str) -> float:
        written = text(path)
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise ValueError(
                f"{owner}: encoding/{path} must be a length in mm, got {written[:80]!r}"
            )
        return value

    def parameters() -> dict[str, float]:
        values = {}
        for kind in ("userParameterLong", "userParameterDouble"):
            for one in element.iterfind(f"{{*}}trajectoryDescription/{{*}}{kind}"):
                name, value = one.findtext("{*}name", ""), one.findtext("{*}value", "")
                try:
                    values[name.strip()] = float(value)
                except ValueError:
                    raise ValueError(
                        f"{owner}: encoding/trajectoryDescription/{kind} must have numbers, got "
                        f"{value[:80]!r}"
                    ) from None
        return values

    def sizes(space: str) -> tuple[int, int, int]:
        x, y, z = (number(f"{space}/matrixSize/{axis}") for axis in "xyz")
        return x, y, z

    def lengths(space: str) -> tuple[float, float, float]:
        x, y, z = (length(f"{space}/fieldOfView_mm/{axis}") for axis in "xyz")
        return x, y, z

    def centre(step: int, size: int) -> int:
        return number(f"encodingLimits/kspace_encoding_step_{step}/center", size // 2, 0)

    encoded = sizes("encodedSpace")
    return Encoding(
        trajectory=text("trajectory"),
        encoded_size=encoded,
        encoded_fov=lengths("encodedSpace"),
        recon_size=sizes("reconSpace"),
        recon_fov=lengths("reconSpace"),
        centre=(centre(1, encoded[1]), centre(2, encoded[2])),
        parameters=parameters(),
    )


def header_of(encodings: Sequence[Encoding], n_coils: int) -> str:
    """Return the XML header of encodings, with what the schema of the standard asks for."""

    def space(name: str, size: tuple[int, int, int], fov: tuple[float, float, float]) -> str:
        sizes = "".join(f"<{axis}>{n}</{axis}>" for axis, n in zip("xyz", size, strict=True))
        lengths = "".join(f"<{axis}>{mm!r}</{axis}>" for axis, mm in zip("xyz", fov, strict=True))
        return (
            f"<{name}><matrixSize>{sizes}</matrixSize>"
            f"<fieldOfView_mm>{lengths}</fieldOfView_mm></{name}>"
        )

    def limits(encoding: Encoding) -> str:
        return "".join(
            f"<kspace_encoding_step_{step}><minimum>0</minimum>"
            f"<maximum>{encoding.encoded_size[step] - 1}</maximum>"
            f"<center>{centre}</center></kspace_encoding_step_{step}>"
            for step, centre in zip((1, 2), encoding.centre, strict=True)
        )

    def description(encoding: Encoding) -> str:
        numbers = "".join(
            f"<userParameterDouble><name>{escape(name)}</name><value>{value!r}</value>"
            "</userParameterDouble>"
            for name, value in encoding.parameters.items()
        )
        if not numbers:
            return ""
        identifier = f"<identifier>{encoding.trajectory}</identifier>"
        return f"<trajectoryDescription>{identifier}{numbers}</trajectoryDescription>"

    spaces = "".join(
        f"<encoding>{space('encodedSpace', one.encoded_size, one.encoded_fov)}"
        f"{space('reconSpace', one.recon_size, one.recon_fov)}"
        f"<encodingLimits>{limits(one)}</encodingLimits>"
        f"<trajectory>{one.trajectory}</trajectory>{description(one)}</encoding>"
        for one in encodings
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">'
        "<acquisitionSystemInformation>"
        f"<receiverChannels>{n_coils}</receiverChannels></acquisitionSystemInformation>"
        # Required by the schema; 0 says that it is not known.
        "<experimentalConditions><H1resonanceFrequency_Hz>0</H1resonanceFrequency_Hz>"
        f"</experimentalConditions>{spaces}</ismrmrdHeader>"
    )
