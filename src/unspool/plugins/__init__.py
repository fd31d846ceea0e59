"""Plug-ins: one module for each engine, which imports nothing of the engine before the engine loads it."""
