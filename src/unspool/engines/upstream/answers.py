"""Reads the answers of upstream servers: the events of their streams as deltas, and their errors.

Each reader takes the JSON of an event, and:

* ``alternatives``: how many alternatives of a token were requested; with ``None``, nothing was;
* ``keep_end``: whether the text contains the token that ends the output; if not, its id and its entry are left out too;
* ``capture``: whether `Delta.sampled` was requested.

It raises `EngineError` if the event is an error, or malformed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec

from ...wire.common import Usage
from ..base import Delta, EngineError, Sampled

_Ids = list[Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]  # of tokens; they are added up, and JavaScript reads them


# -- what the events of several servers share --------------------------------------------------------------------------


class _Part(msgspec.Struct, gc=False):
    """A part of an event: JSON, which contains no cycles."""


class _Event(_Part):
    error: Any = None


class _Version(_Part):
    version: Any = None
    start: _Count = 0
    end: _Count = 0


class _Probability(_Part):
    id: int = -1
    token: str = ""
    logprob: float | None = None
    bytes: list[int] | None = None
    top_logprobs: "list[_Probability]" = []


def _entries(reported: Sequence[_Probability], alternatives: int) -> tuple[dict[str, Any], ...]:
    """The entries of tokens in the form of chat completions."""
    found = []
    for p in reported:
        # llama.cpp leaves out the text of a special token among the alternatives.
        tops = [p if top.id == p.id >= 0 else top for top in p.top_logprobs[:alternatives]]
        found.append({**_entry(p), "top_logprobs": list(map(_entry, tops))})
    return tuple(found)


def _entry(reported: _Probability) -> dict[str, Any]:
    """A token, with its bytes if they are known."""
    token, encoded = reported.token, reported.bytes
    if encoded is None and "\ufffd" not in token:
        encoded = list(token.encode("utf-8", "surrogatepass"))
    return {"token": token, "logprob": _number(reported.logprob), "bytes": encoded}


def _number(logprob: float | None) -> float:
    """A logarithm that JSON can represent."""
    return -9999.0 if logprob is None else max(logprob, -9999.0)


def _versions(reported: Sequence[_Version]) -> tuple[tuple[str, int, int], ...]:
    return tuple((str(one.version), one.start, one.end) for one in reported if one.version is not None)


def _of_each(ids: tuple[int, ...], known: Sequence[float | None]) -> tuple[float | None, ...]:
    """The log-probabilities of tokens; if their numbers differ, nobody knows which is whose."""
    return tuple(known) if len(known) == len(ids) else (None,) * len(ids)


def _without_end(delta: Delta) -> Delta:
    """A last piece without the token that ends the output, which has no text."""
    ids, entries = delta.token_ids, delta.logprobs
    entries = entries[:-1] if len(entries) == len(ids) else entries
    return msgspec.structs.replace(delta, token_ids=ids[:-1], logprobs=entries)


_REASONS: Final = {"length": "length", "content_filter": "content_filter"}


def _reason(word: str | None) -> str | None:
    """A finish reason in OpenAI's terms; any other regular end is ``stop``."""
    if word in ("abort", "error"):
        raise EngineError(f"the engine aborted the generation ({word})", 503)
    return word and _REASONS.get(word, "stop")


# -- OpenAI's completions ----------------------------------------------------------------------------------------------


class _Chosen(_Part):
    """The log-probabilities of tokens, without what is only read if their alternatives are wanted."""

    token_logprobs: list[float | None] = []
    content: list[_Probability] | None = None


class _Logprobs(_Chosen):
    tokens: list[str] = []
    top_logprobs: list[dict[str, float | None] | None] | None = None


_NO_LOGPROBS: Final = _Logprobs()


class _Parsed(_Part):
    """What only servers send that parse their outputs."""

    reasoning: Any = None
    reasoning_content: Any = None
    thinking: Any = None
    tool_calls: Any = None
    function_call: Any = None

    def check(self) -> None:
        if self.reasoning or self.reasoning_content or self.thinking or self.tool_calls or self.function_call:
            text = "the engine parses its output; start it without a reasoning and a tool-call parser"
            raise EngineError(text, 502)


class _Said(_Parsed):
    content: str | None = None


class _CompletionChoice(_Parsed):
    text: str | None = None
    delta: _Said | None = None
    message: _Said | None = None
    token_ids: _Ids | None = None
    prompt_token_ids: _Ids | None = None
    weight_versions: list[_Version] | None = None
    logprobs: _Chosen | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    matched_stop: int | str | None = None


class _ListedChoice(_CompletionChoice):
    logprobs: _Logprobs | None = None


class _PromptDetails(_Part):
    cached_tokens: _Count | None = None


class _CompletionDetails(_Part):
    reasoning_tokens: _Count | None = None


class _ReportedUsage(_Part):
    prompt_tokens: _Count = 0
    completion_tokens: _Count | None = None
    total_tokens: _Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Range(_Part):
    offset: _Count
    length: _Count


class _Completion(_Event):
    choices: Sequence[_CompletionChoice] = []
    usage: _ReportedUsage | None = None
    prompt_token_ids: _Ids | None = None
    mm_placeholders: dict[str, list[_Range]] | None = None


class _ListedCompletion(_Completion):
    choices: Sequence[_ListedChoice] = []


class EventReader(Protocol):
    """Reads an event of a stream. ``alternatives``: how many for each token (``None``: no log-probabilities);
    ``keep_end``: the token that ends the output stays; ``capture``: with the tokens as they were sampled."""

    def __call__(self, data: bytes, alternatives: int | None, keep_end: bool, capture: bool) -> Delta: ...


def read_completion(data: bytes, alternatives: int | None, keep_end: bool, capture: bool) -> Delta:
    """Read an event of ``/v1/completions``, as vLLM, SGLang, FastDeploy, llama-cpp-python and transformers write it, of
    vLLM's ``/inference/v1/generate``, or of its chat completions without parsers.
    """
    event = _decode(data, _Completion if alternatives is None else _ListedCompletion)
    usage = None if event.usage is None else _usage(event.usage)
    prompt_ids = tuple(event.prompt_token_ids or ())
    media = _media(event.mm_placeholders) if event.mm_placeholders else ()
    if not event.choices:
        return Delta(usage=usage, prompt_ids=prompt_ids, media=media)
    choice = event.choices[0]
    ids = tuple(choice.token_ids or ())
    logprobs = choice.logprobs or _NO_LOGPROBS
    entries: tuple[dict[str, Any], ...] = ()
    if alternatives is not None and isinstance(logprobs, _Logprobs):
        entries = _entries(_probabilities(logprobs), alternatives)
    found = Delta(
        text=_text(choice),
        token_ids=ids,
        finish_reason=_reason(choice.finish_reason),
        usage=usage,
        logprobs=entries,
        sampled=_chosen(choice, ids, logprobs) if capture else None,
        prompt_ids=prompt_ids,
        media=media,
    )
    by_text = isinstance(choice.stop_reason, str) or isinstance(choice.matched_stop, str)
    return _without_end(found) if choice.finish_reason == "stop" and not keep_end and not by_text else found


def _media(reported: Mapping[str, Sequence[_Range]]) -> tuple[tuple[str, int, int], ...]:
    return tuple((kind, one.offset, one.length) for kind, ranges in reported.items() for one in ranges)


def _chosen(choice: _CompletionChoice, ids: tuple[int, ...], logprobs: _Chosen) -> Sampled | None:
    """The tokens of a choice, if the engine reports them."""
    if choice.token_ids is None and not choice.weight_versions:
        return None
    return Sampled(
        ids=ids,
        logprobs=_of_each(ids, logprobs.token_logprobs or [p.logprob for p in logprobs.content or ()]),
        prompt_ids=None if choice.prompt_token_ids is None else tuple(choice.prompt_token_ids),
        versions=_versions(choice.weight_versions) if choice.weight_versions else (),
    )


def _text(choice: _CompletionChoice) -> str:
    choice.check()
    said = choice.delta or choice.message
    if said is None:
        if choice.text is None and choice.token_ids and choice.finish_reason is None:
            raise EngineError("the engine sends no text, only tokens; start it without --tokens-only", 502)
        return choice.text or ""
    said.check()
    return said.content or ""


def _usage(reported: _ReportedUsage) -> Usage:
    prompt, completion = reported.prompt_tokens_details, reported.completion_tokens_details
    return Usage(
        prompt_tokens=reported.prompt_tokens,
        completion_tokens=reported.completion_tokens or 0,
        total_tokens=reported.total_tokens,
        cached_tokens=None if prompt is None else prompt.cached_tokens,
        reasoning_tokens=None if completion is None else completion.reasoning_tokens,
    )


def _probabilities(reported: _Logprobs) -> list[_Probability]:
    """The tokens of a choice: a list of them, or parallel lists."""
    if reported.content is not None:
        return reported.content
    logprobs, tops = reported.token_logprobs, reported.top_logprobs or []
    found = []
    for i, token in enumerate(reported.tokens):
        top = (tops[i] if i < len(tops) else None) or {}
        listed = sorted(top.items(), key=lambda item: -_number(item[1]))
        found.append(
            _Probability(
                token=token,
                logprob=logprobs[i] if i < len(logprobs) else None,
                top_logprobs=[_Probability(token=t, logprob=p) for t, p in listed],
            )
        )
    return found


# -- SGLang's own endpoint ---------------------------------------------------------------------------------------------


class _Ended(_Part):
    type: str = "stop"
    matched: int | str | list[Any] | None = None
    message: str = ""
    status_code: int | None = None


_Listed = tuple[float | None, int, str | None]


class _Meta(_Part):
    finish_reason: _Ended | None = None
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    cached_tokens: _Count | None = None
    prompt_token_ids: _Ids | None = None
    output_token_logprobs: list[_Listed] | None = None
    output_top_logprobs: list[list[_Listed] | None] | None = None
    weight_version: Any = None
    weight_versions: list[_Version] | None = None
    routed_experts: str | None = None


class _SglangEvent(_Event):
    text: str = ""
    output_ids: _Ids = []
    prompt_token_ids: _Ids | None = None
    meta_info: _Meta = msgspec.field(default_factory=_Meta)


class SglangReader:
    """Reads the events of SGLang's ``/generate``, which repeat all of the output by default."""

    def __init__(self) -> None:
        self._text = self._ids = self._entries = 0

    def __call__(self, data: bytes, alternatives: int | None, keep_end: bool, capture: bool) -> Delta:
        event = _decode(data, _SglangEvent)
        meta, text, ids = event.meta_info, event.text, tuple(event.output_ids)
        ended = meta.finish_reason
        if ended is not None and ended.type == "abort":
            raise failure(ended.message, ended.status_code)
        entries = () if alternatives is None else _entries(_listed(meta), alternatives)
        known = meta.output_token_logprobs or []
        if len(ids) == meta.completion_tokens:  # all of the output so far
            known = known[self._ids :]
            text, ids, entries = text[self._text :], ids[self._ids :], entries[self._entries :]
        self._text += len(text)
        self._ids += len(ids)
        self._entries += len(entries)
        found = Delta(
            text=text,
            token_ids=ids,
            logprobs=entries,
            finish_reason=_reason(None if ended is None else ended.type),
            usage=Usage(
                prompt_tokens=meta.prompt_tokens,
                completion_tokens=meta.completion_tokens,
                cached_tokens=meta.cached_tokens,
            ),
            prompt_ids=tuple(event.prompt_token_ids or meta.prompt_token_ids or ()),
            sampled=_described(ids, known, meta) if capture else None,
        )
        by_token = ended is not None and ended.type == "stop" and not isinstance(ended.matched, str)
        return _without_end(found) if by_token and not keep_end else found


def _described(ids: tuple[int, ...], known: Sequence[_Listed], meta: _Meta) -> Sampled:
    """The tokens of an event, and in the last event the versions of the weights, and the experts."""
    same = [i for _, i, _ in known] == [*ids]
    versions = _versions(meta.weight_versions or ())
    if not versions and meta.weight_version is not None and meta.finish_reason is not None:
        versions = ((str(meta.weight_version), 0, meta.completion_tokens),)
    experts = meta.routed_experts or "" if meta.finish_reason is not None else ""
    logprobs = _of_each(ids, [p for p, _, _ in known] if same else ())
    return Sampled(ids=ids, logprobs=logprobs, versions=versions, experts=experts)


def _listed(meta: _Meta) -> list[_Probability]:
    tops = meta.output_top_logprobs or []
    return [
        _Probability(
            token=text or "",
            logprob=logprob,
            top_logprobs=[_Probability(token=t or "", logprob=p) for p, _, t in (tops[i : i + 1] or [None])[0] or ()],
        )
        for i, (logprob, _, text) in enumerate(meta.output_token_logprobs or ())
    ]


# -- the own endpoints of llama.cpp and Ollama -------------------------------------------------------------------------


class _Timings(_Part):
    cache_n: _Count | None = None


class _Native(_Event):
    content: str = ""
    tokens: _Ids = []
    stop: bool = False
    stop_type: str = "none"
    tokens_predicted: _Count = 0
    tokens_evaluated: _Count = 0
    timings: _Timings | None = None
    completion_probabilities: list[_Probability] = []


def read_native(data: bytes, alternatives: int | None, keep_end: bool, capture: bool) -> Delta:
    """Read an event of ``/completion``, as llama.cpp's server writes it.

    Its ids are not parsed, because only the last token of a character in several tokens is reported.
    """
    event = _decode(data, _Native)
    reported = event.completion_probabilities
    sampled = None
    if capture:
        known = [p.logprob for p in reported] if [p.id for p in reported] == event.tokens else ()
        ids = tuple(event.tokens)
        sampled = Sampled(ids=ids, logprobs=_of_each(ids, known), count=event.tokens_predicted)
    entries = () if alternatives is None else _entries(reported, alternatives)
    found = Delta(text=event.content, logprobs=entries, sampled=sampled)
    if not event.stop:
        return found
    usage = Usage(
        prompt_tokens=event.tokens_evaluated,
        completion_tokens=event.tokens_predicted,
        cached_tokens=None if event.timings is None else event.timings.cache_n,
    )
    reason = "length" if event.stop_type == "limit" else "stop"
    return msgspec.structs.replace(found, finish_reason=reason, usage=usage)


class _Ollama(_Event):
    response: str = ""
    thinking: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: _Count | None = None
    eval_count: _Count | None = None


def read_ollama(data: bytes, alternatives: int | None, keep_end: bool, capture: bool) -> Delta:
    """Read a line of ``/api/generate``, as Ollama writes it."""
    event = _decode(data, _Ollama)
    if event.thinking:
        raise EngineError("the engine parses its output, although it was told not to; update Ollama", 502)
    if not event.done:
        return Delta(text=event.response)
    usage = Usage(prompt_tokens=event.prompt_eval_count or 0, completion_tokens=event.eval_count or 0)
    return Delta(text=event.response, finish_reason=_reason(event.done_reason or "stop"), usage=usage)


# -- JSON and errors ---------------------------------------------------------------------------------------------------


class Closed(EngineError):
    """A path that the server does not have, or does not open to us."""


_E = TypeVar("_E", bound=_Event)
_BYTES: Final = re.compile(r"(?<=base64,)[\w+/=-]+|[A-Za-z0-9+/=]{120,}")
_SHOWN: Final = 500  # how many characters of an upstream server's message are passed on


def _decode(data: bytes, kind: type[_E]) -> _E:
    try:
        event = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # It may be lone surrogates, which msgspec does not take, or bytes that are not UTF-8.
        try:
            event = msgspec.convert(json.loads(data.decode("utf-8", "replace")), kind)
        except (msgspec.ValidationError, ValueError, RecursionError) as wrong:
            raise EngineError(f"the engine's stream is malformed: {str(wrong)[:_SHOWN]}", 502) from None
    if event.error is not None:
        raise failure(*complaint({"error": event.error}))
    return event


def complaint(body: Any) -> tuple[str, int | None]:
    """The message of an error, without the bytes of media, and its code if any, in any form that servers use."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(inner, str):
        return _BYTES.sub("…", inner)[:_SHOWN], None
    if not isinstance(inner, Mapping):
        return "", None
    message: Any = inner.get("message", inner.get("detail", ""))
    if isinstance(message, list):  # one item for each field, as FastAPI reports them
        message = "; ".join(f"{_path(m.get('loc'))}: {m.get('msg', '')}" for m in message if isinstance(m, Mapping))
    code = inner.get("code")
    return _BYTES.sub("…", str(message))[:_SHOWN], code if isinstance(code, int) and 400 <= code < 600 else None


def _path(loc: Any) -> str:
    return ".".join(map(str, loc)) if isinstance(loc, list) else str(loc)


_CONTEXT: Final = re.compile(
    r"(?:context (?:length|size|window)|model length|max_model_len)[^0-9.]{0,20}([0-9]{1,12})(?![0-9])", re.IGNORECASE
)
"""Where llama.cpp, vLLM, SGLang and FastDeploy tell a client how long the context is."""
_NUMBER: Final = re.compile(r"(?<![0-9])[0-9]{1,12}(?![0-9])")


def failure(message: str, status: int | None, retry_after: int | None = None) -> EngineError:
    """Make the error for an upstream server's error, by its message, and the HTTP status or the code in a stream. A
    client's fault remains one; everything else is the engine's failure, whose message is only for the operator."""
    detail = f": {message}" if message else ""
    if status in (400, 409, 413, 422, 501):
        if most := _CONTEXT.search(message):
            limit = int(most[1])
            prompt = next((n for n in map(int, _NUMBER.findall(message)) if n > limit), None)
            if prompt is not None:  # in words that Claude Code acts on, with the code that Codex acts on
                text = f"prompt is too long: {prompt} tokens > {limit} maximum"
                return EngineError(text, 400, code="context_length_exceeded")
        return EngineError(f"the engine rejected the request{detail}", 400)
    if status in (401, 403):  # the message concerns the operator's key
        return Closed("the engine rejected the API key that the server sends", 503)
    if status in (404, 405):  # of the operator's making too: the path, or the model's name
        return Closed("the engine does not know the path or the model", 502, detail=message)
    if status in (408, 504):
        return EngineError("the engine timed out", 504, detail=message)
    if status in (429, 503):
        return EngineError("the engine is overloaded", status, retry_after, message)
    return EngineError("the engine failed", 502, detail=message)
