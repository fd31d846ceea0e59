"""Checks that the machine still emits the same events, by comparing two source trees on mutated model output.

    python -m tests.same_events --ref REF [--share 0.1] [--seed 1]
    python -m tests.same_events --record FILE    # keep the corpus and the digests of its runs
    python -m tests.same_events --against FILE   # compare with these, without a second tree

Reads mutated examples of every dialect (cut; with markers doubled, deleted or inserted, parts swapped, or long texts)
under random policies, stages, prompts, tools and tool choices, as text and as token ids, cut at random: once with the
package of a git ref and once with that of the working tree, in two processes. The first difference is printed, and the
exit code is then 1. A share of 1 is about a quarter of a million runs.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = str(ROOT / "src")
RUNS = 240_000
"""The number of runs for a share of 1."""
SIZE = 8
"""Bytes of a run's digest."""
NOISE = [
    "<", ">", "</", "{", "}", "[", "]", "(", ")", '"', "'", "\\", "`", "```", "```json\n", "<|", "|>", "\n", " ",
    "\n\n", ",", ";", ":", "=", "null", "true", "None", "-1", "1e400", "1e5", "007", "NaN", "12345678901234567890", "é",
    "🌧️",
    "\\u00e9", "\\ud83d", '\\"', "\\n", "]]>", "&quot;", "Sure.", " a b ", "x=1", '"a": 1', '{"a": "b"}',
    "\r\n", "\x00", '"name"', '"arguments"', "get_weather", "search", "now", '{"name": "now", "arguments": {}}',
    "{'a', 'b'}", "<|x|>", "(1,)", "('a')", '("a" "b")', "**{'a': 1}", 'f"{x}"', "r'\\d'", "'''", "0x1F", "1_0", ".5",
    "9" * 310, "tru", '{a: "b"}', "[1, 2,]", "city=", "//",
    '{"name": "get_weather", "arguments": {"city": "Paris"}}', "[get_weather(city='Paris')]", "city", "arguments",
]  # fmt: skip
FILLERS = ["word ", " ", "a", '"', "\\", "<", "[", "`x` ", "\n", "\\n", "1", "{", '{"k": '] * 2
STAGES = ("reasoning", "content", "tool_call", "undecided")
REASONS = ("stop", "stop", "stop", "length", "tool_calls", None)


class Case(NamedTuple):
    """One run."""

    dialect: str
    text: str
    options: dict[str, Any]
    policy: dict[str, Any]
    ids: bool
    size: int
    """The size of the pieces: 0 is the whole text, -1 one character or token, other numbers a maximum."""
    reason: str | None
    stages: dict[int, str]
    """The stages that an engine reports for pieces."""
    asks: bool
    """Whether the message and the stage are read between pieces."""


def corpus() -> dict[str, Any]:
    """The material of all runs, from the working tree: the texts, literals and tools of each dialect."""
    import unspool
    from unspool.check.promises import literals
    from unspool.policy import CHOICES

    from .support import DIALECTS, cases, tool, tools_of

    nested = tool(
        "nested",
        list={"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        kind={"enum": ["one", "two"]},
        text={"type": ["string", "null"]},
        size="number",
        any={},
        flag="boolean",
    )
    arguments = [
        {
            "list": [{"a": 1}, {"a": 2}],
            "kind": "two",
            "text": "null",
            "size": 1.5e3,
            "any": {"b": [1, "x"]},
            "flag": True,
        },
        {"text": 'say "hi"\n\tto\\them', "any": "3"},
        {"list": [], "any": [[1, 2], {"c": None}], "text": None},
    ]
    found: dict[str, Any] = {}
    for d in DIALECTS:
        raws = [c.raw for c in cases([d])]
        for values in arguments:
            calls = [{"function": {"name": "nested", "arguments": json.dumps(values)}}] * 2
            try:
                raws.append(
                    unspool.render({"role": "assistant", "content": "", "tool_calls": calls}, d, tools=[nested])
                )
            except ValueError:
                continue  # the dialect cannot write this message
        tools = [*tools_of(d), nested]
        names = {t["function"]["name"] for t in tools}
        tools += [t for t in (tool("other", a="string"), tool("now")) if t["function"]["name"] not in names]
        found[d.name] = {"raws": raws, "literals": sorted(literals(d)), "tools": tools, "start": list(d.start)}
    return {"dialects": found, "choices": {name: list(values) for name, values in CHOICES.items()}}


# -- in both processes -----------------------------------------------------------------------------------------


def mutated(text: str, rng: random.Random, raws: list[str], literals: list[str], everyones: list[str]) -> str:
    """A text with a few random changes."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        at = rng.randint(0, len(text))
        to = min(len(text), at + rng.choice((1, 1, 2, 5, 20, 80)))
        literal = rng.choice(literals or NOISE)
        stands = text.find(literal)
        kind = rng.randrange(14)
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + literal + text[at:]
        elif kind == 2:
            text = text[:at] + rng.choice(everyones) + text[at:]
        elif kind == 3:
            text = text[:at] + rng.choice(NOISE) + text[at:]
        elif kind == 4:
            text = text[:at]
        elif kind == 5:
            text += rng.choice(raws)
        elif kind == 6:
            text = text[:at] + text[at:to] * 2 + text[to:]
        elif kind == 7:
            text = text[:at] + literal[: rng.randint(1, len(literal))] + text[at:]
        elif kind == 8:
            text = text[:at] + rng.choice(raws) + text[at:]
        elif kind == 9:
            text = text[at:] + text[:at]
        elif stands >= 0 and kind == 10:
            text = text.replace(literal, "", 1)
        elif stands >= 0 and kind == 11:
            text = text.replace(literal, literal * 2, 1)
        elif stands >= 0 and kind == 12:
            text = text[: stands + len(literal)]
        elif stands >= 0:
            text = text[:stands] + rng.choice(("`", " ", "\n", "```\n")) + text[stands:]
    return text


def case(found: dict[str, Any], seed: int, index: int) -> Case:
    """The run with this number."""
    rng = random.Random(f"{seed}:{index}")
    names = found["names"]
    name = names[index % len(names)]
    entry = found["dialects"][name]
    raws, literals, tools = entry["raws"], entry["literals"], entry["tools"]
    text = mutated(min(rng.choice(raws), rng.choice(raws), key=len), rng, raws, literals, found["literals"])
    options: dict[str, Any] = {}
    options["tools"] = rng.choice((None, tools, tools, tools, tools[-1:], []))
    if rng.random() < 0.3:
        options["stage"] = rng.choice(STAGES)
    elif rng.random() < 0.15:
        prefill = mutated(rng.choice(raws), rng, raws, literals, found["literals"])
        options["prompt"] = f"user: hi\n{rng.choice(entry['start'] or [''])}{prefill[: rng.randint(0, len(prefill))]}"
    if rng.random() < 0.25:
        declared = [t["function"]["name"] for t in tools] if options["tools"] is None else names_of(options["tools"])
        some = [{"type": "function", "function": {"name": rng.choice(declared)}}] if declared else []
        options["tool_choice"] = rng.choice(["none", *(["required", *some, *some] if some else [])])
    policy: dict[str, Any] = {}
    if rng.random() < 0.55:
        policy = rng.choice(found["policies"])
    size = rng.choice((0, 0, -1, 2, 4, 4, 9, 40))
    if rng.random() < 0.003:
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(FILLERS) * rng.choice((4_500, 66_000)) + text[at:]
        size = 5_000
    stages = {rng.randint(0, 9): rng.choice(STAGES) for _ in range(rng.choice((0,) * 12 + (1, 2)))}
    return Case(name, text, options, policy, rng.random() < 0.2, size, rng.choice(REASONS), stages, rng.random() < 0.1)


def names_of(tools: list[Any]) -> list[str]:
    """The names of tools."""
    return [t["function"]["name"] for t in tools]


@cache
def tokenizer(literals: tuple[str, ...]) -> Any:
    """A tokenizer of bytes in which every longer literal of a dialect without white space is a special token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [t for t in literals if len(t) > 3 and not any(c.isspace() for c in t) and not t.isalnum()]
    made.add_special_tokens([AddedToken(t, special=True) for t in ["<|x|>", *special]])
    return made


def pieces(sequence: Any, size: int, rng: random.Random) -> list[Any]:
    """A text, or ids, cut into pieces."""
    if size == 0 or not sequence:
        return [sequence]
    cut, at = [], 0
    while at < len(sequence):
        step = 1 if size < 0 else rng.randint(1, size)
        cut.append(sequence[at : at + step])
        at += step
    return cut


def events_of(found: dict[str, Any], run: Case) -> list[str]:
    """The events of this process's machine."""
    import unspool

    options = dict(run.options)
    if run.policy:
        options["policy"] = unspool.Policy(**run.policy)
    feed: Any = run.text
    if run.ids:
        made = tokenizer(tuple(found["dialects"][run.dialect]["literals"]))
        options["tokenizer"] = made
        feed = made.encode(run.text, add_special_tokens=False).ids
    parser = unspool.Parser(run.dialect, ids=lambda index, name: f"{name}-{index}", **options)
    said: list[str] = []
    take = parser.feed_tokens if run.ids else parser.feed
    for i, piece in enumerate(pieces(feed, run.size, random.Random(len(run.text)))):
        stage = run.stages.get(i)
        events = take(piece) if stage is None else take(piece, stage=stage)
        said.append(repr(joined(events)))
        if run.asks:
            said.append(repr((parser.message, parser.stage)))
    said.append(repr(joined(parser.close(run.reason))))
    if run.asks:
        said.append(repr(parser.message))
    return said


def joined(events: list[Any]) -> list[Any]:
    """Events, with adjacent pieces of a call's arguments joined, because their number may change."""
    import msgspec

    from unspool import ToolCallDelta

    found: list[Any] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta) and event.index == last.index:
            arguments = last.arguments + event.arguments
            found[-1] = msgspec.structs.replace(last, arguments=arguments, end=event.end, token_end=event.token_end)
        else:
            found.append(event)
    return found


def work(path: str, seed: int, start: int, count: int, target: str) -> None:
    """Write the digests of runs; for a single run, its events."""
    found = loaded(path)
    digests = bytearray()
    for index in range(start, start + count):
        try:
            said = events_of(found, case(found, seed, index))
        except Exception as error:  # only one side may raise
            said = [f"{type(error).__name__}: {error}"]
        if count == 1:
            Path(target).write_text(json.dumps(said), encoding="utf-8")
            return
        text = "\n".join(said).encode("utf-8", "surrogatepass")
        digests += hashlib.blake2b(text, digest_size=SIZE).digest()
    Path(target).write_bytes(digests)


def loaded(path: str) -> dict[str, Any]:
    """Read the corpus from a file."""
    return indexed(json.loads(Path(path).read_text(encoding="utf-8")))


def indexed(found: dict[str, Any]) -> dict[str, Any]:
    """The corpus, with the values from which all its runs draw."""
    found["names"] = sorted(found["dialects"])
    # Each value alone, and some together; not too many, because a plan is compiled for each.
    choices = found["choices"]
    rng = random.Random(1)
    found["policies"] = [{field: value} for field, values in choices.items() for value in values] + [
        {f: rng.choice(choices[f]) for f in rng.sample(sorted(choices), 3)} for _ in range(8)
    ]
    found["literals"] = sorted({t for d in found["dialects"].values() for t in d["literals"]})
    return found


# -- comparing --------------------------------------------------------------------------------------------------------


def source_of(ref: str, folder: str) -> str:
    """The package's sources at a git ref."""
    archive = subprocess.run(["git", "archive", ref, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return os.path.join(folder, "src")


def ran(sources: list[str], path: str, seed: int, begin: int, count: int) -> list[bytes]:
    """What runs with the packages of source trees write, each in a process of its own; see `work`."""
    targets = [f"{path}-{i}" for i in range(len(sources))]
    running = []
    for source, target in zip(sources, targets, strict=True):
        command = [sys.executable, __file__, "--work", path, str(seed), str(begin), str(count), target]
        environment = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "0"}
        running.append(subprocess.Popen(command, env=environment, cwd=source))
    if sum(process.wait() != 0 for process in running):
        raise SystemExit("a process failed")
    return [Path(target).read_bytes() for target in targets]


def compare(ref: str, share: float, seed: int) -> int:
    """Count the runs that differ between a git ref and the working tree, by dialect too, and print the first."""
    count = int(RUNS * share)
    with tempfile.TemporaryDirectory() as folder:
        sources = [source_of(ref, folder), SOURCE]
        path = os.path.join(folder, "corpus.json")
        Path(path).write_text(json.dumps(corpus()), encoding="utf-8")
        differ = differences(*ran(sources, path, seed, 0, count))
        print(f"{count:,} runs, seed {seed}: {len(differ):,} differ from {ref}")
        if differ:
            index = first(loaded(path), seed, differ)
            was, now = map(json.loads, ran(sources, path, seed, index, 1))
            for i, (old, new) in enumerate(zip([*was, ""], [*now, ""], strict=False)):
                if old != new:
                    print(f"piece {i}\n  {ref}: {old[:3000]}\n  tree: {new[:3000]}")
                    break
        return len(differ)


def differences(before: bytes, after: bytes) -> list[int]:
    """The numbers of the runs whose digests differ."""
    return [
        i for i in range(len(before) // SIZE) if before[i * SIZE : i * SIZE + SIZE] != after[i * SIZE : i * SIZE + SIZE]
    ]


def first(found: dict[str, Any], seed: int, differ: list[int]) -> int:
    """Print which dialects have differences, and one of the first of them, which is the shortest; return its number."""
    dialects = Counter(case(found, seed, i).dialect for i in differ)
    print(", ".join(f"{name} {number}" for name, number in dialects.most_common()))
    index = min(differ[:400], key=lambda i: (len(case(found, seed, i).text), i))
    run = case(found, seed, index)
    print(f"run {index}: {run.dialect}, policy {run.policy}, pieces {run.size}, ids {run.ids}, {run.reason}")
    tools = run.options.get("tools")
    fields = {**run.options, "tools": tools and names_of(tools)}
    print(f"options {fields}, stages {run.stages}\ntext {run.text[:2000]!r}")
    return index


def record(file: Path, share: float, seed: int) -> None:
    """Write the corpus, and the digests of its runs, into a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "corpus.json")
        found = json.dumps(corpus())
        Path(path).write_text(found, encoding="utf-8")
        (made,) = ran([SOURCE], path, seed, 0, int(RUNS * share))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as kept:
        kept.writestr("corpus.json", found)
        kept.writestr("seed", str(seed))
        kept.writestr("digests", made)


def against(file: Path, share: float) -> int:
    """Count the working tree's runs whose events differ from those in a file, and print the first."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(file) as kept:
        path = kept.extract("corpus.json", folder)
        seed, before = int(kept.read("seed")), kept.read("digests")
        before = before[: max(1, int(len(before) // SIZE * share)) * SIZE]
        differ = differences(before, *ran([SOURCE], path, seed, 0, len(before) // SIZE))
        print(f"{len(before) // SIZE:,} runs, seed {seed}: {len(differ):,} differ from {file}")
        if differ:
            first(loaded(path), seed, differ)
        return len(differ)


def main() -> int:
    if sys.argv[1:2] == ["--work"]:
        path, seed, begin, count, target = sys.argv[2:]
        work(path, int(seed), int(begin), int(count), target)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ref", default="HEAD")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.record, arguments.share, arguments.seed)
        return 0
    if arguments.against:
        return 1 if against(arguments.against, arguments.share) else 0
    return 1 if compare(arguments.ref, arguments.share, arguments.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
