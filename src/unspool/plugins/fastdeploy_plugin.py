"""Registers with FastDeploy when it is imported: for ``--tool-parser-plugin``, which takes this file's path.

Versions of FastDeploy that load entry points do not need it.
"""

from unspool.plugins.fastdeploy import register_reasoning, register_tools

register_tools()
register_reasoning()
