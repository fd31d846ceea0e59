"""Renders messages as a family's chat template writes them.

`turn` reads what to render, `values` writes JSON values, `render` puts them together.
"""

from .render import render

__all__ = ["render"]
