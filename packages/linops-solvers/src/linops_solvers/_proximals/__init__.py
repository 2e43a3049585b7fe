"""Proximal maps: penalties and constraints that splitting methods take."""
