"""Data and programs that make the adapter of the embedded model."""

RANK = 32
"""The rank of the adapter's matrices."""
SCALE = 2.0
"""The factor of their product."""
