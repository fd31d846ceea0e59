"""`Upstream`: an engine that sends requests to inference servers over HTTP (the extra ``server``)."""

import contextlib
import logging
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...grammar import bounds
from ...wire.common import Usage
from ..base import Delta, EngineError, Request, Sampled, not_taken
from ..media import MEDIA
from ..threads import Awaited, Threads
from .answers import Closed
from .client import MAX_ANSWER, Client, Unavailable
from .kinds import KINDS, Kind, Served, body, detect
from .media import CHAT, SGLANG, WITH_MEDIA, ranges, with_marker
from .pool import Backend, Pool

__all__ = ["Upstream", "base_urls"]

log = logging.getLogger("unspool.engines")

_UNREADY = (
    "takes no rendered prompt with media (--enable-scale-out), so vLLM renders these prompts itself: earlier turns are "
    "not repeated as the model wrote them, and texts that spell special tokens are not broken up"
)
_TOKEN = 16
"""How many bytes the id of a token takes in an answer, at most; a token has a character or more."""


class Upstream:
    """Generates with external servers: vLLM, SGLang, llama.cpp, Ollama, FastDeploy, ``transformers serve``.

    The rendered prompt goes to the raw completion endpoint of a server, which must not parse its output;
    `unspool.engines.upstream.kinds` describes each kind. The least busy of several servers is used, and the next one
    if it is down, as long as nothing was generated. What a consumer does not pull is not read from the server, which
    then waits.

    Args:
        urls: base URLs of servers of one model, with or without ``/v1``.
        kind: one of `KINDS`; ``None``: detected from the server.
        model: the servers' name for the model; ``None``: the first one that they list.
        api_key: sent as a bearer token; neither logged nor passed on.
        tokenizer: the tokenizer of the servers' token ids; see `unspool.engines.Engine`.
        markers: special tokens that the text must show, for servers that hide those that are not listed (llama.cpp).
        keep_end: whether the token that ends an output is part of it, if a server can send it. Dialects whose calls
            nothing else closes need it; others may read it as content.
        budgets: whether the servers are set up for budgets of reasoning, if their kind refuses these by default.
        connect_timeout: seconds for a connection, and for the answer to a request such as ``/health``.
        first_timeout: seconds up to the first piece, including the time in the server's queue.
        next_timeout: seconds between two pieces; an event without anything of the output is none.
        check_interval: seconds between two checks of each server.

    Raises:
        ValueError: an argument is wrong; the message begins with its name.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        kind: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        tokenizer: Any = None,
        markers: Sequence[str] = (),
        keep_end: bool = False,
        budgets: bool = False,
        connect_timeout: float = 10.0,
        first_timeout: float = 600.0,
        next_timeout: float = 60.0,
        check_interval: float = 10.0,
    ) -> None:
        bases = base_urls([urls] if isinstance(urls, str) else urls, kind)
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key):
            raise ValueError("api_key: must be printable ASCII without white space around it")
        times = {
            "connect_timeout": connect_timeout,
            "first_timeout": first_timeout,
            "next_timeout": next_timeout,
            "check_interval": check_interval,
        }
        for name, seconds in times.items():
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name}: {seconds} is not a positive number of seconds")
        self._model = model
        self._tokenizer = tokenizer
        self._markers = tuple(markers)
        self._keep_end = keep_end
        self._budgets = budgets
        self._first = first_timeout
        self._next = next_timeout
        self._client = Client(api_key, connect_timeout)
        self._threads = Threads(2, "upstream")
        given = None if kind is None else KINDS[kind]
        self._busy: set[str] = set()  # ids of running requests
        self._pool = Pool([Backend(base, given) for base in bases], self._probe, check_interval)

    @property
    def tokenizer(self) -> Any:
        """The given tokenizer."""
        return self._tokenizer

    media = MEDIA
    """Whether a server takes them is known when it is asked."""

    @property
    def context(self) -> int | None:
        """The largest number of tokens of a prompt and its output: the smallest that any server last reported."""
        contexts = [
            b.served.context for b in self._pool.backends if b.served is not None and b.served.context is not None
        ]
        return min(contexts, default=None)

    echoes = True
    """Whether log-probabilities of prompts are reported: by some kinds; others refuse them."""

    @property
    def provider(self) -> str | None:
        """The kind of the servers; ``None`` if no server was asked yet."""
        return next((b.kind.name for b in self._pool.backends if b.kind is not None), None)

    # -- the interface of engines ----------------------------------------------------------------------------------

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Generate one output; the connection is closed as soon as the iterator is.

        Raises:
            EngineError: see `unspool.engines.Engine`.
        """
        self._pool.start()
        request.needed_prompt()
        tried: set[Backend] = set()
        fault: Unavailable | None = None
        while True:
            with self._pool.turn(tried) as backend:
                if backend is None:
                    raise fault or Unavailable("no engine can be reached", 503)
                tried.add(backend)
                begun = False
                stream = self._attempt(backend, request)
                try:
                    async for delta in stream:
                        begun = True
                        yield delta
                    return
                except EngineError as error:
                    vllm = backend.kind is not None and backend.kind.name == CHAT.name
                    if isinstance(error, Closed) and request.media and vllm and not backend.unready:
                        tried.discard(backend)
                        backend.unready = True
                        log.warning("engine %s: %s", backend.url, _UNREADY)
                        continue
                    if error.detail:
                        detail = self._client.hidden(error.detail)
                        log.warning("%s: engine %s: %s: %s", request.id, backend.url, error, detail)
                    if not isinstance(error, Unavailable):
                        raise
                    if begun or len(self._pool.backends) == 1:
                        raise
                    fault = error
                finally:
                    await stream.aclose()

    async def health(self) -> None:
        """Return if a server is up now; an answer within the last second counts.

        Raises:
            EngineError: no server is up, with the reasons; or the engine is closed.
        """
        self._pool.start()
        await self._pool.health()

    async def close(self) -> None:
        """Stop the checks and close every connection; running outputs fail."""
        self._threads.close()
        await self._pool.stop()
        await self._client.close()

    # -- one server ------------------------------------------------------------------------------------------------

    async def _attempt(self, backend: Backend, request: Request) -> AsyncGenerator[Delta, None]:
        deadline = time.monotonic() + self._first
        kind, asked = await self._prepared(backend, request)
        capture = request.capture and kind.capture is not None
        read = partial(
            kind.read() if isinstance(kind.read, type) else kind.read,
            alternatives=request.sampling.logprobs,
            keep_end=self._keep_end or request.echo,
            capture=capture,
        )
        usage: Usage | None = None
        reason: str | None = None
        rest: Sampled | None = None
        echoes = request.echo
        async with (
            self._headers(request) as headers,
            self._client.open(backend, kind.generate, asked, deadline, headers) as response,
        ):
            backend.back()
            if not response.content_type.startswith(kind.stream):
                raise EngineError(f"the engine answers {response.content_type!r} instead of a stream", 502)
            events = kind.events()
            done = False
            # A consumer that stops early should still know the prompt's length.
            sent = asked.get("prompt", asked.get("input_ids"))
            known = Usage(prompt_tokens=len(sent)) if isinstance(sent, list) else None
            while not done:
                chunk = await self._client.read(backend, response, deadline)
                if not chunk:
                    break
                try:
                    found = events.feed(chunk)
                except ValueError as wrong:
                    raise EngineError(f"the engine's stream is malformed: {wrong}", 502) from None
                for data in found:
                    if data == b"[DONE]":
                        done = True
                        break
                    delta = read(data)
                    if echoes and delta.logprobs:
                        echoes = False
                        delta = _without_prompt(delta, asked["prompt"], request.max_tokens)
                    if delta.prompt_ids and request.media:
                        delta = self._compared(backend, request, asked, delta)
                    usage = delta.usage or usage
                    reason = delta.finish_reason or reason
                    if delta.sampled is not None and not delta.sampled.ids:
                        rest = delta.sampled
                    elif delta.sampled is not None:
                        delta, sent = _with_prompt(delta, delta.sampled, sent), None
                    if delta.text or delta.token_ids or delta.logprobs or delta.prompt_ids or _tokens_of(delta):
                        counts = delta.usage
                        if counts is None and known is not None:
                            counts = msgspec.structs.replace(known, completion_tokens=len(delta.token_ids) or 1)
                        known = None
                        # The reason is sent last, when the stream has ended.
                        yield msgspec.structs.replace(delta, finish_reason=None, usage=counts)
                        # An event with nothing of the output is no progress; nor does the time count in which nobody
                        # pulled.
                        deadline = time.monotonic() + self._next
            if reason is None:
                raise Unavailable("the engine ended its stream early", 502)
            yield Delta(finish_reason=reason, usage=usage, sampled=rest)

    @contextlib.asynccontextmanager
    async def _headers(self, request: Request) -> AsyncIterator[dict[str, str]]:
        """The headers of the trace, and the request's id for a server: the client's, or else the response's.

        Servers may refuse an id that is still in use, so further choices of a request, and further requests with the
        same id, get a suffix.
        """
        id = request.client_id or request.id
        if id in self._busy:
            id = f"{id}-{secrets.token_hex(4)}"
        self._busy.add(id)
        try:
            yield {**request.trace, "X-Request-Id": id}
        finally:
            self._busy.discard(id)

    async def _prepared(self, backend: Backend, request: Request) -> tuple[Kind, dict[str, Any]]:
        """The kind of a backend, and the request in its form."""
        kind = await self._kind(backend)
        if request.media or (request.capture and kind.name == SGLANG):
            kind = _with_more(kind, backend, request)
        prompt: Any = request.needed_prompt()
        if request.prompt_ids is not None and kind.ids:
            prompt = request.prompt_ids
        if not isinstance(prompt, str):
            prompt = list(prompt)
            if not kind.ids:
                raise EngineError(f"prompt: the engine ({kind.name}) takes text, not token ids", 400)
        model, context = self._model, None
        if kind.listed and (model is None or isinstance(kind.endless, str)):
            served = await self._served(backend)
            model, context = model or served.model, served.context
        if isinstance(prompt, str) and kind.tokenize is not None:
            prompt = await self._tokens(backend, kind, prompt, model, special=request.add_special)
        if isinstance(prompt, list) and request.media and kind.tokenize is not None:
            await self._count_placeholders(backend, kind, request, prompt, model)
        described = await self._described(backend, kind, request, model)
        if kind.marks:
            question = {"content": "", "add_special": True}
            begun = await self._client.ask(backend, "/tokenize", question)
            adds_bos = bool(isinstance(begun, dict) and begun.get("tokens"))
            prompt = with_marker(request, described, adds_bos)
        make = partial(
            body,
            kind,
            request,
            prompt,
            model=model,
            context=context,
            keep_end=self._keep_end,
            markers=self._markers,
            budgets=self._budgets,
        )
        if request.constraint is None:
            return kind, make()
        return kind, await self._threads.run(lambda awaited: _awaited(awaited, make))

    async def _tokens(
        self, backend: Backend, kind: Kind, text: str, model: str | None, *, special: bool = False
    ) -> list[int]:
        """The tokens of a text; ``special``: with those that the tokenizer adds."""
        assert kind.tokenize is not None, "only kinds that are sent ids are asked for them"
        path, field, adds = kind.tokenize
        question = {field: text, adds: special, **({} if model is None else {"model": model})}
        answer = await self._client.ask(backend, path, question, MAX_ANSWER + _TOKEN * len(text))
        found = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise EngineError(f"the engine's {path} returned no tokens", 502)
        return found

    async def _described(self, backend: Backend, kind: Kind, request: Request, model: str | None) -> dict[str, Any]:
        """What a server says of its model, if the prompt has media.

        Raises:
            EngineError: 400 if the model does not take them.
        """
        if not kind.described:
            return {}
        question = {"model": model} if kind.described == "/api/show" else None
        try:
            found = await self._client.ask(backend, kind.described, question)
        except Closed:  # an older server
            found = None
        described = found if isinstance(found, dict) else {}
        senses = kind.senses(described)
        unseen = [] if senses is None else [medium for medium in request.media if medium.kind not in senses]
        if unseen:
            raise not_taken(unseen[0], f"{kind.name}, with this model", senses or ())
        return described

    async def _count_placeholders(
        self, backend: Backend, kind: Kind, request: Request, prompt: Sequence[int], model: str | None
    ) -> None:
        """Check that a prompt has one placeholder for each medium.

        Raises:
            EngineError: it has not.
        """
        text = request.needed_prompt()
        assert isinstance(text, str), "media have places in texts"
        for span in dict.fromkeys(text[m.start : m.end] for m in request.media):
            if span not in backend.spans:
                backend.spans[span] = await self._tokens(backend, kind, span, model)
        if ranges(prompt, prompt, self._spans(backend, request)) is None:
            raise EngineError("the prompt's tokens have not one placeholder for each medium", 500)

    def _spans(self, backend: Backend, request: Request) -> list[list[int]]:
        """The tokens of the placeholders of a prompt."""
        return [backend.spans[str(request.prompt)[m.start : m.end]] for m in request.media]

    def _compared(self, backend: Backend, request: Request, asked: dict[str, Any], delta: Delta) -> Delta:
        """A piece with the ranges of the media in the engine's own prompt, which must be ours outside them."""
        ours = asked.get("token_ids") or asked.get("input_ids")
        if ours is None:
            return delta
        found = ranges(ours, delta.prompt_ids, self._spans(backend, request))
        if found is None:
            log.warning("%s: engine %s: has encoded the text around the media anew", request.id, backend.url)
        elif not delta.media:
            media = tuple((m.kind, *one) for m, one in zip(request.media, found, strict=True))
            delta = msgspec.structs.replace(delta, media=media)
        return delta

    async def _kind(self, backend: Backend) -> Kind:
        if backend.kind is None:
            await self._served(backend)
        if backend.kind is None:
            raise EngineError(f"kind: the kind of engine cannot be detected; allowed are {', '.join(KINDS)}", 503)
        return backend.kind

    async def _served(self, backend: Backend) -> Served:
        """The model and the context that a backend reports, which is asked only once."""
        async with backend.asking:
            if backend.served is not None:
                return backend.served
            answer, fault = await self._asked(backend, "/v1/models")
            listed = answer.get("data") if isinstance(answer, dict) else None
            models = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
            first = next((one for one in models if one.get("id") == self._model), models[0] if models else {})
            if backend.kind is None:
                owner = str(first.get("owned_by", ""))
                backend.kind = detect(owner, {}) or detect("", await self._paths(backend))
            if fault is not None and (backend.kind is None or backend.kind.listed):
                raise fault  # `transformers serve` fails if nothing was ever downloaded
            meta = first.get("meta")
            lengths = (first.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None)
            backend.served = Served(
                model=first["id"] if isinstance(first.get("id"), str) else None,
                context=next((n for n in lengths if isinstance(n, int) and n > 0), None),
            )
            return backend.served

    async def _paths(self, backend: Backend) -> dict[str, Any]:
        """The paths in a backend's description, if it has one."""
        answer, _ = await self._asked(backend, "/openapi.json")
        paths = answer.get("paths") if isinstance(answer, dict) else None
        return paths if isinstance(paths, dict) else {}

    async def _asked(self, backend: Backend, path: str) -> tuple[Any, EngineError | None]:
        """The answer to a request, or the error that counts as an answer."""
        try:
            return await self._client.ask(backend, path), None
        except Unavailable:
            raise
        except EngineError as error:
            return None, error

    async def _probe(self, backend: Backend) -> None:
        """Return if a backend is up and its kind is known; its description is requested again.

        Raises:
            EngineError: it is down, or would refuse every request.
        """
        kind = await self._kind(backend)
        await self._client.ask(backend, kind.health)
        if kind.listed:
            before, backend.served = backend.served, None
            try:
                await self._served(backend)
            except Unavailable:
                raise
            except EngineError:  # it is up, and its last description is used until it sends another
                backend.served = before
            if None not in (before, backend.served) and before != backend.served:
                log.info("engine %s: is now %s", backend.url, backend.served)


def _tokens_of(delta: Delta) -> tuple[int, ...]:
    return () if delta.sampled is None else delta.sampled.ids


def _with_prompt(delta: Delta, sampled: Sampled, sent: Any) -> Delta:
    """The first piece with the prompt as it was sent, unless the server has reported it."""
    if sampled.prompt_ids is not None or delta.prompt_ids or not isinstance(sent, list):
        return delta
    return msgspec.structs.replace(delta, sampled=msgspec.structs.replace(sampled, prompt_ids=tuple(sent)))


def _with_more(kind: Kind, backend: Backend, request: Request) -> Kind:
    """The row of a kind for a prompt with media, or for SGLang's tokens as they were sampled.

    Raises:
        EngineError: 400 if it takes none, or not all of these.
    """
    row = WITH_MEDIA.get(kind.name)
    for medium in request.media:
        if row is None or medium.kind not in row.media:
            raise not_taken(medium, kind.name, () if row is None else row.media)
    assert row is not None, "there are media"
    return CHAT if backend.unready and kind.name == CHAT.name else row


def _awaited(awaited: Awaited, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Compute what may take a while, as long as somebody waits."""
    with bounds.awaited(awaited.check):
        return make()


def _without_prompt(delta: Delta, prompt: Any, most: int | None) -> Delta:
    """The first piece of an output that begins with its prompt, without the prompt's text, which servers may decode
    differently, but with the entries of the prompt's tokens.

    Args:
        delta: the piece.
        prompt: what the server was sent.
        most: the largest number of tokens of the output.

    Raises:
        EngineError: how many tokens the prompt has is not known.
    """
    count = len(prompt) if isinstance(prompt, list) else delta.usage.prompt_tokens if delta.usage else 0
    if not 0 < count <= len(delta.logprobs):
        raise EngineError("the engine does not report the tokens of the prompt", 502)
    if not most:
        return msgspec.structs.replace(delta, text="", token_ids=(), logprobs=delta.logprobs[:count])
    tokens = [entry["token"] for entry in delta.logprobs[count:]]
    while not delta.text.endswith("".join(tokens)):  # a character may be incomplete, and an end token has no text
        tokens.pop()
    return msgspec.structs.replace(delta, text="".join(tokens))


def base_urls(urls: Sequence[str], kind: str | None) -> list[str]:
    """Check the base URLs of one model's servers, and their kind, and remove ``/v1``.

    Raises:
        ValueError: one of them is wrong; the message begins with the argument's name.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    bases = [_base(url) for url in urls]
    if not bases:
        raise ValueError("urls: at least one is needed")
    if len(set(bases)) < len(bases):
        raise ValueError(f"urls: {next(b for b in bases if bases.count(b) > 1)} is given twice")
    return bases


def _base(url: str) -> str:
    """Check a base URL, and remove ``/v1``.

    Raises:
        ValueError: it is not a base URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        raise ValueError(f"urls: {wrong}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("urls: must not contain a user or a password; use api_key")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise ValueError(f"urls: {url!r} is not like http://host:port")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
