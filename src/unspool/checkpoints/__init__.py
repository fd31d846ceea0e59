"""Reads the files of models: GGUFs with their tokens, and chat templates with special tokens."""
