"""Reads the answers of upstream servers: the events of their streams as deltas, and their errors."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from ...wire.common import Usage
from ..base import Delta, EngineError, Sampled

__all__ = [
    "Closed",
    "SglangReader",
    "complaint",
    "failure",
    "read_completion",
    "read_generated",
    "read_native",
    "read_ollama",
]

_Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


# -- the events of OpenAI's completions --------------------------------------------------------------------------------


class _Logprobs(msgspec.Struct):
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float | None] | None] | None = None


class _Version(msgspec.Struct):
    version: Any = None
    start: int = 0
    end: int = 0


class _Choice(msgspec.Struct):
    text: str | None = None
    token_ids: list[_Id] | None = None
    prompt_token_ids: list[_Id] | None = None
    weight_versions: list[_Version] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    matched_stop: int | str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


def read_completion(data: bytes, alternatives: int | None = 0, keep_end: bool = False, capture: bool = False) -> Delta:
    """Read an event of ``/v1/completions``, as vLLM, SGLang, FastDeploy, llama-cpp-python and transformers write it.

    Args:
        data: the event's JSON.
        alternatives: how many alternatives of a token were requested; servers report more. With ``None``, nothing
            about the tokens was.
        keep_end: whether the text contains the token that ends the output; if not, its id and its entry in
            ``logprobs`` are left out too.
        capture: whether `Delta.sampled` was requested.

    Raises:
        EngineError: it is an error, or malformed.
    """
    event = _decode(data, _Completion)
    if event.error is not None:
        raise failure(*complaint({"error": event.error}))
    usage = None if event.usage is None else _usage(event.usage)
    if not event.choices:
        return Delta(usage=usage)
    choice = event.choices[0]
    ids = tuple(choice.token_ids or ())
    sampled = None
    if capture and (choice.token_ids is not None or choice.weight_versions):
        sampled = Sampled(
            ids=ids,
            logprobs=_aligned(ids, () if choice.logprobs is None else choice.logprobs.token_logprobs),
            prompt_ids=None if choice.prompt_token_ids is None else tuple(choice.prompt_token_ids),
            versions=_versions(choice.weight_versions),
        )
    logprobs = () if choice.logprobs is None or alternatives is None else _logprobs(choice.logprobs, alternatives)
    by_text = isinstance(choice.stop_reason, str) or isinstance(choice.matched_stop, str)
    if choice.finish_reason == "stop" and not keep_end and not by_text:  # the last token has no text
        if len(logprobs) == len(ids):
            logprobs = logprobs[:-1]
        ids = ids[:-1]
    reason = _reason(choice.finish_reason)
    return Delta(
        text=choice.text or "", token_ids=ids, logprobs=logprobs, finish_reason=reason, usage=usage, sampled=sampled
    )


def _aligned(ids: Sequence[int], logprobs: Sequence[float | None]) -> tuple[float | None, ...]:
    """One log-probability for each token; none if their numbers differ, since nobody knows then which is whose."""
    return tuple(logprobs) if len(logprobs) == len(ids) else (None,) * len(ids)


def _versions(reported: Sequence[_Version] | None) -> tuple[tuple[str, int, int], ...]:
    return tuple((str(one.version), one.start, one.end) for one in reported or () if one.version is not None)


def _usage(reported: _Usage) -> Usage:
    details = reported.completion_tokens_details
    return Usage(
        prompt_tokens=reported.prompt_tokens,
        completion_tokens=reported.completion_tokens or 0,
        total_tokens=reported.total_tokens,
        cached_tokens=None if reported.prompt_tokens_details is None else reported.prompt_tokens_details.cached_tokens,
        reasoning_tokens=None if details is None else details.reasoning_tokens,
    )


def _logprobs(reported: _Logprobs, alternatives: int) -> tuple[dict[str, Any], ...]:
    """The entries of the tokens in the form of chat completions."""
    tops = reported.top_logprobs or []
    found = []
    for i, token in enumerate(reported.tokens):
        top = tops[i] if i < len(tops) else None
        logprob = reported.token_logprobs[i] if i < len(reported.token_logprobs) else None
        listed = sorted((top or {}).items(), key=lambda item: -_number(item[1]))[:alternatives]
        found.append({**_entry(token, logprob), "top_logprobs": [_entry(t, p) for t, p in listed]})
    return tuple(found)


def _entry(token: str, logprob: float | None, encoded: list[int] | None = None) -> dict[str, Any]:
    """A token, with its bytes if they are known."""
    if encoded is None and "\ufffd" not in token:
        encoded = list(token.encode("utf-8", "surrogatepass"))
    return {"token": token, "logprob": _number(logprob), "bytes": encoded}


def _number(logprob: float | None) -> float:
    """A logarithm that JSON can represent."""
    return -9999.0 if logprob is None else max(logprob, -9999.0)


_REASONS: Final = {"length": "length", "content_filter": "content_filter"}


def _reason(word: str | None) -> str | None:
    """A finish reason in OpenAI's terms; any other regular end is ``stop``.

    Raises:
        EngineError: the generation was aborted, or failed.
    """
    if word in ("abort", "error"):
        raise EngineError(f"the engine aborted the generation ({word})", 503)
    return word and _REASONS.get(word, "stop")


# -- the events of endpoints for prompts with media --------------------------------------------------------------------


class _Entries(msgspec.Struct):
    content: "list[_Probability] | None" = None


class _Said(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None


class _Range(msgspec.Struct):
    offset: int
    length: int


_Ids = list[_Id]


class _Generation(msgspec.Struct):
    text: str | None = None
    delta: _Said | None = None
    token_ids: _Ids | None = None
    weight_versions: list[_Version] | None = None
    logprobs: _Entries | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _Generated(msgspec.Struct):
    choices: list[_Generation] = []
    usage: _Usage | None = None
    prompt_token_ids: _Ids | None = None
    mm_placeholders: dict[str, list[_Range]] | None = None
    error: Any = None


def read_generated(data: bytes, alternatives: int | None = 0, keep_end: bool = False, capture: bool = False) -> Delta:
    """Read an event of vLLM's ``/inference/v1/generate``, or of its chat completions without parsers; the arguments are
    as for `read_completion`.

    Raises:
        EngineError: it is an error, malformed, or parsed already.
    """
    event = _decode(data, _Generated)
    if event.error is not None:
        raise failure(*complaint({"error": event.error}))
    found = Delta(
        usage=None if event.usage is None else _usage(event.usage),
        prompt_ids=tuple(event.prompt_token_ids or ()),
        media=tuple(
            (kind, one.offset, one.length) for kind, ranges in (event.mm_placeholders or {}).items() for one in ranges
        ),
    )
    if not event.choices:
        return found
    choice = event.choices[0]
    ids, text = tuple(choice.token_ids or ()), _text_of(choice)
    entries = () if choice.logprobs is None or alternatives is None else _entries(choice.logprobs, alternatives)
    sampled = _sampled_of(choice, ids) if capture else None
    if choice.finish_reason == "stop" and not keep_end and not isinstance(choice.stop_reason, str):
        if len(entries) == len(ids):
            entries = entries[:-1]
        ids = ids[:-1]
    return msgspec.structs.replace(
        found,
        text=text or "",
        token_ids=ids,
        logprobs=entries,
        finish_reason=_reason(choice.finish_reason),
        sampled=sampled,
    )


def _text_of(choice: _Generation) -> str | None:
    """The text of an event, in either form.

    Raises:
        EngineError: it is parsed already, or there are only tokens.
    """
    said = choice.delta
    if said is None:
        if choice.text is None and choice.token_ids and choice.finish_reason is None:
            raise EngineError("the engine sends no text, only tokens; start it without --tokens-only", 502)
        return choice.text
    if said.reasoning or said.reasoning_content or said.tool_calls:
        raise EngineError("the engine parses its output; start it without a reasoning and a tool-call parser", 502)
    return said.content


def _sampled_of(choice: _Generation, ids: tuple[int, ...]) -> Sampled:
    """The sampled tokens of an event, with their log-probabilities."""
    content = () if choice.logprobs is None else choice.logprobs.content or ()
    logprobs = _aligned(ids, [p.logprob for p in content])
    return Sampled(ids=ids, logprobs=logprobs, versions=_versions(choice.weight_versions))


def _entries(reported: _Entries, alternatives: int) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            **_entry(p.token, p.logprob, p.bytes),
            "top_logprobs": [_entry(t.token, t.logprob, t.bytes) for t in p.top_logprobs[:alternatives]],
        }
        for p in reported.content or ()
    )


class _Ended(msgspec.Struct):
    type: str = "stop"
    matched: int | str | list[Any] | None = None
    message: str = ""
    status_code: int | None = None


_Listed = tuple[float | None, int, str | None]


class _Meta(msgspec.Struct):
    finish_reason: _Ended | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    prompt_token_ids: _Ids | None = None
    output_token_logprobs: list[_Listed] | None = None
    output_top_logprobs: list[list[_Listed] | None] | None = None
    weight_version: Any = None
    weight_versions: list[_Version] | None = None
    routed_experts: str | None = None


class _SglangEvent(msgspec.Struct):
    text: str = ""
    output_ids: _Ids = []
    prompt_token_ids: _Ids | None = None
    meta_info: _Meta = msgspec.field(default_factory=_Meta)
    error: Any = None


class SglangReader:
    """Reads the events of SGLang's ``/generate``, each of which repeats all of the output, unless the server is set up
    to send only what is new."""

    def __init__(self) -> None:
        self._text = self._ids = self._entries = 0

    def __call__(
        self, data: bytes, alternatives: int | None = 0, keep_end: bool = False, capture: bool = False
    ) -> Delta:
        """Read an event; see `read_completion`."""
        event = _decode(data, _SglangEvent)
        if event.error is not None:
            raise failure(*complaint({"error": event.error}))
        meta, text, ids = event.meta_info, event.text, tuple(event.output_ids)
        ended = meta.finish_reason
        if ended is not None and ended.type == "abort":
            raise failure(ended.message, ended.status_code)
        entries = () if alternatives is None else _listed(meta, alternatives)
        known = meta.output_token_logprobs or []
        if len(ids) == meta.completion_tokens:  # all of the output so far
            known = known[self._ids :]
            text, ids, entries = text[self._text :], ids[self._ids :], entries[self._entries :]
        self._text, self._ids, self._entries = (
            self._text + len(text),
            self._ids + len(ids),
            self._entries + len(entries),
        )
        reason = None if ended is None else ended.type
        sampled = _sampled(ids, known, meta) if capture else None
        if reason == "stop" and not keep_end and ended is not None and not isinstance(ended.matched, str):
            if len(entries) == len(ids):
                entries = entries[:-1]
            ids = ids[:-1]
        usage = Usage(
            prompt_tokens=meta.prompt_tokens,
            completion_tokens=meta.completion_tokens,
            cached_tokens=meta.cached_tokens,
        )
        return Delta(
            text=text,
            token_ids=ids,
            logprobs=entries,
            finish_reason=_reason(reason),
            usage=usage,
            prompt_ids=tuple(event.prompt_token_ids or meta.prompt_token_ids or ()),
            sampled=sampled,
        )


def _sampled(ids: tuple[int, ...], known: Sequence[_Listed], meta: _Meta) -> Sampled:
    """The tokens of an event of SGLang's, and in the last event the versions of the weights, and the experts."""
    same = [i for _, i, _ in known] == [*ids]
    versions = _versions(meta.weight_versions)
    if not versions and meta.weight_version is not None and meta.finish_reason is not None:
        versions = ((str(meta.weight_version), 0, meta.completion_tokens),)
    return Sampled(
        ids=ids,
        logprobs=_aligned(ids, [p for p, _, _ in known] if same else ()),
        versions=versions,
        experts=meta.routed_experts or "" if meta.finish_reason is not None else "",
    )


def _listed(meta: _Meta, alternatives: int) -> tuple[dict[str, Any], ...]:
    tops = meta.output_top_logprobs or []
    return tuple(
        {
            **_entry(text or "", logprob),
            "top_logprobs": [_entry(t or "", p) for p, _, t in (tops[i] if i < len(tops) else None) or ()][
                :alternatives
            ],
        }
        for i, (logprob, _, text) in enumerate(meta.output_token_logprobs or ())
    )


# -- the events of llama.cpp's own endpoint ----------------------------------------------------------------------------


class _Probability(msgspec.Struct):
    id: int = -1
    token: str = ""
    logprob: float | None = None
    bytes: list[int] | None = None
    top_logprobs: "list[_Probability]" = []


class _Timings(msgspec.Struct):
    cache_n: int | None = None


class _Native(msgspec.Struct):
    content: str = ""
    tokens: list[_Id] = []
    stop: bool = False
    stop_type: str = "none"
    tokens_predicted: int = 0
    tokens_evaluated: int = 0
    timings: _Timings | None = None
    completion_probabilities: list[_Probability] = []
    error: Any = None


def read_native(data: bytes, alternatives: int | None = 0, keep_end: bool = False, capture: bool = False) -> Delta:
    """Read an event of ``/completion``, as llama.cpp's server writes it; the arguments are as for `read_completion`.

    Its ids are not parsed, because only the last token of a character in several tokens is reported.

    Raises:
        EngineError: it is an error, or malformed.
    """
    event = _decode(data, _Native)
    if event.error is not None:
        raise failure(*complaint({"error": event.error}))
    logprobs = tuple(
        {
            **_entry(p.token, p.logprob, p.bytes),
            "top_logprobs": [_entry(t.token, t.logprob, t.bytes) for t in p.top_logprobs[:alternatives]],
        }
        for p in (() if alternatives is None else event.completion_probabilities)
    )
    sampled = None
    if capture:
        same = [p.id for p in event.completion_probabilities] == event.tokens
        known = [p.logprob for p in event.completion_probabilities] if same else []
        sampled = Sampled(ids=tuple(event.tokens), logprobs=_aligned(event.tokens, known), count=event.tokens_predicted)
    if not event.stop:
        return Delta(text=event.content, logprobs=logprobs, sampled=sampled)
    usage = Usage(
        prompt_tokens=event.tokens_evaluated,
        completion_tokens=event.tokens_predicted,
        cached_tokens=None if event.timings is None else event.timings.cache_n,
    )
    reason = "length" if event.stop_type == "limit" else "stop"
    return Delta(text=event.content, logprobs=logprobs, finish_reason=reason, usage=usage, sampled=sampled)


# -- the lines of Ollama's own endpoint --------------------------------------------------------------------------------


class _Ollama(msgspec.Struct):
    response: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


def read_ollama(data: bytes, alternatives: int = 0, keep_end: bool = False, capture: bool = False) -> Delta:
    """Read a line of ``/api/generate``, as Ollama writes it; the arguments are as for `read_completion`.

    Raises:
        EngineError: it is an error, or malformed.
    """
    event = _decode(data, _Ollama)
    if event.error is not None:
        raise failure(*complaint({"error": event.error}))
    if not event.done:
        return Delta(text=event.response)
    usage = Usage(prompt_tokens=event.prompt_eval_count or 0, completion_tokens=event.eval_count or 0)
    return Delta(text=event.response, finish_reason=_reason(event.done_reason or "stop"), usage=usage)


class Closed(EngineError):
    """A path that the server does not have, or does not open to us."""


# -- JSON and errors ---------------------------------------------------------------------------------------------------

_T = TypeVar("_T")
_BYTES: Final = re.compile(r"(?<=base64,)[\w+/=-]+|[A-Za-z0-9+/=]{120,}")
_SHOWN: Final = 500
"""How many characters of an upstream server's message are passed on."""


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # it may be lone surrogates, which msgspec does not take, or bytes that are not UTF-8
    try:
        return msgspec.convert(json.loads(data.decode("utf-8", "replace")), kind)
    except (msgspec.ValidationError, ValueError, RecursionError) as wrong:
        raise EngineError(f"the engine's stream is malformed: {str(wrong)[:_SHOWN]}", 502) from None


def complaint(body: Any) -> tuple[str, int | None]:
    """The message of an error, without the bytes of media, and its code if there is one, in any form that servers
    use."""
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
    """Make the error for an upstream server's error. A client's fault remains one; everything else is the engine's
    failure, whose message is only for the operator.

    Args:
        message: the server's message.
        status: the HTTP status, or the code in a stream.
        retry_after: seconds, by its header.
    """
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
