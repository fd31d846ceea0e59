"""Evaluates a served model: ``python -m models.small.evaluate URL bfcl|requests``.

``bfcl`` asks the questions of the Berkeley Function Calling Leaderboard, version 4, one turn each, with no example
before them, and judges the answers by the checker of the package ``bfcl-eval``, which has the data. ``requests`` asks
the requests of this folder. Sampling is greedy. A call is invalid if its arguments are not a JSON object.
"""

import argparse
import json
import random
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from typing import Any, Final, NamedTuple

from .requests import requests, right

CATEGORIES: Final = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_relevance",
    "irrelevance",
)
"""The single-turn categories of BFCL that FunctionGemma's model card lists."""
_CHECKED_AS: Final = "gpt-4o-2024-11-20-FC"
"""A model of ``bfcl-eval`` whose names of functions have underscores where BFCL writes dots, as ours are sent."""


class Case(NamedTuple):
    """A request, and what judges its answer."""

    kind: str
    body: dict[str, Any]
    judge: Callable[[list[tuple[str, Any]], str], bool]


class Outcome(NamedTuple):
    """The judgement of an answer, and whether a call was invalid."""

    right: bool
    invalid: bool


def bfcl() -> Iterator[Case]:
    """The cases of BFCL."""
    from bfcl_eval.constants.enums import Language, ModelStyle
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
    from bfcl_eval.model_handler.utils import convert_to_tool

    data = files("bfcl_eval") / "data"
    for category in CATEGORIES:
        name = f"BFCL_v4_{category}.json"
        cases = map(json.loads, (data / name).read_text(encoding="utf-8").splitlines())
        truths = {}
        if (data / "possible_answer" / name).is_file():
            lines = (data / "possible_answer" / name).read_text(encoding="utf-8").splitlines()
            truths = {truth["id"]: truth["ground_truth"] for truth in map(json.loads, lines)}

        for case in cases:
            tools = convert_to_tool(case["function"], GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS)
            body = {"messages": case["question"][0], "tools": tools}
            truth = truths.get(case["id"])
            yield Case(category, body, partial(_judged, ast_checker, Language.PYTHON, category, case, truth))


def _judged(
    checker: Any, language: Any, category: str, case: Any, truth: Any, calls: list[tuple[str, Any]], _text: str
) -> bool:
    """Whether calls are right by BFCL's checker; without a truth, only whether there are any counts."""
    if truth is None:
        return bool(calls) == category.endswith("_relevance")
    if not calls:
        return False
    made = [{name: arguments} for name, arguments in calls]
    return bool(checker(case["function"], made, truth, language, category, _CHECKED_AS)["valid"])


def natural() -> Iterator[Case]:
    """The requests of this folder."""
    for r in requests():
        body: dict[str, Any] = {"messages": r.messages}
        if r.tools:
            body |= {"tools": r.tools, "tool_choice": r.choice}
        if r.format is not None:
            body["response_format"] = r.format
        yield Case(r.kind, body, partial(right, r))


def ask(url: str, case: Case) -> Outcome:
    """Send a request to ``URL/chat/completions``."""
    body = {"model": "default", "temperature": 0, "max_tokens": 512, **case.body}
    request = urllib.request.Request(
        f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        message = json.load(answer)["choices"][0]["message"]
    calls = []
    for call in message.get("tool_calls") or ():
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return Outcome(right=False, invalid=True)
        calls.append((call["function"]["name"], arguments))
    return Outcome(case.judge(calls, message.get("content") or ""), invalid=False)


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("url", help="the server's address, with /v1")
    options.add_argument("what", choices=["bfcl", "requests"])
    options.add_argument("--each", type=int, help="how many cases of each kind, drawn with a fixed seed (default: all)")
    options.add_argument("--kind", help="only this kind")
    options.add_argument("--together", type=int, default=2, help="requests at once")
    given = options.parse_args()
    kinds: dict[str, list[Case]] = {}
    for case in bfcl() if given.what == "bfcl" else natural():
        kinds.setdefault(case.kind, []).append(case)
    if given.kind not in (None, *kinds):
        options.error(f"--kind: not one of {', '.join(sorted(kinds))}")
    shares, invalid = [], 0
    with ThreadPoolExecutor(given.together) as pool:
        for kind, cases in kinds.items():
            if given.kind not in (None, kind):
                continue
            if given.each is not None and given.each < len(cases):
                cases = random.Random(2026).sample(cases, given.each)
            outcomes = list(pool.map(lambda case: ask(given.url, case), cases))
            shares.append(100 * sum(o.right for o in outcomes) / len(outcomes))
            wrong = sum(o.invalid for o in outcomes)
            invalid += wrong
            print(f"| {kind} | {len(outcomes)} | {shares[-1]:.1f} | {wrong} invalid |", flush=True)
    print(f"| mean of the kinds | | {sum(shares) / len(shares):.1f} | {invalid} invalid |")


if __name__ == "__main__":
    main()
