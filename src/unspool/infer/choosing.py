"""Chooses a dialect that the chat template proves: a shipped one, the checkpoint's own, or an inferred one."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from ..chat_templates.worker import Limits
from ..dialect.file import Dialect
from ..dialect.registry import get_dialect
from ..errors import DialectError, UnknownDialect
from ..events import Stage
from ..validation import check, check_tokenizer
from .asking import ask
from .cutting import Views, behind_user, cut
from .detect import detect_dialect
from .histories import NAMES
from .inference import NO_CALL, infer_views, proven
from .proof import NEEDED, STAGE, Case, Prover
from .rendering import Renderer

MOST: Final = 8  # the most shipped dialects that are tried

Origin = Literal["shipped", "response_template", "inferred"]


class Choice(msgspec.Struct, frozen=True):
    """A dialect that a chat template proves.

    Attributes:
        dialect: the dialect.
        origin: its origin: shipped with unspool (or loaded from an entry point), converted from the checkpoint's
            ``response_template``, or inferred from the template.
        proof: the cases that were rendered and read back.
    """

    dialect: Dialect
    origin: Origin
    proof: list[Case]

    def described(self) -> str:
        """The choice and its reason, in one line."""
        return f"{self.dialect.name} ({self.origin}): {summary(self.proof)}"


def choose_dialect(
    template: str,
    *,
    model: str | None = None,
    response_template: Mapping[str, Any] | None = None,
    tokenizer: Any = None,
    special_tokens: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Choice:
    """Choose the first dialect that the chat template proves.

    The candidates are, in this order: the shipped dialects as `unspool.detect_dialect` sorts them, the
    ``response_template``, and the dialect that `unspool.infer_dialect` finds. If the template writes no call, reading
    its content and reasoning is proof enough. A dialect that reads the template's calls but would write Python in place
    of JSON, or the reverse, comes last, since grammars have what it writes.

    Args:
        template: the text of a chat template. It runs in a separate process, within limits.
        model: the model's name; its own dialect is tried first.
        response_template: the checkpoint's description of how to read answers; see `unspool.infer.exchange`.
        tokenizer: the model's tokenizer. With it, the template's text is also read by token ids.
        special_tokens: the values of the template's ``bos_token``, ``eos_token`` and so on.
        limits: the template's limits.

    Raises:
        UnknownDialect: no dialect is proven; the message names the best candidates and what failed.
        TemplateError: the text is not a template, met a limit, or tried what the sandbox refuses.
        ImportError: jinja2 is not installed (extra ``server``).
    """
    with ProbedTemplate(template, special_tokens, limits) as asked:
        return asked.choose(model, response_template, tokenizer)


def prove_dialect(
    dialect: Dialect,
    template: str,
    tokenizer: Any = None,
    *,
    special_tokens: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> list[Case]:
    """Prove a dialect against a chat template: read back what the template renders, case by case.

    Args:
        dialect: the dialect to prove.
        template, tokenizer, special_tokens, limits: see `unspool.infer_dialect`.

    Returns:
        The proof; `holds` says whether it passes.

    Raises:
        TemplateError: the text is not a template, met a limit, or tried what the sandbox refuses.
        ImportError: jinja2 is not installed (extra ``server``).
    """
    with ProbedTemplate(template, special_tokens, limits) as asked:
        return asked.prove(dialect, tokenizer)


class ProbedTemplate(Renderer):
    """A chat template and what it writes. Arguments and errors are those of `unspool.infer_dialect`."""

    @cached_property
    def _views(self) -> list[Views]:
        return list(ask(self))

    def writes_tools(self, *, declared: bool = False) -> bool:
        """Whether the template writes tools, or calls of them; with ``declared``, only if it writes the tools before
        they are called. Others drop them without a word."""
        return any(
            NAMES[0] in text
            for views in self._views
            for text in ([views.followed] if declared else [views.whole["one call"], views.resumed])
        )

    def choose(
        self, model: str | None = None, response_template: Mapping[str, Any] | None = None, tokenizer: Any = None
    ) -> Choice:
        check("model", model, (str, type(None)), "a model's name or None")
        check("response_template", response_template, (Mapping, type(None)), "an object or None")
        check_tokenizer(tokenizer)
        failed: list[str] = []
        other: Choice | None = None
        for dialect, origin in _candidates(self.template, model, response_template, failed):
            choice = Choice(dialect, origin, prove_views(dialect, self._views, self, tokenizer))
            if not holds(choice.proof, self._views):
                failed.append(f"{dialect.name} ({origin}): {first_failure(choice.proof)}")
            elif _writes_alike(dialect, self._views):
                return choice
            else:
                other = other or choice
        found = infer_views(self._views, self, tokenizer, "inferred")
        if found.dialect is not None:
            return Choice(found.dialect, "inferred", found.proof)
        if other is not None:
            return other
        failed.append(f"inferred: {first_failure(found.proof)}")
        raise UnknownDialect("no dialect is proven by the chat template; " + "; ".join(failed))

    def prove(self, dialect: Dialect, tokenizer: Any = None) -> list[Case]:
        check("dialect", dialect, Dialect, "a Dialect, such as get_dialect(name)")
        check_tokenizer(tokenizer)
        return prove_views(dialect, self._views, self, tokenizer)


def holds(proof: list[Case], views: list[Views] | None = None) -> bool:
    """Whether a proof passes. If the template writes no call, content and reasoning are enough."""
    if proven(proof):
        return True
    results = {c.case: c.result for c in proof}
    called = any(NAMES[0] in behind_user(view.whole["one call"]) for view in views or ())
    silent = results.get("one call") == "not written" and not called
    return silent and "fail" not in results.values() and results.get("content") == "pass"


def thinks(proof: list[Case]) -> bool:
    """Whether a model may think where its prompt does not begin a thought, as far as its chat template tells.

    It does not if the template begins the thought itself as soon as thinking is switched on.
    """
    stages = {c.case: c.reason for c in proof if c.result == "pass" and c.case.startswith(STAGE)}
    opened = [reason == Stage.REASONING.value for case, reason in stages.items() if case.endswith("=True")]
    return not (opened and all(opened) and stages.get(STAGE) == Stage.CONTENT.value)


def _writes_alike(dialect: Dialect, views: list[Views]) -> bool:
    """Whether a dialect writes calls in Python if the template does, and only then."""
    calls = [text for view in views if NAMES[0] in (text := behind_user(view.whole["one call"]))]
    python = dialect.codec.name == "python" and dialect.call[0].object is None
    return not calls or not dialect.call or python == any(f"{NAMES[0]}(" in text for text in calls)


def first_failure(proof: list[Case]) -> str:
    """The failed case that matters most, and its reason."""
    needed = [c for c in proof if c.case in NEEDED and c.result != "pass"]
    failed = [c for c in proof if c.result == "fail"]
    case = next(iter([c for c in needed if c.result == "fail"] or failed or needed), None)
    if case is None:
        return "nothing fails"
    reason = case.reason.partition("; the template writes")[0]
    return f"{case.case}: {case.result}: {reason}"[:300]


def summary(proof: list[Case]) -> str:
    passed = sum(c.result == "pass" for c in proof)
    if not holds(proof):
        failed = sum(c.result == "fail" for c in proof)
        return f"not proven by the chat template: {failed} of {len(proof)} cases fail; {first_failure(proof)}"
    if not proven(proof):
        return "the chat template writes no call, so content alone is proven"
    return f"proven by the chat template: {passed} cases pass"  # the others, it does not write


def _candidates(
    template: str, model: str | None, response_template: Mapping[str, Any] | None, failed: list[str]
) -> Iterator[tuple[Dialect, Origin]]:
    ranked = detect_dialect(model=model, chat_template=template)
    for candidate in ranked[:MOST]:
        yield get_dialect(candidate.dialect), "shipped"
    if response_template is not None:
        from .exchange import from_response_template

        try:
            converted = from_response_template(response_template)
        except DialectError as error:
            failed.append(f"response_template: {error}")
        else:
            yield converted.dialect, "response_template"


def prove_views(dialect: Dialect, views: list[Views], renderer: Renderer, tokenizer: Any = None) -> list[Case]:
    """The best of the proofs in each style of history; see `prove_dialect`."""
    best: list[Case] = [Case(n, "not written", NO_CALL) for n in NEEDED]
    fewest: tuple[int, int] | None = None
    for view in views:
        found = cut(view)
        if found is None:
            continue
        prover = Prover(view, found, renderer, tokenizer, exact=False)
        proof = prover.turns(dialect)
        hopeless = any(c.case in NEEDED and c.result == "fail" for c in proof)
        if hopeless and fewest is not None:
            continue
        if not hopeless:
            proof = prover.all(dialect)
        if holds(proof, views):
            return proof
        count = sum(c.result == "fail" for c in proof), -sum(c.result == "pass" for c in proof)
        if fewest is None or count < fewest:
            fewest, best = count, proof
    return best
