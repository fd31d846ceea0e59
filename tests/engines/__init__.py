"""Constraints under real engines: xgrammar, and generation by a model of transformers."""
