"""Renders chat templates, which are untrusted programs: `environment` is the Jinja that they expect, `child` renders in
a process with limits, `worker` and `pool` run such processes.
"""
