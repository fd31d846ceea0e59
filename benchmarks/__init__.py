"""What unspool costs: `python -m benchmarks` prints the table."""
