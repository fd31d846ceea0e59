"""Readers of the inside of calls: literals, arguments in markup, calls that are objects, and broken calls."""
