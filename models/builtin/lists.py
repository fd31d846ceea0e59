"""How lists of phrases are written."""

import re


def listed(text: str) -> list[str]:
    """Phrases between semicolons; the ends of lines, and spaces at their beginnings, are not part of them."""
    return re.sub(r"\n *", "", text).split(";")


def words_of(text: str) -> list[str]:
    """Words between spaces and ends of lines."""
    return text.split()
