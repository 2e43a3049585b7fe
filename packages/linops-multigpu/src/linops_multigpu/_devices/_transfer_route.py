"""The way that a vector takes from one device to another."""

from __future__ import annotations

import logging
from enum import Enum

import torch
from torch._guards import active_fake_mode

from ._device_spec import probed
from ._streams import HostBackend, StreamBackend, backend_of, kept_with_backend

_LOG = logging.getLogger("linops_multigpu")


class Route(Enum):
    """How the bytes go; the value is what a log says."""

    NONE = "nothing to send"
    TORCH = "by torch"  # where no streams are: a CPU, shapes without values
    TO_DEVICE = "host to device"
    TO_HOST = "device to host"
    DIRECT = "device to device"
    STAGED = "through pinned host memory"


def route_between(source: torch.device, destination: torch.device) -> Route:
    """Return the way from one device to another, which is found out once a process.

    Two devices exchange data directly if they can reach each other and a test arrives as it was
    sent. If not, a warning says so.
    """
    if source == destination:
        return Route.NONE
    if active_fake_mode() is not None:
        return Route.TORCH
    return _route(backend_of(source), (source, destination))


@kept_with_backend
def _route(here: StreamBackend, ends: tuple[torch.device, torch.device]) -> Route:
    source, destination = ends
    is_from_host = isinstance(here, HostBackend)
    is_to_host = isinstance(backend_of(destination), HostBackend)
    if is_from_host and is_to_host:
        probed(destination)
    if is_from_host or is_to_host:
        if is_from_host is is_to_host or "cpu" not in (source.type, destination.type):
            return Route.TORCH
        return Route.TO_DEVICE if is_from_host else Route.TO_HOST
    if not here.can_reach(source, destination):
        reason = "there is no peer access"
    elif not _arrives_as_sent(source, destination):
        reason = "a test between them did not arrive as it was sent"
    else:
        return Route.DIRECT
    _LOG.warning(
        "transfers from %s to %s go through pinned host memory: %s", source, destination, reason
    )
    return Route.STAGED


# Numbers without a pattern, so that neither lost nor exchanged nor repeated words go unseen; a
# quarter of a mebibyte, which is more than one packet of any bus.
_N_WORDS, _MIX = 1 << 15, -7046029254386353131


def _arrives_as_sent(source: torch.device, destination: torch.device) -> bool:
    with torch.no_grad():
        sent = torch.arange(1, _N_WORDS + 1, device="cpu").mul_(_MIX)
        # What is there before is not what is sent, or a copy that does nothing might pass.
        arrived = torch.zeros_like(sent).to(destination)
        arrived.copy_(sent.to(source))
        return torch.equal(arrived.cpu(), sent)
