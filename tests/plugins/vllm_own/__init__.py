"""vLLM's own tests, with our parsers instead of vLLM's."""
