"""The project's models, and the programs that made them."""
