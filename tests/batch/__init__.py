"""Rollouts in bulk: rows, tables, files, and runs that are killed."""
