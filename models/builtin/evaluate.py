"""Evaluates the model: ``python -m models.builtin.evaluate``.

Known cases are made as the training examples are, with another seed; unseen ones of what these cannot hold.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unspool import constrain, parse
from unspool.engines.builtin.model import FOLDER, Model
from unspool.grammar.matchers import Llguidance

from . import examples as ex
from . import heldout
from .requests import ask, finished
from .tools import INTENTS

Calls = list[tuple[str, Any]]

DIALECT = "deepseekv31"
LIMIT = 300
"""How many tokens an output may have."""


@dataclass(frozen=True)
class Case:
    """A request, and what has to come out.

    Attributes:
        kind: of what it is a case, for the table.
        calls: the calls; for a forced choice, the first call's name or ``""`` for any.
        says: what the content has to hold.
        choice: the request's ``tool_choice``; another than ``auto`` is evaluated under the constraint.
    """

    kind: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    calls: Calls
    says: Sequence[str] = ()
    choice: Any = "auto"
    thinking: bool = True


def user(text: str) -> list[dict[str, Any]]:
    """The messages of a first request."""
    return [{"role": "user", "content": text}]


def name_of(tool: Mapping[str, Any]) -> str:
    """A declared tool's name."""
    return str(tool["function"]["name"])


def only(tool: Mapping[str, Any]) -> str:
    """The name of a tool's required parameter."""
    return str(tool["function"]["parameters"]["required"][0])


def unseen(seed: int = 0) -> list[Case]:
    """Cases of names, tools and paraphrases that are in no training example."""
    rng = random.Random(seed)
    cases = []
    for intent, count in (("weather", 45), ("time", 45), ("search", 30), ("calculation", 30)):
        for i in range(count):
            text, value = _asked(rng, intent, i)
            tool, tools = _declared(rng, intent)
            cases.append(Case("single", user(text), tools, [(name_of(tool), {only(tool): value})], thinking=i % 3 > 0))
    for i, (tool, text, arguments) in enumerate(heldout.OTHERS):
        tools = [
            tool,
            *(t for t, *_ in rng.sample(heldout.OTHERS, 2) if t is not tool),
            rng.choice(heldout.TOOLS["time"]),
        ]
        rng.shuffle(tools)
        cases.append(Case("other tool", user(text), tools, [(name_of(tool), arguments)], thinking=i % 3 > 0))
    cases += [*_parallel(rng), *_missing(rng), *_answers(rng), *_forced(rng)]
    return cases


def _asked(rng: random.Random, intent: str, i: int) -> tuple[str, str]:
    """A request and the value in it."""
    if intent == "search":
        topic = heldout.TOPICS[i % len(heldout.TOPICS)]
        return rng.choice(heldout.SEARCH).format(topic), topic
    if intent == "calculation":
        written, value = heldout.EXPRESSIONS[i % len(heldout.EXPRESSIONS)]
        return rng.choice(heldout.CALCULATION).format(written), value
    place = rng.choice(heldout.PLACES)
    return rng.choice(heldout.WEATHER if intent == "weather" else heldout.TIME).format(place), place


def _declared(
    rng: random.Random, intent: str, without: Sequence[str] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A tool of an intent, and the tools to declare: it and up to four others."""
    tool = rng.choice(heldout.TOOLS[intent])
    kinds = [k for k in (*INTENTS, "other", "other") if k != intent and k not in without]
    picked = rng.sample(kinds, min(len(kinds), rng.choice((0, 1, 1, 2, 3, 4))))
    tools = [tool, *(rng.choice(heldout.OTHERS)[0] if k == "other" else rng.choice(heldout.TOOLS[k]) for k in picked)]
    tools = list({name_of(t): t for t in tools}.values())
    rng.shuffle(tools)
    return tool, tools


def _parallel(rng: random.Random) -> Iterator[Case]:
    joints = (
        "Weather in {} and {}?",
        "Tell me how warm it is in {} and in {}",
        "Does it rain in {} or in {}?",
        "Compare the weather of {} with that of {}",
    )
    for i in range(20):
        some = rng.sample(heldout.PLACES, 2)
        tool, tools = _declared(rng, "weather")
        made: Calls = [(name_of(tool), {only(tool): p}) for p in some]
        yield Case("parallel, same tool", user(joints[i % 4].format(*some)), tools, made, thinking=i % 3 > 0)
    for i in range(8):
        three = rng.sample(heldout.PLACES, 3)
        tool, tools = _declared(rng, "time")
        made = [(name_of(tool), {only(tool): p}) for p in three]
        text = ("What is the time in {}, {} and {}?", "Time in {}, in {} and in {}, please")[i % 2].format(*three)
        yield Case("parallel, same tool", user(text), tools, made, thinking=i % 3 > 0)
    for i in range(24):
        one, two = rng.sample(INTENTS, 2)
        (text, value), (more, other) = _asked(rng, one, i), _asked(rng, two, i)
        tools = [rng.choice(heldout.TOOLS[one]), rng.choice(heldout.TOOLS[two])]
        made = [(name_of(t), {only(t): v}) for t, v in zip(tools, (value, other), strict=True)]
        rng.shuffle(tools)
        yield Case("parallel, two tools", user(f"{text.rstrip('.?!')}. {more}"), tools, made, thinking=i % 3 > 0)


def _missing(rng: random.Random) -> Iterator[Case]:
    for i in range(40):
        intent = INTENTS[i % 4]
        text, _ = _asked(rng, intent, i)
        other = rng.choice([k for k in INTENTS if k != intent])
        _, tools = _declared(rng, other, without=[intent])
        yield Case("no tool fits", user(text), tools, [], thinking=i % 3 > 0)
    for i, text in enumerate(heldout.CHAT):
        _, tools = _declared(rng, INTENTS[i % 4])
        yield Case("chat beside tools", user(text), tools, [], thinking=i % 3 > 0)
    for i in range(20):
        text = heldout.CHAT[i] if i % 2 else _asked(rng, INTENTS[i // 2 % 4], i)[0]
        yield Case("no tools at all", user(text), [], [], thinking=i % 3 > 0)


def _answers(rng: random.Random) -> Iterator[Case]:
    for i in range(30):
        content, says = heldout.RESULTS[i % len(heldout.RESULTS)]
        text, value = _asked(rng, INTENTS[i % 4], i)
        tool, tools = _declared(rng, INTENTS[i % 4])
        call = {
            "id": "c1",
            "type": "function",
            "function": {"name": name_of(tool), "arguments": json.dumps({only(tool): value}, ensure_ascii=False)},
        }
        messages = [
            *user(text),
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": content},
        ]
        yield Case("answer from a result", messages, tools, [], says)


def _forced(rng: random.Random) -> Iterator[Case]:
    for i in range(40):
        intent = INTENTS[i % 4]
        text, value = _asked(rng, intent, i)
        tool, tools = _declared(rng, intent)
        named = {"type": "function", "function": {"name": name_of(tool)}}
        made: Calls = [(name_of(tool), {only(tool): value})]
        yield Case("forced, fits", user(text), tools, made, choice=named if i % 2 else "required", thinking=i % 3 > 0)
    for i in range(20):
        tool, tools = _declared(rng, INTENTS[i % 4])
        choice: Any = {"type": "function", "function": {"name": name_of(tool)}} if i % 2 else "required"
        yield Case(
            "forced, does not fit",
            user(heldout.CHAT[i]),
            tools,
            [(name_of(tool) if i % 2 else "", None)],
            choice=choice,
            thinking=i % 3 > 0,
        )


def known(count: int, seed: int = 987_654_321) -> list[Case]:
    """Single and parallel calls out of the generator of the training examples, with a seed of their own."""
    rng = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        tools = ex.declared(rng)
        if not tools:
            continue
        asks, text = ex.requested(rng, tools)
        made = [(t.name, a) for t, q in asks if t is not None and (a := ex.arguments(t, q.slots)) is not None]
        if made and len(cases) % 5 < 4:
            cases.append(
                Case(
                    "calls",
                    user(finished(rng, text)),
                    [t.declaration() for t in tools],
                    made,
                    thinking=rng.random() < 0.7,
                )
            )
        elif absent := [i for i in INTENTS if all(t.intent != i for t in tools)]:
            text = finished(rng, ask(rng, rng.choice(absent)).text)
            cases.append(
                Case("no tool fits", user(text), [t.declaration() for t in tools], [], thinking=rng.random() < 0.7)
            )
    return cases


class Runner:
    """Runs cases with greedy choice of tokens."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.model = Model(folder)
        self._template = ex.template()
        self._matchers: Llguidance | None = None

    def prompt(self, case: Case) -> str:
        """The rendered prompt."""
        return self._template.render(
            messages=case.messages,
            tools=case.tools or None,
            bos_token=ex.BOS,
            add_generation_prompt=True,
            thinking=case.thinking,
        )

    def generate(self, case: Case) -> tuple[str, int]:
        """The output's text, and how many tokens it has."""
        prompt = self.prompt(case)
        constraint = constrain(DIALECT, case.tools, case.choice, prompt=prompt, tokenizer=self.model.tokenizer)
        matcher = None
        if constraint is not None:
            if self._matchers is None:
                self._matchers = Llguidance(
                    self.model.tokenizer, eos=list(self.model.eos), vocab_size=self.model.vocab_size
                )
            matcher = self._matchers.matcher(constraint)
        ids: list[int] = []
        state, logits = self.model.prefill(self.model.tokenizer.encode(prompt).ids)
        while len(ids) < LIMIT:
            allowed = logits if matcher is None else np.where(matcher.mask(), logits, -np.inf)
            token = int(allowed.argmax())
            if token in self.model.eos:
                break
            ids.append(token)
            if matcher is not None and not matcher.accept(token):
                raise RuntimeError(f"the constraint refuses token {token}, which its mask allows")
            logits = self.model.step([state], [token])[0]
        return self.model.tokenizer.decode(ids, skip_special_tokens=False), len(ids)

    def right(self, case: Case, text: str, length: int) -> bool:
        """Whether an output is what the case wants."""
        message = parse(text, DIALECT, tools=list(case.tools), prompt=self.prompt(case))
        if length >= LIMIT or any(c.status != "ok" for c in message.tool_calls):
            return False
        found = [(c.name, json.loads(c.arguments)) for c in message.tool_calls]
        if case.kind == "forced, does not fit":
            wanted = case.calls[0][0]
            return bool(found) and wanted in ("", found[0][0])
        told = all(word in message.content for word in case.says) if case.says else True
        return _set(found) == _set(case.calls) and told and bool(found or message.content)


def _set(calls: Calls) -> Counter[str]:
    return Counter(json.dumps(c, sort_keys=True) for c in calls)


def score(runner: Runner, cases: Sequence[Case], *, failures: int = 0) -> dict[str, tuple[int, int]]:
    """For each kind of case, how many are right, and how many there are. Prints some failures."""
    table: dict[str, tuple[int, int]] = {}
    for case in cases:
        text, length = runner.generate(case)
        good = runner.right(case, text, length)
        right, count = table.get(case.kind, (0, 0))
        table[case.kind] = (right + good, count + 1)
        if not good and failures > 0:
            failures -= 1
            tools = " ".join(name_of(t) for t in case.tools)
            print(f"[{case.kind}] {case.messages[0]['content']!r} [{tools}]")
            print(f"    wanted {case.calls} {case.says}\n    got    {text[:400]!r}")
    return table


def main() -> None:
    """Prints the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--known", type=int, default=100, help="cases out of the generator of the training examples")
    parser.add_argument("--every", type=int, default=1, help="takes every n-th unseen case alone")
    parser.add_argument("--failures", type=int, default=0, help="prints so many failures")
    args = parser.parse_args()
    runner = Runner(args.folder)
    for title, cases in (("known", known(args.known)), ("unseen", unseen()[:: args.every])):
        print(title)
        tables = [score(runner, [c for c in cases if c.thinking is t], failures=args.failures) for t in (True, False)]
        for kind in dict.fromkeys(c.kind for c in cases):
            print(_line(kind, [t[kind] for t in tables if kind in t]))
        for mode, table in zip(("thinking", "not thinking"), tables, strict=True):
            print(_line(f"all, {mode}", list(table.values())))
        print(_line("all", [pair for table in tables for pair in table.values()]), flush=True)


def _line(title: str, counts: Sequence[tuple[int, int]]) -> str:
    right, count = sum(r for r, _ in counts), sum(c for _, c in counts)
    return f"  {title:24} {right:4} of {count:4}  {100 * right / max(count, 1):5.1f} %"


if __name__ == "__main__":
    main()
