"""Random dialect files: hypothesis draws markers, frames, separators, styles of arguments, ids and margins, with
hostile overlaps. A file that `check_dialect` accepts must keep every promise of the shipped dialects.

    python -m tests.dialect.drawn --files 300 [--seed 1] [--among 5]

Prints why files were refused, and each fault with its file: a promise that an accepted file breaks, or a text that, in
any file, means something else when it is cut. With ``--among``, this many of the accepted files are put among the
shipped ones for the generic tests, which takes three to four seconds of processor time each, and each file that fails
is printed with its tests. The exit code is 1 if there was a fault.
"""

import argparse
import json
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.grammar.sampling import PLAIN, Sampler, as_tools, words_of
from tests.grammar.support import Grammars, constrained, eos, read
from tests.same_events import NOISE
from tests.support import said
from unspool import Dialect, DialectError, Policy, parse, render
from unspool.check import check_dialect
from unspool.check.promises import literals
from unspool.check.trials import number, random_split, run, same
from unspool.dialect.examples import example_tools
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base
from unspool.policy import CHOICES

from . import among

# -- files -------------------------------------------------------------------------------------------------------------

WORDS = ("think", "call", "tool", "x", "a", "end", "f", "name", "get", "1", "é")
PAIRS = (
    ("<{}>", "</{}>"), ("<|{}|>", "<|/{}|>"), ("<|{}_begin|>", "<|{}_end|>"), ("[{}]", "[/{}]"), ("@{}", "@end"),
    ("%% {}\n", "/%%"), ("«{}»", "«/{}»"), ("```{}\n", "\n```"), ("({}|", "{})"), ("<{}", "/>"), ("#{}#", "/#"),
    ("[", "]"), ("{}:", ";/"), ("<<", ">>"), ("* ", " */"), ("<{} a='b'>", "</{}>"),
    ("<m><{}>", "</{}></m>"), ("【{}】", "【/{}】"),
)  # fmt: skip
SPACES = ("", "", "", "\n", " ", "\n\n", "  ")
SEPARATORS = ("", "", "", ", ", "\n", ";", " | ", "<sep>", "]", "\n\n")
IDS = ("call_????????????????", "?????????", "{name}:{index}", "c-{number}", "{index}", "functions.{name}:{index}")
OBJECTS = (
    '{"name": "{name}", "arguments": {arguments}}', '{"{name}": {arguments}}',
    '{"tool": "{name}", "input": {arguments}}', '{"id": "{id}", "name": "{name}", "arguments": {arguments}}',
    "{'name': '{name}', 'parameters': {arguments}}", '{"name": "{name}", "arguments": {arguments}, "index": {index}}',
    '{"id": "{id}", "type": "function", "function": {"name": "{name}", "arguments": {arguments}}}',
    '{"function": {"name": "{name}", "arguments": {arguments}}}', '{"id": "{id}", "fn": "{name}", "kw": {arguments}}',
)  # fmt: skip
NAMES = (
    "{name}", "{name}", "{name}", '"{name}"', "name={name}", "{name}:{index}", "{name} [{id}]", "{name}#{number}",
    "{name}.call", "{name} call", "tools.{name}.run", "{name}~>",
)  # fmt: skip
PYTHON = ("{name}({arguments})", "{name}({arguments})", "{name}.call({arguments})", "{name} call({arguments})")
BEHIND = ("", " ", "\n", ">", "(", ":", "|", ": ", "<args>", "\n```json\n", "[ARGS]", "=")
ARGUMENTS = (
    "<{key}>{value}</{key}>", '<p name="{key}">{value}</p>', "<k>{key}</k><v>{value}</v>", "~{key}={value};~",
    "  - {key} := {value} ;!\n", '<p name="{key}" string="{string}">{value}</p>', "<p={key}>\n{value}\n</p>\n",
    '<p name="{key}" type="{type}">{value}</p>', "@{key} = {value} @", "[{key}] {value} %\n", "@{key}: {value}\n",
    "<|p|>{key}<|v|>{value}<|/p|>", '<arg {key}="{value}"/>',
)  # fmt: skip
BLANK = '[[examples]]\nraw = "Hello."\ncontent = "Hello."\n'


def pairs(rng: random.Random, known: list[tuple[str, str]]) -> tuple[str, str]:
    """An opening and a closing. Sometimes one is that of another part, or begins like it."""
    kind = rng.randint(0, 11)
    if known and kind == 0:
        return rng.choice(known)
    if known and kind == 1:  # closes like another part
        return _pair(rng)[0], rng.choice(known)[1]
    if known and kind == 2:  # begins like another part
        opening, closing = rng.choice(known)
        return opening + rng.choice(("x", ">", " ", "<", "1")), closing
    if known and kind == 3:  # is the beginning of another part's
        opening, closing = rng.choice(known)
        return opening[: max(1, len(opening) - 1)], closing
    return _pair(rng)


def _pair(rng: random.Random) -> tuple[str, str]:
    word = rng.choice(WORDS)
    opening, closing = rng.choice(PAIRS)
    return opening.replace("{}", word), closing.replace("{}", word)


def drawn_file(rng: random.Random) -> str:
    """The text of a dialect file. The renderer writes its examples, as far as it can."""
    keys = _keys(rng)
    head = "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())
    try:
        dialect = parse_dialect(head + BLANK, "drawn.toml", find_base)
    except DialectError:
        return head + BLANK
    return head + "".join(examples(dialect))


FILES = st.randoms(use_true_random=True).map(drawn_file)
"""Files that are independent of each other. If they were drawn choice by choice, hypothesis would try similar files."""


def _keys(rng: random.Random) -> dict[str, Any]:
    known: list[tuple[str, str]] = []

    def around(body: str, *, empty: bool = False) -> str:
        opening, closing = ("", "") if empty else pairs(rng, known)
        if not empty:
            known.append((opening, closing))
        spaces = [rng.choice(SPACES) for _ in range(4)]
        return spaces[0] + opening + spaces[1] + body + spaces[2] + closing + spaces[3]

    def maybe(chance: int) -> bool:
        return rng.randint(1, 10) <= chance

    keys: dict[str, Any] = {"name": "drawn"}
    if maybe(7):
        keys["start"] = rng.choice(("<|bot|>", "<bot>\n", "«bot»", "assistant:", "[x]"))
    if maybe(7):
        keys["end"] = rng.choice((["<|eot|>"], ["</s>"], ["@end"], ["<|eot|>", "<|call|>"], [";;"]))
    framed = maybe(2)
    begun = keys.get("start", "") if framed and maybe(7) else ""
    if begun and maybe(3):  # the prompt ends with what every part begins with
        begun = rng.choice(("@@@", "<|part|>", "to="))
        keys["start"] += begun
    if maybe(8):
        keys["reasoning"] = begun + around("{reasoning}").lstrip() if begun else around("{reasoning}")
    if framed:
        keys["content"] = begun + around("{content}").lstrip() if begun else around("{content}")
    if maybe(2):
        keys["stage"] = rng.choice(("reasoning", "reasoning", "undecided"))
    if maybe(9):
        _calling(rng, keys, around, begun, maybe)
    for key in ("reasoning", "calls"):
        if key in keys and maybe(1):  # a form that the model also writes, but the renderer does not
            keys[key] = [keys[key], rng.choice(OTHERS[key == "reasoning" :]).format(f"{{{key}}}")]
    if maybe(1):
        field = rng.choice(list(CHOICES))
        keys["policy"] = {field: rng.choice(CHOICES[field])}
    return keys


OTHERS = ("{}", "<also>{}</also>", "<also n='{{any}}'>{}</also>", "[ALSO]{}[/ALSO]", "\n\n<|also|>\n{}\n<|/also|>")


def _calling(rng: random.Random, keys: dict[str, Any], around: Any, begun: str, maybe: Any) -> None:
    body = rng.choice(("{calls}", "{calls}", "{call}"))
    block = around(body, empty=maybe(4))
    keys["calls"] = begun + block.lstrip() if begun else block
    if maybe(5):
        keys["separator"] = {"calls": rng.choice(SEPARATORS)}
    style = rng.choice(("object", "json", "json", "python", "quote", "markup", "markup", "markup"))
    if style == "object":
        call = rng.choice(OBJECTS)
        keys["call"] = around("\0", empty=maybe(5)).replace("\0", call)
    else:
        name, behind = rng.choice(NAMES), rng.choice(BEHIND)
        keys["call"] = around("\0", empty=maybe(2)).replace("\0", f"{name}{behind}{{arguments}}")
    if style == "python":
        keys["arguments"] = "python"
        if maybe(8):
            keys["call"] = around("\0", empty=maybe(5)).replace("\0", rng.choice(PYTHON))
    if maybe(9):  # otherwise outer white space is at `call`, where authors may put it by mistake
        keys["call"] = keys["call"].strip()
    if style == "quote":
        keys["quote"] = rng.choice(("<q>", "''", '<|"|>', "§q", "']"))
    if style == "markup":
        argument = rng.choice(ARGUMENTS)
        if maybe(3):
            argument = around("{key}" + rng.choice(("=", ": ", "|", ">")) + "{value}")
        keys["argument"] = argument
        if maybe(4):
            keys.setdefault("separator", {})["arguments"] = rng.choice(SEPARATORS)
        if maybe(1):
            keys["item"] = "<item>{value}</item>"
    opening = next((o for o in (t.partition("{")[0].strip() for t in (keys["calls"], keys["call"])) if o), "")
    if opening and maybe(6 if opening.startswith("```") else 2):
        keys["anywhere"] = [opening[: rng.choice((1, 3, 99))].strip()]
    if opening and not begun and maybe(1):
        keys["start"] = keys.get("start", "") + opening[: rng.choice((3, 99))]
    if maybe(5):
        keys["id"] = rng.choice(IDS)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


F = ("f", {"city": "Paris", "days": 3})
NOW: tuple[str, dict[str, Any]] = ("now", {})
TURNS: tuple[tuple[str, str, tuple[tuple[str, dict[str, Any]], ...]], ...] = (
    ("", "Hello.", ()),
    ("plan", "answer", ()),
    ("", "", (F,)),
    ("plan", "", (F, NOW, F)),
    ("", "Sure.", (NOW,)),
)


def examples(dialect: Dialect) -> Iterator[str]:
    """Examples of a dialect, as far as the renderer can write them."""
    for reasoning, content, calls in TURNS:
        message = {
            "role": "assistant",
            "reasoning_content": reasoning,
            "content": content,
            "tool_calls": [{"function": {"name": n, "arguments": a}} for n, a in calls],
        }
        try:
            raw = render(message, dialect)
        except DialectError:
            continue
        kept = "?" not in dialect.id or any(step.name == "id" for t in dialect.call[:1] for step in t.steps)
        ids = [c.id for c in parse(raw, dialect).tool_calls] if calls and kept else []
        listed = [
            {"name": n, **({"arguments": a} if a else {}), **({"id": ids[i]} if i < len(ids) else {})}
            for i, (n, a) in enumerate(calls)
        ]
        table = f"tool_calls = [{', '.join(map(_toml, listed))}]\n" if listed else ""
        yield f"[[examples]]\nraw = {_toml(raw)}\nreasoning = {_toml(reasoning)}\ncontent = {_toml(content)}\n{table}"


# -- promises of an accepted file ----------------------------------------------------------------------------------


def refusal(text: str) -> str:
    """Why the loader or `check_dialect` refuses a file; empty if both accept it."""
    try:
        dialect = parse_dialect(text, "drawn.toml", find_base)
    except DialectError as error:
        return str(error)
    problems = check_dialect(dialect)
    return str(problems[0]) if problems else ""


def keeps_to_everything(dialect: Dialect, rng: random.Random) -> None:
    """Check what the generic tests check of shipped dialects, at random places.

    Raises:
        AssertionError: a check fails.
    """
    outputs_mean_the_same_however_they_are_cut(dialect, rng)
    if dialect.call:
        the_loop_closes(dialect, rng)


def outputs_mean_the_same_however_they_are_cut(dialect: Dialect, rng: random.Random) -> None:
    raws = [raw for example in dialect.examples for raw in example.raw]
    own = literals(dialect)
    for _ in range(25):
        text = rng.choice(raws)
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(text))
            to = min(len(text), at + rng.choice((1, 2, 5, 20)))
            new = rng.choice((rng.choice(own), rng.choice(own)[:2], rng.choice(NOISE), rng.choice(raws), ""))
            text = text[:at] + new + text[rng.choice((at, to)) :]
        policy = None
        if rng.random() < 0.4:
            fields = rng.sample(sorted(CHOICES), 2)
            policy = Policy(**{f: rng.choice(CHOICES[f]) for f in fields})
        tools = rng.choice((None, example_tools(dialect)))
        stage = rng.choice((None, None, "content", "reasoning", "undecided", "tool_call"))
        options: dict[str, Any] = {"tools": tools, "policy": policy, "stage": stage, "ids": number}
        whole = run(dialect, [text], **options)[0]
        for chunks in (list(text), random_split(text, rng, 5), random_split(text, rng, 30)):
            got = run(dialect, chunks, **options)[0]
            assert same(got) == same(whole), (text, options, chunks, same(got), same(whole))
        for call in whole.tool_calls:
            if call.status in ("ok", "repaired"):
                assert isinstance(json.loads(call.arguments), dict), (text, call)


def the_loop_closes(dialect: Dialect, rng: random.Random) -> None:
    tools = as_tools(PLAIN)
    words = words_of(dialect, PLAIN)
    for choice in ("auto", "required"):
        grammar = Grammars(constrained(dialect, tools, choice))
        for _ in range(3):
            data, done = Sampler(words, rng, eos(), 400).sample(grammar.matcher())
            if not done:
                continue
            text = data.decode()
            message = parse(text, dialect, tools=tools, tool_choice=choice)
            again = read(text, dialect, rng, tools=tools, tool_choice=choice)
            assert said(message)[2] == said(again)[2], (choice, text)
            assert len(message.tool_calls) >= (choice == "required"), (choice, text, message)
            for call in message.tool_calls:
                assert (call.status, call.known) == ("ok", True), (choice, text, call)
                jsonschema.validate(json.loads(call.arguments), PLAIN[call.name])


# -- the long run ------------------------------------------------------------------------------------------------------


class Tally:
    """The results for the files that were drawn."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.accepted: list[str] = []
        self.faults: list[tuple[str, str]] = []
        self._known: set[str] = set()

    def take(self, text: str) -> None:
        """Try one file."""
        if text in self._known:
            return
        self._known.add(text)
        try:
            why = refusal(text)
            if why:
                self.refused[why.split(" got ")[0][:140]] += 1
                if "it means something else" in why:
                    self._fault(text, why)
                return
            self.accepted.append(text)
            keeps_to_everything(parse_dialect(text, "drawn.toml", find_base), random.Random(text))
        except Exception as error:  # any exception is a fault, of the accepted file or of the check
            place = traceback.extract_tb(error.__traceback__)[-1]
            self._fault(text, f"{type(error).__name__} at {place.filename}:{place.lineno}: {error}")

    def _fault(self, text: str, fault: str) -> None:
        print(f"--- {fault[:1500]}\n{text}", flush=True)
        self.faults.append((text, fault))

    def report(self) -> None:
        """Print the results."""
        for reason, count in self.refused.most_common():
            print(f"{count:5} refused: {reason}")
        refused = sum(self.refused.values())
        share = len(self.accepted) / max(len(self.accepted) + refused, 1)
        print(f"{len(self.accepted)} accepted ({share:.0%}), {refused} refused, {len(self.faults)} faults")


BATCH = 20
"""How many files one run of pytest tests."""
TRIED = (
    "test_every_raw_text_keeps_the_promises_that_check_tries",
    "test_every_dialect_keeps_the_promises_that_check_tries",
    "test_every_first_raw_text_is_written_and_generated",
)
"""The tests in tests/test_invariants.py that `check_dialect` has just run: the promises themselves."""


def put_among(texts: Sequence[str], run: int) -> int:
    """Run the generic tests of these files as if they were shipped, and return how many files failed.

    Args:
        texts: the texts of the files.
        run: a number in the names of the dialects, which many tests use as a seed.
    """
    failed = 0
    left_out = [f"--deselect=tests/test_invariants.py::{test}" for test in TRIED]
    with tempfile.TemporaryDirectory() as folder:
        files = {f"drawn_{run}x{i}z": text for i, text in enumerate(texts)}
        for name, text in files.items():
            Path(folder, f"{name}.toml").write_text(text.replace('"drawn"', f'"{name}"', 1), encoding="utf-8")
        for at in range(0, len(files), BATCH):
            batch = list(files)[at : at + BATCH]
            paths = [Path(folder, f"{name}.toml") for name in batch]
            found = among.failures(paths, "-p", "no:xdist", "--tb=short", *left_out)
            for name, tests in found.items():
                print("--- failed among the shipped ones:", *tests, files.get(name, ""), sep="\n", flush=True)
            failed += len(found)
            print(f"{len(batch)} files among the shipped ones, {len(found)} of them failed", flush=True)
    return failed


def tally_of(files: int, fixed: int | None = None) -> Tally:
    """What becomes of so many drawn files: by a seed, or always of the same ones."""
    tally = Tally()

    @settings(
        max_examples=files,
        deadline=None,
        database=None,
        derandomize=fixed is None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(FILES)
    def draw(text: str) -> None:
        tally.take(text)

    (draw if fixed is None else seed(fixed)(draw))()
    return tally


def main() -> int:
    p = argparse.ArgumentParser()
    p.add_argument("--files", type=int, default=300)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    p.add_argument("--among", type=int, default=0)
    options = p.parse_args()
    print(f"seed {options.seed}")
    tally = tally_of(options.files, options.seed)
    tally.report()
    chosen = random.Random(options.seed).sample(tally.accepted, min(options.among, len(tally.accepted)))
    failed = put_among(chosen, options.seed)
    return bool(tally.faults or failed)


if __name__ == "__main__":
    sys.exit(main())
