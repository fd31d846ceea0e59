"""What the tools of the training examples return, and what the model says about it."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .lists import listed
from .words import made_up, number, phrase, pick, place, word


def told(results: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """An answer made from the arguments and results of calls."""
    parts = []
    for made, said in results:
        first = next((v for v in made.values() if isinstance(v, str)), None)
        parts.append(f"for {first}: {said}" if first is not None else f": {said}")
    text = "Here is the answer " + parts[0]
    for part in parts[1:]:
        text += " F" + part[1:] if part.startswith("for") else " And" + part
    return text.replace("answer :", "answer:") if results else text


def said_of(value: Any) -> str:
    """A result in plain words: its names and values, with a separator between the objects of a list."""
    if isinstance(value, dict):
        return ", ".join(said_of(v) if isinstance(v, (dict, list)) else f"{k} {said_of(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "; ".join(said_of(v) for v in value)
    return value if isinstance(value, str) else json.dumps(value)


_SKY: Final = listed("sunny;cloudy;rain;light rain;snow;partly cloudy;clear;fog;storm;windy")


def result(rng: random.Random, intent: str) -> tuple[str, str]:
    """What a tool returned, and what to say about it."""
    value = _returned(rng, intent if rng.random() < 0.7 else "other")
    if isinstance(value, str) and rng.random() < 0.7:
        return value, value + "." * (value[-1] not in ".!?")
    said = said_of(value)
    return json.dumps(value, ensure_ascii=False), said + "." * (said[-1:] not in ".!?")


def _returned(rng: random.Random, intent: str) -> Any:
    roll = rng.random()
    if roll < 0.06:
        return {"error": pick(rng, "not found", "unknown " + word(rng), "timeout", "no " + word(rng), "bad request")}
    degrees = rng.randint(-30, 45)
    if intent == "weather":
        if roll < 0.25:
            return pick(
                rng,
                f"{degrees} degrees and {rng.choice(_SKY)}",
                f"It is {degrees} °C.",
                f"{rng.choice(_SKY)}, {degrees}°C",
                f"{rng.choice(_SKY).capitalize()}.",
            )
        pairs = {
            "temperature": degrees,
            pick(rng, "temp", "temp_c", "degrees"): degrees,
            pick(rng, "condition", "conditions", "sky", "weather", "description"): rng.choice(_SKY),
            "wind": rng.randint(0, 99),
            "humidity": rng.randint(5, 100),
            "city": place(rng),
            "unit": pick(rng, "celsius", "C"),
        }
        return {k: pairs[k] for k in rng.sample(list(pairs), rng.choice((1, 2, 2, 3, 4)))}
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}"
    if intent == "time":
        if roll < 0.4:
            return pick(
                rng,
                clock,
                f"It is {clock}.",
                f"{rng.randint(1, 12)}:{rng.randint(10, 59)} {pick(rng, 'am', 'pm', 'AM', 'PM')}",
                f"2025-0{rng.randint(1, 9)}-{rng.randint(10, 28)}T{clock}",
            )
        pairs = {
            pick(rng, "time", "local_time", "now"): clock,
            "timezone": f"{place(rng, 0)}",
            pick(rng, "offset", "utc"): f"{pick(rng, '+', '-')}0{rng.randint(0, 9)}:{pick(rng, '00', '30')}",
            "day": pick(rng, "Monday", "Friday", "Sunday"),
        }
        return {k: pairs[k] for k in rng.sample(list(pairs), rng.choice((1, 1, 2, 3)))}
    if intent == "calculation":
        value = number(rng)
        if roll < 0.5:
            return value
        return {pick(rng, "result", "result", "value", "answer"): float(value) if "." in value else int(value)}
    if intent == "search":
        if roll < 0.3:
            return " ".join(word(rng) for _ in range(rng.randint(3, 10)))
        items: list[Any] = [phrase(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        if rng.random() < 0.5:
            items = [
                {
                    "title": i,
                    **(
                        {"url": f"https://{made_up(rng, 2)}.{pick(rng, 'com', 'org', 'net', 'info', made_up(rng, 1))}"}
                        if rng.random() < 0.4
                        else {}
                    ),
                }
                for i in items
            ]
        return {"results": items} if rng.random() < 0.6 else items
    if roll < 0.3:
        return pick(rng, "ok", "done", "Done.", "success", phrase(rng), word(rng), number(rng))
    keys = {
        styled: rng.choice(("word", "number", "phrase", "flag"))
        for styled in (
            word(rng)
            if rng.random() < 0.6
            else pick(rng, "status", "id", "name", "price", "message", "value", "total", "level", "success")
            for _ in range(rng.choice((1, 1, 2, 3)))
        )
    }
    some: dict[str, Callable[[], Any]] = {
        "word": lambda: word(rng),
        "number": lambda: rng.randint(0, 9999),
        "phrase": lambda: phrase(rng),
        "flag": lambda: rng.random() < 0.5,
    }
    return {k: some[v]() for k, v in keys.items()}
