"""The arguments that name tool servers. (Stands in until the branch of the tool servers has its own.)"""

import argparse

from ..tools import Tools


def tool_arguments(p: argparse.ArgumentParser) -> None:
    """Add the arguments."""


def open_tools(options: argparse.Namespace) -> Tools:
    """The tool servers that the arguments name."""
    return Tools(())
