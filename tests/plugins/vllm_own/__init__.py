"""vLLM's own tests, with our parsers in the place of vLLM's."""
