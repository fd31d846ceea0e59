"""Evaluates the model: ``python -m models.builtin.evaluate``.

Known cases are made like the training examples, but with another seed. Unseen cases are made from lists that are in no
training example, and a tester's cases from lists by somebody who had seen neither. Natural cases are first requests as
people write them. All cases run as in the server, where calls follow the tools' schemas.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np

from unspool import constrain, parse
from unspool.engines.builtin.model import FOLDER, Model
from unspool.engines.builtin.serving import served
from unspool.grammar import ToolStrictLevel
from unspool.grammar.matchers import Llguidance, Matcher

from . import examples as ex
from . import heldout, natural, tester
from .requests import ask, finished
from .tools import INTENTS

Calls = list[tuple[str, Any]]

DIALECT = "deepseekv31"
LIMIT = 300
"""How many tokens an output may have."""
_TOGETHER = 32


@dataclass(frozen=True)
class Case:
    """A request and the expected result.

    Attributes:
        kind: the kind of the case, for the table.
        calls: the expected calls; for a forced choice, the first call's name, or ``""`` for any.
        says: what the content must contain.
        choice: the request's ``tool_choice``.
        format: the request's ``response_format``.
        maybe: for natural cases, arguments that may be left out; ``None``: the calls are compared as they are.
    """

    kind: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    calls: Calls
    says: Sequence[str] = ()
    choice: Any = "auto"
    thinking: bool = True
    format: Mapping[str, Any] | None = None
    maybe: Mapping[str, Any] | None = None


def user(text: str) -> list[dict[str, Any]]:
    """The messages of a first request."""
    return [{"role": "user", "content": text}]


def name_of(tool: Mapping[str, Any]) -> str:
    """A declared tool's name."""
    return str(tool["function"]["name"])


def only(tool: Mapping[str, Any]) -> str:
    """The name of a tool's required parameter."""
    return str(tool["function"]["parameters"]["required"][0])


def cases_of(source: ModuleType = heldout, seed: int = 0) -> list[Case]:
    """Cases made from the lists of `heldout`, which are in no training example, or from those of `tester`."""
    rng = random.Random(seed)
    cases = []
    for intent, count in (("weather", 45), ("time", 45), ("search", 30), ("calculation", 30)):
        for i in range(count):
            text, value = _asked(source, rng, intent, i)
            tool, tools = _declared(source, rng, intent)
            cases.append(Case("single", user(text), tools, [(name_of(tool), {only(tool): value})], thinking=i % 3 > 0))
    for i, (tool, text, arguments) in enumerate(source.OTHERS):
        tools = [
            tool,
            *(t for t, *_ in rng.sample(source.OTHERS, 2) if t is not tool),
            rng.choice(source.TOOLS["time"]),
        ]
        rng.shuffle(tools)
        cases.append(Case("other tool", user(text), tools, [(name_of(tool), arguments)], thinking=i % 3 > 0))
    cases += [*_parallel(source, rng), *_missing(source, rng), *_answers(source, rng), *_forced(source, rng)]
    return cases


def _asked(source: ModuleType, rng: random.Random, intent: str, i: int) -> tuple[str, str]:
    """A request and the value in it."""
    if intent == "search":
        topic = source.TOPICS[i % len(source.TOPICS)]
        return rng.choice(source.SEARCH).format(topic), topic
    if intent == "calculation":
        written, value = source.EXPRESSIONS[i % len(source.EXPRESSIONS)]
        return rng.choice(source.CALCULATION).format(written), value
    place = rng.choice(source.PLACES)
    return rng.choice(source.WEATHER if intent == "weather" else source.TIME).format(place), place


def _declared(
    source: ModuleType, rng: random.Random, intent: str, without: Sequence[str] = ()
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A tool of an intent, and the tools to declare: it and up to four others."""
    tool = rng.choice(source.TOOLS[intent])
    kinds = [k for k in (*INTENTS, "other", "other") if k != intent and k not in without]
    picked = rng.sample(kinds, min(len(kinds), rng.choice((0, 1, 1, 2, 3, 4))))
    tools = [tool, *(rng.choice(source.OTHERS)[0] if k == "other" else rng.choice(source.TOOLS[k]) for k in picked)]
    tools = list({name_of(t): t for t in tools}.values())
    rng.shuffle(tools)
    return tool, tools


def _parallel(source: ModuleType, rng: random.Random) -> Iterator[Case]:
    for i in range(20):
        some = rng.sample(source.PLACES, 2)
        tool, tools = _declared(source, rng, "weather")
        made: Calls = [(name_of(tool), {only(tool): p}) for p in some]
        yield Case(
            "parallel, same tool",
            user(source.PAIRS[i % len(source.PAIRS)].format(*some)),
            tools,
            made,
            thinking=i % 3 > 0,
        )
    for i in range(8):
        three = rng.sample(source.PLACES, 3)
        tool, tools = _declared(source, rng, "time")
        made = [(name_of(tool), {only(tool): p}) for p in three]
        text = source.TRIPLES[i % len(source.TRIPLES)].format(*three)
        yield Case("parallel, same tool", user(text), tools, made, thinking=i % 3 > 0)
    for i in range(24):
        one, two = rng.sample(INTENTS, 2)
        (text, value), (more, other) = _asked(source, rng, one, i), _asked(source, rng, two, i)
        tools = [rng.choice(source.TOOLS[one]), rng.choice(source.TOOLS[two])]
        made = [(name_of(t), {only(t): v}) for t, v in zip(tools, (value, other), strict=True)]
        rng.shuffle(tools)
        yield Case("parallel, two tools", user(f"{text.rstrip('.?!')}. {more}"), tools, made, thinking=i % 3 > 0)


def _missing(source: ModuleType, rng: random.Random) -> Iterator[Case]:
    for i in range(40):
        intent = INTENTS[i % 4]
        text, _ = _asked(source, rng, intent, i)
        other = rng.choice([k for k in INTENTS if k != intent])
        _, tools = _declared(source, rng, other, without=[intent])
        yield Case("no tool fits", user(text), tools, [], thinking=i % 3 > 0)
    for i, text in enumerate(source.CHAT):
        _, tools = _declared(source, rng, INTENTS[i % 4])
        yield Case("chat beside tools", user(text), tools, [], thinking=i % 3 > 0)
    for i in range(20):
        text = source.CHAT[i] if i % 2 else _asked(source, rng, INTENTS[i // 2 % 4], i)[0]
        yield Case("no tools at all", user(text), [], [], thinking=i % 3 > 0)


def _answers(source: ModuleType, rng: random.Random) -> Iterator[Case]:
    for i in range(30):
        content, says = source.RESULTS[i % len(source.RESULTS)]
        text, value = _asked(source, rng, INTENTS[i % 4], i)
        tool, tools = _declared(source, rng, INTENTS[i % 4])
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


def _forced(source: ModuleType, rng: random.Random) -> Iterator[Case]:
    for i in range(40):
        intent = INTENTS[i % 4]
        text, value = _asked(source, rng, intent, i)
        tool, tools = _declared(source, rng, intent)
        named = {"type": "function", "function": {"name": name_of(tool)}}
        made: Calls = [(name_of(tool), {only(tool): value})]
        yield Case("forced, fits", user(text), tools, made, choice=named if i % 2 else "required", thinking=i % 3 > 0)
    for i in range(20):
        tool, tools = _declared(source, rng, INTENTS[i % 4])
        choice: Any = {"type": "function", "function": {"name": name_of(tool)}} if i % 2 else "required"
        yield Case(
            "forced, does not fit",
            user(source.CHAT[i]),
            tools,
            [(name_of(tool) if i % 2 else "", None)],
            choice=choice,
            thinking=i % 3 > 0,
        )


def known(count: int, seed: int = 987_654_321) -> list[Case]:
    """Single and parallel calls from the generator of the training examples, with a seed of their own."""
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


def natural_cases(name: str) -> list[Case]:
    """The cases of ``blind.json``, ``dev.json`` or ``natural.json``."""
    return [
        Case(
            c.kind, c.messages, c.tools, list(c.calls), c.says, choice=c.choice, format=c.format, maybe=c.maybe,
            thinking=i % 4 > 0,
        )
        for i, c in enumerate(natural.cases(name))
    ]  # fmt: skip


class Runner:
    """Runs cases with greedy sampling."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.model = Model(folder)
        self.bounded = served(self.model)
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

    def generate(self, cases: Sequence[Case]) -> list[tuple[str, int]]:
        """The text and the number of tokens of each output. Many outputs are computed at once."""
        made: list[tuple[str, int]] = []
        for at in range(0, len(cases), _TOGETHER):
            made += self._generated(cases[at : at + _TOGETHER])
        return made

    def _generated(self, cases: Sequence[Case]) -> list[tuple[str, int]]:
        matchers = [self._matcher(case) for case in cases]
        begun = [self.bounded.prefill(self.model.tokenizer.encode(self.prompt(case)).ids) for case in cases]
        outputs: list[list[int]] = [[] for _ in cases]
        rows = {i: logits for i, (_, logits) in enumerate(begun)}
        while rows:
            for i, logits in list(rows.items()):
                matcher = matchers[i]
                allowed = logits if matcher is None else np.where(matcher.mask(), logits, -np.inf)
                token = int(allowed.argmax())
                if token in self.model.eos:
                    del rows[i]
                    continue
                outputs[i].append(token)
                if matcher is not None and not matcher.accept(token):
                    raise RuntimeError(f"the constraint refuses token {token}, which its mask allows")
                if len(outputs[i]) == LIMIT or (matcher is not None and matcher.is_done()):
                    del rows[i]
            alive = list(rows)
            if alive:
                logits = self.bounded.step([begun[i][0] for i in alive], [outputs[i][-1] for i in alive])
                rows = dict(zip(alive, logits, strict=True))
        return [(self.model.tokenizer.decode(ids, skip_special_tokens=False), len(ids)) for ids in outputs]

    def _matcher(self, case: Case) -> Matcher | None:
        """The matcher that enforces the schemas, as in the server."""
        constraint = constrain(
            DIALECT,
            case.tools,
            case.choice,
            prompt=self.prompt(case),
            response_format=case.format,
            strict_level=ToolStrictLevel.PARAMETER,
            tokenizer=self.model.tokenizer,
        )
        if constraint is None:
            return None
        if self._matchers is None:
            self._matchers = Llguidance(
                self.model.tokenizer, eos=list(self.model.eos), vocab_size=self.model.vocab_size
            )
        return self._matchers.matcher(constraint)

    def right(self, case: Case, text: str, length: int) -> bool:
        """Whether an output is right for a case."""
        message = parse(text, DIALECT, tools=list(case.tools), prompt=self.prompt(case))
        if length >= LIMIT or any(c.status != "ok" for c in message.tool_calls):
            return False
        found = [(c.name, json.loads(c.arguments)) for c in message.tool_calls]
        if case.maybe is not None:
            return natural.right(case, found, message.content) and not self.invalid(case, text)
        if case.kind == "forced, does not fit":
            wanted = case.calls[0][0]
            return bool(found) and wanted in ("", found[0][0])
        told = all(word in message.content for word in case.says) if case.says else True
        return _set(found) == _set(case.calls) and told and bool(found or message.content)

    def invalid(self, case: Case, text: str) -> list[str]:
        """What the schemas do not allow in the calls and in the answer of an output."""
        message = parse(text, DIALECT, tools=list(case.tools), prompt=self.prompt(case))
        schemas = {name_of(t): t["function"].get("parameters", {}) for t in case.tools}
        wrong = [f"{c.name}: {c.status}" for c in message.tool_calls if c.status != "ok" or c.name not in schemas]
        for call in message.tool_calls if not wrong else ():
            for error in jsonschema.Draft202012Validator(schemas[call.name]).iter_errors(json.loads(call.arguments)):
                wrong.append(f"{call.name}: {error.message}")
        if case.format is not None:
            try:
                jsonschema.validate(json.loads(message.content), case.format.get("json_schema", {}).get("schema", {}))
            except (ValueError, jsonschema.ValidationError) as error:
                wrong.append(f"content: {error}")
        return wrong


def _set(calls: Calls) -> Counter[str]:
    return Counter(json.dumps(c, sort_keys=True) for c in calls)


def score(runner: Runner, cases: Sequence[Case], *, failures: int = 0) -> dict[str, tuple[int, int]]:
    """For each kind of case, the number of right cases and of all cases. Prints some failures."""
    table: dict[str, tuple[int, int]] = {}
    for case, (text, length) in zip(cases, runner.generate(cases), strict=True):
        good = runner.right(case, text, length)
        if case.maybe is not None and (wrong := runner.invalid(case, text)):
            print(f"  invalid: {wrong}")
        right, count = table.get(case.kind, (0, 0))
        table[case.kind] = (right + good, count + 1)
        if not good and failures > 0:
            failures -= 1
            tools = " ".join(name_of(t) for t in case.tools)
            print(f"[{case.kind}] {case.messages[-1]['content']!r} [{tools}]")
            print(f"    wanted {case.calls} {case.says}\n    got    {text[:400]!r}")
    return table


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--known", type=int, default=100, help="cases from the generator of the training examples")
    parser.add_argument("--every", type=int, default=1, help="take only every n-th of the other cases")
    parser.add_argument("--only", nargs="*", help="titles of tables; all by default")
    parser.add_argument("--failures", type=int, default=0, help="print this many failures")
    args = parser.parse_args()
    runner = Runner(args.folder)
    some = slice(None, None, args.every)
    for title, cases in (
        ("known", known(args.known)),
        ("unseen", cases_of(heldout)[some]),
        ("a tester's", cases_of(tester)[some]),
        ("natural, first", natural_cases("dev")[some]),
        ("natural, second", natural_cases("natural")[some]),
        ("natural, blind", natural_cases("blind")[some]),
        *((name, natural_cases(name)[some]) for name in natural.FAIR),
    ):
        if args.only and title not in args.only:
            continue
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
