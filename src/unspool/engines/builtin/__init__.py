"""The builtin model: its files, and how to run it."""
