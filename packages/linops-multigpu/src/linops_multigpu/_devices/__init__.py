"""Devices, streams, events, and transfers between devices."""
