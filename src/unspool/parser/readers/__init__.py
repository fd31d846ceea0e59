"""What reads the inside of calls: literals, arguments in markup, calls that are objects, and what went wrong."""
