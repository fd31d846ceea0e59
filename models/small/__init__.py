"""Data and programs that make the adapter of the embedded model."""

SCALE = 2.0
"""The factor of the adapter's product."""
