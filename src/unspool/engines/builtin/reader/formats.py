"""The form in which a parameter's description wants its value: a time as ``HH:MM``, a day as ``YYYY-MM-DD``, a code, or
what looks like its example."""

import re
from functools import lru_cache
from typing import Any, Final

from .prompt import Parameter
from .words import CODES, MONTHS, NUMBERS, TONGUE_CODES, UNITS, parts_of

_CLOCK: Final = re.compile(r"\bhh:?mm\b|\b24[- ]?h|[\"'(]\d\d:\d\d\b")
_DAY: Final = re.compile(r"yyyy-mm-dd|\biso\b|[\"']\d{4}-\d\d-\d\d")
_LANGUAGE: Final = re.compile(r"\bcode\b|\biso\b|[\"'][a-z]{2}[\"']|e\.g\.,? [a-z]{2}\b|\bas [a-z]{2}\b")
"""What descriptions say that want these forms."""
_NUMBER: Final = "|".join(word for word, n in NUMBERS.items() if n in range(1, 13))
_TIME: Final = re.compile(
    rf"(?:(?P<count>half|(?:a )?quarter|\d{{1,2}}|ten|five|twenty)(?: minutes)? (?P<side>past|after|to|before) )?"
    rf"(?P<hour>\d{{1,2}}|{_NUMBER})(?::(?P<minute>\d\d))?(?: ?o'?clock)?\s*(?P<half>[ap])?(?(half)\.?m\.?)"
    r"(?:,? (?P<part>(?:in the |this )?(?:morning|afternoon|evening)|(?:at |to)night))?"
)
_DATES: Final = (
    re.compile(r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})"),
    re.compile(r"(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<month>[a-z]{3,9})\.?,? (?P<year>\d{4})"),
    re.compile(r"(?P<year>\d{4})/(?P<month>\d\d)/(?P<day>\d\d)"),
)
_FIXED: Final = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}
_EXAMPLE: Final = re.compile(
    r"(?i)(?:\be\.?g\b\.?|\bfor example|\bsuch as|\blike|\bexamples?:|\beg:)[\s:,]*[\"'`]?([^\s,;)\"'`]{2,40})"
)
_AMOUNT: Final = re.compile(
    r"(?i)\b(?:e\.?g\b\.?|for example|such as|like|examples?:)[\s:,]*[\"'`]?\d+(?:\.\d+)? ?([a-z]{1,12})\b(?! ?\w)"
)
"""An example that is an amount: *e.g. 10 mg*."""
_UNITS: Final = "|".join(sorted((w for w in UNITS if len(w) > 1 and w != "in"), key=len, reverse=True))
_RUN: Final = re.compile(r"[A-Z]+|[a-z]+|\d+|[^A-Za-z\d]")
_CODE: Final = re.compile(r"[A-Z]{2,4}|(?=.*[A-Za-z])(?=.*[\d_:*#-]).*[\w*]")
"""Examples whose form tells them from other words."""
_MARKS: Final = "#@$"
"""What a form may begin with that people leave out: order *W12* for ``#W12``."""
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"


def written(p: Parameter, said: str) -> str:
    """A value in the form that the parameter's description asks for; as it was said, if that does not tell."""
    low, about = said.lower().strip(" ."), f"{' '.join(parts_of(p.name))}: {p.description.lower()}"
    if "language" in p.kinds and _LANGUAGE.search(about):
        return TONGUE_CODES.get(low, said)
    if "time" in p.kinds and clocked(p) and (time := clock(said)) is not None:
        return f"{time[0]:02}:{time[1]:02}"
    if "date" in p.kinds and _DAY.search(about):
        return _iso(low) or said
    form = exampled(p.description)
    if form is not None and (marks := [m for m in _MARKS if form.fullmatch(m + said)]):
        return marks[0] + said
    for kind, asked, codes in CODES:
        if (not kind or kind in p.kinds[:2]) and asked.search(about):
            return codes.get(low, said)
    return said


def town(zone: Any) -> Any:
    """The town that names a time zone: ``America/New_York``."""
    return zone.rpartition("/")[2].replace("_", " ") if isinstance(zone, str) else zone


def clocked(p: Parameter) -> bool:
    """Whether a parameter's description asks for times as ``HH:MM``."""
    return _CLOCK.search(p.description.lower()) is not None


def clock(said: str) -> tuple[int, int] | None:
    """The hour and the minute of a time of day: *7:30 pm*, *half past six*, *8 in the evening*."""
    low = said.lower().removeprefix("at ")
    if low in _FIXED:
        return _FIXED[low]
    found = _TIME.fullmatch(low)
    if found is None:
        return None
    hour, minute = _count(found["hour"]), int(found["minute"] or 0)
    if found["count"]:
        minute = _count(found["count"])
        if found["side"] in ("to", "before"):
            hour, minute = hour - 1, 60 - minute
    part = found["part"] or ""
    night = part.endswith("night")
    late = found["half"] == "p" or part.endswith(("afternoon", "evening")) or (night and hour > 4)
    if found["half"] or part:
        hour = hour % 12 + 12 * (late and not (night and hour == 12)) if hour <= 12 else hour
    return (hour % 24, minute) if hour <= 24 and minute < 60 else None


def _count(word: str) -> int:
    if word.endswith("quarter"):
        return 15
    return 30 if word == "half" else int(word) if word.isdigit() else int(NUMBERS[word])


def _iso(low: str) -> str | None:
    """A day with its year, as ``YYYY-MM-DD``."""
    for form in _DATES:
        found = form.fullmatch(low)
        if found and (found["month"].isdigit() or found["month"] in MONTHS):
            month = int(found["month"]) if found["month"].isdigit() else _MONTHS.index(found["month"][:3]) // 3 + 1
            return f"{found['year']}-{month:02}-{int(found['day']):02}"
    return None


@lru_cache(maxsize=512)
def exampled(description: str) -> re.Pattern[str] | None:
    """The form of a description's example; ``None`` if it has no example or one that looks like any word."""
    if (amount := _AMOUNT.search(description)) is not None:
        return re.compile(rf"(?i)(?<![\w.-])(\d++(?:\.\d+)? ?(?:{amount[1]}|{_UNITS}))(?!\w)")
    found = _EXAMPLE.search(description)
    example = found[1].rstrip(".:!?") if found else ""
    if not _CODE.fullmatch(example):
        return None
    runs = [_run(run, example) for run in _RUN.findall(example)]
    return re.compile(rf"(?<![\w-])({''.join(runs)})(?![\w-])")


def _run(run: str, example: str) -> str:
    """The pattern for letters of one case, digits, or a mark of an example."""
    if run.isdigit():
        return r"\d++"
    if run.isalpha():
        letters = "A-Z" if run.isupper() else "a-z"
        fixed = run == example or len(run) == 1  # *SH-22* is no *A-10023*
        return f"[{letters}]{{{len(run)}}}" if fixed else f"[{letters}]++"
    return re.escape(run) if run != "*" else r"[\w*]++"
