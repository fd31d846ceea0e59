"""Registers with FastDeploy when it is imported: for ``--tool-parser-plugin``, which takes this file's path.

It is for a FastDeploy that loads no entry points; with them, it is not needed.
"""

from unspool.plugins.fastdeploy import register_reasoning, register_tools

register_tools()
register_reasoning()
