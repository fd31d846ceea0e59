"""The cost of a constraint: deriving it, compiling it in a grammar engine, and a mask for each token.

Engines are measured in wall-clock time, since they may use threads. Their vocabulary is artificial, but as large as
real ones: the bytes, words and parts of words, and runs of punctuation.
"""

import importlib
import importlib.util
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import unspool
from unspool import Constraint, Dialect, Stage
from unspool.grammar import Llguidance, Matcher, Xgrammar

from .clock import seconds
from .effort import Effort, one_each
from .samples import DidNotArrive, Tools
from .table import Row, ranked
from .texts import HUNDRED_TOOLS, PROSE, SOURCE

_SIZE: Final = 128_000
_END: Final = "<|endoftext|>"
_LETTERS: Final = "etaoinshrdlucmfwypvbgkjqxz"
_MARKS: Final = "{}[]():;,.\"'<>/\\|_-=# \n"
_COUNTS: Final = (1, 10, 100)
"""The numbers of tools that requests declare."""
_TEXT: Final = 600
"""How many characters an argument and free text have."""

_USUAL: Final = [t["function"] for t in HUNDRED_TOOLS if len(t["function"]["parameters"]["properties"]) < 10]
_TOOLS: Final[Tools] = [
    {"type": "function", "function": {**function, "strict": True}} for function in (*_USUAL, {"name": "now"})
]
assert len(_TOOLS) == _COUNTS[-1]

Engine = Llguidance | Xgrammar
Found = list[tuple[Constraint, Dialect]]


def constraints(effort: Effort) -> Iterator[Row]:
    """`constrain` by the number of strict tools; then a comparison of engines."""
    found: dict[int, Found] = {}
    for count in _COUNTS:
        derived = [(_derive(d, _TOOLS[:count], max(1, 4 - count // 5)), d) for d in effort.dialects()]
        found[count] = [(made[-1], d) for made, d in derived]
        for i, form in enumerate(("Lark", "structural tag")):
            times = [((lark, tag)[i] * 1e3, d) for (lark, tag, _), d in derived]
            yield from ranked(f"constrain() as {form}", times, "ms", of=_tools(count))
    tokenizer: Any = None
    for name, (packages, make) in _ENGINES.items():
        if not all(importlib.util.find_spec(p) for p in packages):
            yield Row(name, "not installed", 0, "")
            continue
        for package in packages:
            importlib.import_module(package)
        tokenizer = tokenizer or _vocabulary()
        start = time.perf_counter()
        engine = make(tokenizer)
        yield Row(name, "reading 128k tokens", (time.perf_counter() - start) * 1e3, "ms")
        yield from _compiling(name, engine, found, effort)
        yield from _masking(name, engine, tokenizer)


def _tools(count: int) -> str:
    return f"{count} tool{'s' * (count > 1)}"


def _derive(dialect: Dialect, tools: Tools, rounds: int) -> tuple[float, float, Constraint]:
    """Seconds to a Lark grammar and to a structural tag, each the fastest of several rounds."""
    lark = tag = float("inf")
    for _ in range(rounds):
        start = seconds()
        constraint = _constraint(dialect, tools, "required")
        made = seconds()
        _ = constraint.lark
        printed = seconds()
        _ = constraint.structural_tag
        lark = min(lark, printed - start)
        tag = min(tag, made - start + seconds() - printed)
    return lark, tag, constraint


def _constraint(dialect: Dialect, tools: Tools, choice: str) -> Constraint:
    made = unspool.constrain(dialect, tools, choice, stage=Stage.CONTENT)
    assert made is not None
    return made


# --- engines ----------------------------------------------------------------------------------------------------------


def _compiling(name: str, engine: Engine, found: dict[int, Found], effort: Effort) -> Iterator[Row]:
    """A matcher from a constraint that is printed already, in one dialect of each syntax.

    xgrammar takes seconds for many tools whose arguments are not JSON, so these cases are left out for it.
    """
    few = one_each()
    engine.matcher(_constraint(few[0], _TOOLS[-1:], "required")).mask()  # makes everything that is made only once
    for count, made in found.items():
        spared = isinstance(engine, Xgrammar) and (count == _COUNTS[-1] or (count > 1 and not effort.everywhere))
        times = []
        for constraint, dialect in made:
            if dialect in (few[:1] if spared else few):
                start = time.perf_counter()
                engine.matcher(constraint)
                times.append(((time.perf_counter() - start) * 1e3, dialect))
        measurement = f"{name}: compiling"
        if spared:
            (value, dialect), *_ = times
            yield Row(measurement, f"{_tools(count)}, {dialect.name} only", value, "ms")
        else:
            yield from ranked(measurement, times, "ms", of=_tools(count))


def _masking(name: str, engine: Engine, tokenizer: Any) -> Iterator[Row]:
    """A mask over the whole vocabulary before each token of a rendered message, in one dialect of each syntax."""
    arguments = {"path": "src/shop.py", "text": SOURCE[:_TEXT]}
    call = {"type": "function", "function": {"name": "write_file", "arguments": arguments}}
    for of, choice, message in (
        ("call", "required", {"tool_calls": [call]}),
        ("free text", "auto", {"content": PROSE[:_TEXT]}),
    ):
        times: list[float] = []
        for dialect in one_each():
            matcher = engine.matcher(_constraint(dialect, _TOOLS[:1], choice))
            text = unspool.render({"role": "assistant", **message}, dialect, tools=_TOOLS, stage=Stage.CONTENT)
            times += _masks(dialect, matcher, tokenizer.encode(text).ids)
        ordered = sorted(times)
        median, slow = (ordered[int(at * len(ordered))] for at in (0.5, 0.99))
        for part, value in (("median", median), ("mean", sum(ordered) / len(ordered)), ("99th percentile", slow)):
            yield Row(f"{name}: mask over 128k tokens", f"{of}, {part} of {len(ordered):,}", value * 1e6, "µs")


def _masks(dialect: Dialect, matcher: Matcher, tokens: list[int]) -> list[float]:
    """Seconds for the mask before each token.

    Raises:
        DidNotArrive: the engine refuses one of them.
    """
    times = []
    for i, token in enumerate(tokens):
        start = time.perf_counter()
        matcher.mask()
        times.append(time.perf_counter() - start)
        if not matcher.accept(token):
            raise DidNotArrive(f"{dialect.name}: token {i} is refused")
    return times


def _vocabulary() -> Any:
    """A tokenizer whose tokens are as long as real ones. How it cuts does not matter."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    rng = random.Random(_SIZE)
    weights = [1 / (i + 2) for i in range(len(_LETTERS))]
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found = (word for text in (PROSE, SOURCE) for word, _ in words.pre_tokenize_str(text))
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys((*sorted(words.alphabet()), *found)))}
    space = "Ġ"  # a space, as byte-level BPE writes it
    while len(vocabulary) < _SIZE - 1:
        kind = rng.random()
        if kind < 0.05:
            token = "".join(rng.choices(_MARKS, k=rng.choice((2, 3, 4)))).replace(" ", space).replace("\n", "Ċ")
        else:
            token = "".join(rng.choices(_LETTERS, weights, k=rng.randint(2, 9)))
            token = (space if kind < 0.6 else "") + (token.title() if kind > 0.9 else token)
        vocabulary.setdefault(token, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_END])
    return tokenizer


def _fast(tokenizer: Any) -> Any:
    """The same as a tokenizer of transformers."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_END)


_ENGINES: Final[dict[str, tuple[tuple[str, ...], Callable[[Any], Engine]]]] = {
    "llguidance": (
        ("llguidance", "numpy", "tokenizers"),
        lambda tokenizer: Llguidance(tokenizer, eos=tokenizer.token_to_id(_END)),
    ),
    "xgrammar": (("xgrammar", "transformers", "tokenizers"), lambda tokenizer: Xgrammar(_fast(tokenizer))),
}
"""For each engine its name, the packages that it needs, and a function that makes it."""
