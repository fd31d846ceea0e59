"""`infer_dialect`: proves the candidates for a dialect, style by style, and takes the first that is proven."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ..chat_templates.worker import Limits
from ..dialect.file import Dialect
from ..dialect.loader import parse_dialect
from ..dialect.registry import find_base
from ..errors import DialectError
from ..validation import check, check_tokenizer
from .arguments import Keys
from .asking import ask
from .cutting import Cut, Views, behind_user, cut
from .draft import drafts
from .histories import EOS, NAMES
from .proof import NEEDED, Case, Prover
from .rendering import Renderer
from .toml import file_text

NO_CALL = "the template writes no call"
NO_DIALECT = "no dialect fits what the template writes around the parts of a call"
_MOST = 2  # the most candidates per style of history that are proven in full


class Inference(msgspec.Struct, frozen=True):
    """A dialect from a chat template.

    Attributes:
        dialect: the proven dialect, or ``None``.
        draft: the best candidate; ``None`` if there is none.
        proof: the cases that were rendered and read back.
        toml: the text of the candidate's file; empty if there is none.
        seen: what was cut out of the template's text for a call, and where that stopped; empty if it is proven.
    """

    dialect: Dialect | None
    draft: Dialect | None
    proof: list[Case]
    toml: str
    seen: tuple[str, ...] = ()


class _Tried(msgspec.Struct, frozen=True):
    """A candidate and its results so far."""

    dialect: Dialect
    text: str
    prover: Prover
    cases: list[Case]

    def rank(self) -> tuple[int, int, int]:
        """The rank; less is better. It counts failures, cases that do not pass, and cases written differently."""
        return (
            sum(c.result == "fail" for c in self.cases),
            -sum(c.result == "pass" for c in self.cases),
            sum(bool(c.reason) for c in self.cases if c.result == "pass"),
        )


def infer_dialect(
    template: str,
    tokenizer: Any = None,
    *,
    name: str = "inferred",
    special_tokens: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Inference:
    """Infer the dialect that a chat template writes, and prove it.

    Args:
        template: the text of a chat template. It runs in a separate process, within limits.
        tokenizer: the model's tokenizer, if any. With it, the template's text is also read by token ids.
        name: the dialect's name.
        special_tokens: the values of the template's ``bos_token``, ``eos_token`` and so on.
        limits: the template's limits.

    Raises:
        TemplateError: the text is not a template, met a limit, or tried what the sandbox refuses.
        ImportError: jinja2 is not installed (extra ``server``).
        TypeError: an argument has the wrong type; the message names it.
    """
    check("name", name, str, "a dialect's name")
    check_tokenizer(tokenizer)
    with Renderer(template, special_tokens, limits) as renderer:
        return infer_views(ask(renderer), renderer, tokenizer, name)


def infer_views(asked: Iterable[Views], renderer: Renderer, tokenizer: Any, name: str) -> Inference:
    """Infer a dialect from what a template writes, style by style; see `infer_dialect`."""
    best: tuple[int, Inference] | None = None
    why = NO_CALL
    seen: tuple[str, ...] = ()
    for views in asked:
        found = cut(views)
        own = _seen(views, found)
        seen = seen or own
        if NAMES[0] in behind_user(views.whole["one call"]):
            why = NO_DIALECT
        elif "content" in views.errors:
            why = f"the template refuses every turn: {views.errors['content']}"
        tried = [] if found is None else _candidates(Prover(views, found, renderer, tokenizer), name)
        for candidate in sorted(tried, key=_Tried.rank)[:_MOST]:
            proof = candidate.prover.all(candidate.dialect)
            if proven(proof):
                return Inference(candidate.dialect, candidate.dialect, proof, candidate.text)
            failures = sum(c.result == "fail" for c in proof)
            if best is None or failures < best[0]:
                best = failures, Inference(None, candidate.dialect, proof, candidate.text, own)
    if best is None:
        cases = [Case(n, "not written" if why == NO_CALL else "fail", why) for n in NEEDED]
        return Inference(None, None, cases, "", seen)
    return best[1]


_SEEN = 400  # the most characters of a text that `Inference.seen` repeats


def _seen(views: Views, found: Cut | None) -> tuple[str, ...]:
    """What was cut out of a style's call, if the template writes one, and where cutting stopped."""
    written = behind_user(views.whole["one call"])
    if NAMES[0] not in written:
        return ()
    if found is None:
        return (f"written for a call: {written[:_SEEN]!r}", "stopped at: no opening of a turn is in all of its turns")
    turn = found.split(views.whole["one call"])[1]
    lines = (f"opening of a turn: {found.start!r}", f"a call, as cut out: {turn[:_SEEN]!r}")
    stopped = "stopped at: the name and the arguments have no fixed text around"
    return lines if drafts(views, found) else (*lines, stopped)


def proven(proof: list[Case]) -> bool:
    """Whether a proof passes: no case fails, and the cases that every dialect needs pass."""
    results = {c.case: c.result for c in proof}
    return "fail" not in results.values() and all(results.get(n) == "pass" for n in NEEDED)


def _candidates(prover: Prover, name: str) -> Iterator[_Tried]:
    for keys in drafts(prover.views, prover.cut):
        loaded = _load(keys, name)
        if loaded is not None:
            dialect, text = loaded
            yield _Tried(dialect, text, prover, prover.turns(dialect))


def _load(keys: Keys, name: str) -> tuple[Dialect, str] | None:
    """A candidate's dialect and file; ``None`` if its keys make no valid dialect."""
    ends = [e for e in keys.get("end", ()) if e != EOS]
    table = {"name": name, **{k: v for k, v in keys.items() if k != "end"}, **({"end": ends} if ends else {})}
    try:
        text = file_text(table, "Inferred from a chat template; `unspool infer` shows what is proven.")
        return parse_dialect(text, f"{name}.toml", find_base), text
    except DialectError:  # the cut yields no template
        return None
