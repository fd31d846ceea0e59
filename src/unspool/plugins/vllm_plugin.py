"""Registers with vLLM when it is imported: for ``--tool-parser-plugin`` and ``--reasoning-parser-plugin``.

Both flags take this module's name, ``unspool.plugins.vllm_plugin``, or its file. With entry points, neither is needed.
"""

from unspool.plugins.vllm import register

register()
