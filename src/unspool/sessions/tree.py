"""`Tree`: the calls of one session. A prompt that continues one of them begins with its very tokens."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import accumulate, takewhile
from os.path import commonprefix
from typing import Any, Final

import msgspec

from ..chat_templates.pool import AwaitedRendering
from ..engines.base import engine_name
from ..request.chain import json_bytes, thought
from ..request.chat_request import ChatRequest
from ..request.continuation import (
    Continued,
    PromptHistory,
    Rounds,
    Turns,
    Written,
    repeatable,
    same_thoughts,
    thoughts_of,
    trimmed,
)
from ..request.writing import NoBridge, refusals
from ..rl.rollouts import BROKEN
from .records import Model, Node, Recorded

log = logging.getLogger("unspool.sessions")

_LEADING: Final = ("system", "developer")


class Tree(Turns):
    """Finds the call that a request continues, and makes the prompt that does so.

    Calls are matched by their messages, in every form in which clients send these back; see `Chain`. If only the tokens
    would differ, they are those of the call. Otherwise the prompt is a fork, and says why. The secret for digests is
    the same wherever the session is opened. ``blobs`` are the session's, by their digests; ``keep`` keeps an answer of
    several rounds, by its keys.
    """

    def __init__(
        self,
        model: Model,
        secret: bytes,
        blobs: Mapping[bytes, bytes],
        keep: Callable[[Collection[bytes], Rounds], None],
    ) -> None:
        assert model.prompts is not None, "sessions need a chat template"
        super().__init__(model.settings, model.prompts, model.engine.tokenizer, partial(engine_name, model.engine))
        self._secret = secret
        self._blobs = blobs
        self._keep = keep
        self.nodes: dict[str, Node] = {}
        self._answers: dict[bytes, list[Node]] = {}
        self._asked: set[bytes] = set()
        self._more: dict[bytes, str | Rounds] = {}

    def add(self, record: Recorded) -> Node:
        """Add a call whose parent was added before."""
        node = Node(record, self.nodes[record.parent] if record.follows else None)
        self.nodes[record.id] = node
        self._asked.add(record.asked)
        # What was broken off before its first token is no answer: it must not stand before one without text.
        for digest in record.digests if record.output_ids or record.finish_reason not in BROKEN else ():
            self._answers.setdefault(digest, []).append(node)
        if record.named:
            whole, reasoned = record.output_text, record.reasoned
            self._more[record.named] = reasoned if isinstance(reasoned, str) else whole[slice(*reasoned)]
        return node

    def add_rounds(self, keys: Collection[bytes], rounds: Rounds) -> None:
        """Add an answer of several rounds."""
        self._more |= dict.fromkeys(keys, rounds)

    # -- prompts ---------------------------------------------------------------------------------------------------

    def prompt(self, request: ChatRequest, waiting: AwaitedRendering | None = None) -> Continued:
        """Return the prompt of a request, which continues a call if possible; `BadRequest` if the template refuses the
        request."""
        self._check(request)
        leading = len(list(takewhile(lambda m: m["role"] in _LEADING, request.messages)))
        rest, chains = self._as_written(
            msgspec.structs.replace(request, messages=request.messages[leading:]), across=True
        )
        request = msgspec.structs.replace(request, messages=[*request.messages[:leading], *rest.messages])
        begun = request.begun  # the last message is a part of the next answer
        history = rest.messages[:-1] if begun else rest.messages
        thoughts = thoughts_of(history)
        answers = list(accumulate(m["role"] == "assistant" for m in history))  # before each message
        past = PromptHistory(chains[-1], thoughts, request.caller)
        for at in reversed(repeatable(history, across=True)):
            found = [
                node
                for node in self._answers.get(chains[at + 1].digest(b"turn"), ())
                if same_thoughts(thoughts[: answers[at]], node.thoughts)
            ]
            if not found:
                continue
            node, fork = _closest(found, request)
            known = node.thoughts
            past = past._replace(thoughts=known + thoughts[len(known) :])
            if fork in ("", "template"):
                rewritten = "rewritten" if answers[-1] > answers[at] else ""
                try:
                    if begun:
                        raise NoBridge("the answer has begun")
                    if fork:
                        self._check_before(node, request, leading + at, waiting)
                    return self._behind(node, request, leading + at, past, rewritten, waiting)
                except NoBridge as error:
                    log.info("call %s: the prompt behind it is written by the template: %s", node.record.id, error)
                    fork = fork or rewritten or "template"
            return self._rendered(request, past, waiting, node.record.id, fork)
        # A question that was asked before has another answer here, or none: clients leave out one without text.
        first = next((at for at, m in enumerate(history) if m["role"] == "assistant"), len(history) - 1)
        asked = any(chain.digest(b"asked") in self._asked for chain in chains[1 : first + 1])
        return self._rendered(request, past, waiting, "", "rewritten" if asked else "")

    def _check_before(self, node: Node, request: ChatRequest, at: int, waiting: AwaitedRendering | None) -> None:
        """`NoBridge` if the template writes what is before a call's answer, the message ``at``, differently with the
        request's variables. Switches of thinking mostly change only how an answer begins, or which earlier thoughts are
        left, and some are words after the question."""
        messages = [{k: v for k, v in m.items() if k != "reasoning_content"} for m in request.messages[:at]]
        data = self._blobs[node.record.variables] if node.record.variables else b"{}"
        with refusals():
            texts, openings = [], []
            for template in (msgspec.json.decode(data), request.template):
                asked = msgspec.structs.replace(request, messages=messages, template=template)
                text, opened = (self.prompts.render(asked, waiting, generate=opens) for opens in (False, True))
                texts.append(text)
                openings.append(opened.removeprefix(text))
        begins_alike = not openings[1] or commonprefix(openings).strip()  # noqa: RUF071 - of strings
        if texts[0] != texts[1] or not begins_alike:
            raise NoBridge("other variables write what is before it differently")

    def _behind(
        self,
        node: Node,
        request: ChatRequest,
        at: int,
        past: PromptHistory,
        fork: str,
        waiting: AwaitedRendering | None,
    ) -> Continued:
        """The prompt that begins with a call's tokens; `NoBridge` if the template writes something else."""
        record = node.record
        if self._tokenizer is not None and not record.output_ids:
            raise NoBridge("the tokens of the answer are not known")
        bridge = self.prompts.bridge(request, at, self._settings.dialect.end, waiting)
        before = Continued(node.prompt, node.prompt_ids.tolist() if record.prompt_ids else None, None)
        ids = memoryview(record.output_ids).cast("I").tolist() if record.output_ids else None
        joined = self._joined(before, record.output_text, ids, bridge, past)
        if request.media and self._placed(joined.prompt, request) is None:
            raise NoBridge("an earlier answer spells placeholders of media")
        return joined._replace(parent=record.id, fork=fork, follows=joined.ids is not None)

    def _rendered(
        self,
        request: ChatRequest,
        past: PromptHistory | None,
        waiting: AwaitedRendering | None,
        parent: str = "",
        fork: str = "",
    ) -> Continued:
        """The prompt as the template writes it, in its own tokens."""
        text = self.prompts.render(self._restored(request), waiting)
        ids = None if self._tokenizer is None else self._encode(text, "")
        return Continued(text, ids, past, parent, fork)

    def next_round(
        self,
        request: ChatRequest,
        prompt: Continued,
        written: Written,
        answer: Mapping[str, Any],
        results: Sequence[Mapping[str, Any]],
        waiting: AwaitedRendering | None = None,
    ) -> Continued:
        """See `Turns.next_round`; it continues the call that was recorded for the turn."""
        found = super().next_round(request, prompt, written, answer, results, waiting)
        return found._replace(parent=written.call, fork="", follows=found.ids is not None and bool(written.call))

    # -- what a call is known by -------------------------------------------------------------------------------------

    def remember(self, prompt: Continued, written: Written) -> None:
        """Do nothing, because the session records calls itself."""

    def identify(self, record: Recorded, request: ChatRequest, prompt: Continued, written: Written) -> None:
        """Fill in the digests by which a call will be found."""
        record.system, record.tools, record.variables = context_of(request)
        if prompt.past is None:
            return
        sent = written.message.to_openai()
        chain = prompt.past.chain
        record.asked = chain.digest(b"asked")
        record.digests = sorted({chain.take(form).digest(b"turn") for form in (sent, trimmed(sent))})
        thoughts = (*prompt.past.thoughts, thought(sent))
        before = self.nodes[record.parent].thoughts if record.follows else ()
        record.shared = len(before) if thoughts[: len(before)] == before else 0
        record.thoughts = [*thoughts[record.shared :]]
        key, reasoning = self._by_ids(prompt.past.caller, sent), written.message.reasoning
        if key is not None and reasoning:
            at = record.output_text.find(reasoning)
            record.named, record.reasoned = key, reasoning if at < 0 else (at, at + len(reasoning))

    def _begun(self, request: ChatRequest) -> bytes:
        return b""  # tools and variables are compared one by one, to tell which of them differ

    def _get(self, key: bytes) -> Any:
        return self._more.get(key)

    def _put(self, keys: Collection[bytes], thing: Any, size: int) -> None:
        self._keep(keys, thing)


def _closest(nodes: Sequence[Node], request: ChatRequest) -> tuple[Node, str]:
    """The node that differs least from a request, the latest of several, and why a prompt cannot begin with it."""
    system, tools, variables = context_of(request)

    def differs(node: Node) -> str:
        record = node.record
        if record.tools != tools:
            return "tools"
        if record.system != system:
            return "system"
        return "template" if record.variables != variables else ""

    # With other variables of the template, it may still be gone on with.
    best = min(reversed(nodes), key=lambda node: {"": 0, "template": 1}.get(differs(node), 2))
    return best, differs(best)


def context_of(request: ChatRequest) -> tuple[bytes, bytes, bytes]:
    """Digests of what a prompt depends on besides the conversation: system prompt, tools, the template's variables.

    Tools may come in any order.
    """
    leading = takewhile(lambda m: m["role"] in _LEADING, request.messages)
    tools = [] if request.toolset.kind == "none" else request.tools
    named = sorted((str(tool.get("function", {}).get("name")), tool) for tool in tools) if tools else []
    return (
        _digest("\n".join(_text(message.get("content")).strip() for message in leading)),
        _digest([tool for _, tool in named]),
        _digest(request.template),
    )


def _digest(value: Any) -> bytes:
    return sha256(json_bytes(value)).digest()[:16] if value else b""


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
