"""White space at the edges of text that may belong to the marker beside it."""


def common_suffix(text: str, start: int, end: int, margin: str) -> int:
    """How many characters before ``end`` equal a suffix of the margin."""
    if margin and end > start and text[end - 1] == margin[-1]:
        for k in range(min(len(margin), end - start), 0, -1):
            if text.endswith(margin[-k:], start, end):
                return k
    return 0


def common_prefix(text: str, margin: str, start: int = 0) -> int:
    """How many characters from ``start`` on equal a prefix of the margin."""
    if text.startswith(margin, start):
        return len(margin)
    k = 0
    while text.startswith(margin[k], start + k):
        k += 1
    return k


def held_suffix(text: str, start: int, end: int, margin: str) -> int:
    """How many characters before ``end`` may become a suffix of the margin."""
    for k in range(min(len(margin), end - start), 0, -1):
        if text[end - k : end] in margin:
            return k
    return 0
