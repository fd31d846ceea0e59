"""White space at the end of text that may belong to the marker behind it."""


def common_suffix(text: str, start: int, end: int, margin: str) -> int:
    """How many characters before ``end`` are a suffix of the margin."""
    for k in range(min(len(margin), end - start), 0, -1):
        if text.endswith(margin[-k:], start, end):
            return k
    return 0


def held_suffix(text: str, start: int, end: int, margin: str) -> int:
    """How many characters before ``end`` may become a suffix of the margin."""
    for k in range(min(len(margin), end - start), 0, -1):
        if text[end - k : end] in margin:
            return k
    return 0
