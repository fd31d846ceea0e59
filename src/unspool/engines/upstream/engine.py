"""`Upstream`: an engine that sends requests to inference servers over HTTP (the extra ``server``)."""

import contextlib
import logging
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from ..base import Delta, EngineError, Request, not_taken
from ..media import MEDIA
from ..threads import Threads
from .answers import Closed
from .client import LONG, MAX_ANSWER, Client, Slow, Unavailable, written
from .kinds import KINDS, Kind, ListedModel, body, detect, listed
from .media import CHAT, SGLANG, WITH_MEDIA, ranges, with_marker
from .output import Output, ServerRequest
from .pool import Backend, BackendPool
from .sse import MAX_EVENT

log = logging.getLogger("unspool.engines")

_UNREADY = (
    "takes no rendered prompt with media (--enable-scale-out), so vLLM renders these prompts itself: earlier turns are "
    "not repeated as the model wrote them"
)
_BOS = (
    "begins prompts with media with {0}, which the chat template does not write; if it runs with "
    "--override-kv tokenizer.ggml.add_bos_token=bool:false, it does not"
)
_IDLE = 2 * MAX_EVENT, 10_000  # how many bytes, and how many events, may come without anything of the output
_PROMPTS = ("prompt", "input_ids", "token_ids")  # the fields that have a prompt, by kinds
_TOKEN = 16  # how many bytes the id of a token takes in an answer, at most; a token has a character or more


class Upstream:
    """Generates with external servers: vLLM, SGLang, llama.cpp, Ollama, FastDeploy, ``transformers serve``.

    The rendered prompt goes to the raw completion endpoint of a server, which must not parse its output;
    `unspool.engines.upstream.kinds` describes each kind. The least busy of several servers is used, and the next one if
    it is down, as long as nothing was generated. What nobody pulls is not read, so the server waits.

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
        for name, seconds in (
            ("connect_timeout", connect_timeout),
            ("first_timeout", first_timeout),
            ("next_timeout", next_timeout),
            ("check_interval", check_interval),
        ):
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name}: {seconds} is not a positive number of seconds")
        self._model = model
        self.tokenizer: Final = tokenizer
        self._keep_end = keep_end
        self._body = partial(body, keep_end=keep_end, markers=tuple(markers), budgets=budgets)
        self._first = first_timeout
        self._next = next_timeout
        self._client = Client(api_key, connect_timeout)
        self._threads = Threads(2, "upstream")  # they derive grammars, for which no long prompt must wait
        given = None if kind is None else KINDS[kind]
        self._busy: set[str] = set()  # ids of running requests
        self._pool = BackendPool([Backend(base, given) for base in bases], self._probe, check_interval)

    media = MEDIA
    """Whether a server takes them is known when it is asked."""

    @property
    def context(self) -> int | None:
        """The largest number of tokens of a prompt and its output: the smallest that any server last reported."""
        served = [b.served for b in self._pool.backends if b.served is not None]
        return min((one.context for one in served if one.context is not None), default=None)

    echoes = True
    """Whether log-probabilities of prompts are reported: by some kinds; others refuse them."""

    @property
    def shows_special(self) -> bool:
        """Whether texts have their special tokens, as far as the kinds of the servers are known."""
        return all(b.kind is None or b.kind.shows_special for b in self._pool.backends)

    @property
    def provider(self) -> str | None:
        """The kind of the servers; ``None`` if no server was asked yet."""
        return next((b.kind.name for b in self._pool.backends if b.kind is not None), None)

    # -- the interface of engines ----------------------------------------------------------------------------------

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Generate one output; the connection is closed as soon as the iterator is."""
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
                    if not isinstance(error, Unavailable) or begun or len(self._pool.backends) == 1:
                        raise
                    fault = error
                finally:
                    await stream.aclose()

    async def health(self) -> None:
        """Return if a server is up now; an answer within the last second counts. An `EngineError` has the reasons."""
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
        asked = await self._prepared(backend, request)
        kind = asked.kind
        read = partial(
            kind.read() if isinstance(kind.read, type) else kind.read,
            alternatives=request.sampling.logprobs,
            keep_end=self._keep_end or request.echo,
            capture=request.capture and kind.capture is not None,
        )
        output, events = Output(request, asked, read, backend.url), kind.events()
        async with (
            self._headers(request) as headers,
            self._client.open(backend, kind.generate, asked.data, deadline, headers) as response,
        ):
            backend.back()
            size = count = 0
            if not response.content_type.startswith(kind.stream):
                raise EngineError(f"the engine answers {response.content_type!r} instead of a stream", 502)
            while not output.ended:
                try:
                    chunk = await self._client.read(backend, response, deadline)
                except (Slow, Unavailable) as error:
                    if not output.finished:
                        raise
                    log.warning("%s: engine %s: after the end of the output: %s", request.id, backend.url, error)
                    break
                if not chunk:
                    break
                try:
                    found = events.feed(chunk)
                except ValueError as wrong:
                    raise EngineError(f"the engine's stream is malformed: {wrong}", 502) from None
                size += len(chunk)
                for data in found:
                    count += 1
                    if (delta := output.take(data)) is not None:
                        yield delta
                        # An event with nothing of the output is no progress; nor counts time in which nobody pulled.
                        deadline, size, count = time.monotonic() + self._next, 0, 0
                if size > _IDLE[0] or count > _IDLE[1]:
                    raise EngineError("the engine sends without an end, but nothing of the output", 502)
            yield output.end()

    @contextlib.asynccontextmanager
    async def _headers(self, request: Request) -> AsyncIterator[dict[str, str]]:
        """The headers of the trace, and the request's id for a server: the client's, or else the response's.

        Servers may refuse an id in use, so further choices, and further requests with the same id, get a suffix.
        """
        id = request.client_id or request.id
        if id in self._busy:
            id = f"{id}-{secrets.token_hex(4)}"
        self._busy.add(id)
        try:
            yield {**request.trace, "X-Request-Id": id}
        finally:
            self._busy.discard(id)

    async def _prepared(self, backend: Backend, request: Request) -> ServerRequest:
        kind = await self._kind(backend)
        if request.media or (request.capture and kind.name == SGLANG):
            kind = _with_more(kind, backend, request)
        model, context = self._model, None
        if kind.listed and (model is None or isinstance(kind.endless, str)):
            served = await self._served(backend)
            model, context = model or served.model, served.context
        prompt, spans = await self._prompt(backend, kind, request, model)

        def make() -> ServerRequest:
            body = self._body(kind, request, prompt, model=model, context=context)
            sent = next((body[name] for name in _PROMPTS if name in body), None)
            return ServerRequest(kind, written(body), sent if isinstance(sent, list) else None, spans)

        size = len(prompt) + sum(len(medium.data) for medium in request.media)
        if request.constraint is None and size < LONG:
            return make()
        if request.constraint is None:
            return await self._client.aside(make)
        return await self._threads.run(lambda _: make())

    async def _prompt(
        self, backend: Backend, kind: Kind, request: Request, model: str | None
    ) -> tuple[str | list[int], list[list[int]]]:
        """The prompt as a backend takes it, and the tokens of its placeholders if it is sent as tokens."""
        given = request.needed_prompt()
        if request.prompt_ids is not None and kind.ids:
            given = request.prompt_ids
        prompt = given if isinstance(given, str) else list(given)
        if isinstance(prompt, list) and not kind.ids:
            raise EngineError(f"prompt: the engine ({kind.name}) takes text, not token ids", 400)
        spans: list[list[int]] = []
        if kind.tokenize is not None:
            if isinstance(prompt, str):
                prompt = await self._tokens(backend, kind, prompt, model, special=request.add_special)
            spans = await self._spans(backend, kind, request, model)
            if spans and ranges(prompt, prompt, spans) is None:
                raise EngineError("the prompt's tokens have not one placeholder for each medium", 500)
        described = await self._described(backend, kind, request, model)
        if kind.marks:
            prompt = with_marker(request, described, await self._adds_bos(backend, request, described))
        return prompt, spans

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

    async def _spans(self, backend: Backend, kind: Kind, request: Request, model: str | None) -> list[list[int]]:
        """The tokens of the placeholders of a prompt."""
        text = request.needed_prompt()
        texts = [str(text[m.start : m.end]) for m in request.media]
        for span in texts:
            if span not in backend.spans:
                backend.spans[span] = await self._tokens(backend, kind, span, model)
        return [backend.spans[span] for span in texts]

    async def _described(self, backend: Backend, kind: Kind, request: Request, model: str | None) -> dict[str, Any]:
        """What a server says of its model, if the prompt has media."""
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

    async def _adds_bos(self, backend: Backend, request: Request, props: dict[str, Any]) -> bool:
        """Whether llama.cpp begins texts with the token that begins a sequence; it is asked once for each start."""
        start = props.get("media_marker")
        if backend.bos is None or backend.bos[0] != start:
            begun = await self._client.ask(backend, "/tokenize", {"content": "", "add_special": True})
            backend.bos = start, isinstance(begun, dict) and bool(begun.get("tokens"))
            token = props.get("bos_token")
            if backend.bos[1] and isinstance(token, str) and not str(request.prompt).startswith(token):
                log.warning("engine %s: %s", backend.url, _BOS.format(token))
        return backend.bos[1]

    async def _kind(self, backend: Backend) -> Kind:
        if backend.kind is None:
            await self._served(backend)
        if backend.kind is None:
            raise EngineError(f"kind: the kind of engine cannot be detected; allowed are {', '.join(KINDS)}", 503)
        return backend.kind

    async def _served(self, backend: Backend) -> ListedModel:
        """The model and the context that a backend reports, which is asked only once."""
        async with backend.asking:
            if backend.served is not None:
                return backend.served
            answer, fault = await self._asked(backend, "/v1/models")
            first = listed(answer, self._model)
            if backend.kind is None:
                paths = None if detect(first) is not None else (await self._asked(backend, "/openapi.json"))[0]
                backend.kind = detect(first, paths)
            if fault is not None and (backend.kind is None or backend.kind.listed):
                raise fault  # `transformers serve` fails if nothing was ever downloaded
            meta = first.get("meta")
            lengths = (first.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None)
            backend.served = ListedModel(
                model=first["id"] if isinstance(first.get("id"), str) else None,
                context=next((n for n in lengths if isinstance(n, int) and n > 0), None),
            )
            return backend.served

    async def _asked(self, backend: Backend, path: str) -> tuple[Any, EngineError | None]:
        """The answer to a request, or the error that counts as an answer."""
        try:
            return await self._client.ask(backend, path), None
        except Unavailable:
            raise
        except EngineError as error:
            return None, error

    async def _probe(self, backend: Backend) -> None:
        """Return if a backend is up and its kind is known; its description is requested again."""
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
            if before is not None and (now := backend.served) is not None and before != now:
                log.info("engine %s: now serves %s, context: %s", backend.url, now.model, now.context)


def _with_more(kind: Kind, backend: Backend, request: Request) -> Kind:
    """The row of a kind for a prompt with media, or for SGLang's tokens as they were sampled."""
    row = WITH_MEDIA.get(kind.name)
    for medium in request.media:
        if row is None or medium.kind not in row.media:
            raise not_taken(medium, kind.name, () if row is None else row.media)
    assert row is not None, "there are media"
    return CHAT if backend.unready and kind.name == CHAT.name else row


def base_urls(urls: Sequence[str], kind: str | None) -> list[str]:
    """Check the URLs of one model's servers, and their kind, and remove ``/v1``; `ValueError` names what is wrong."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    bases = [_base(url) for url in urls]
    if not bases:
        raise ValueError("urls: at least one is needed")
    if len(set(bases)) < len(bases):
        raise ValueError(f"urls: {next(b for b in bases if bases.count(b) > 1)} is given twice")
    return bases


def _base(url: str) -> str:
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
