"""Plug-ins for engines: one module for each, which imports nothing of the engine before it is loaded by it."""
