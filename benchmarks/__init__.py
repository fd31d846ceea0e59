"""The cost of unspool: `python -m benchmarks` prints the table."""
