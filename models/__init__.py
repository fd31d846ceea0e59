"""Models of this project, and what made them."""
