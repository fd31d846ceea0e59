"""The command ``serve``: its arguments, and the start of the server."""

import argparse
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..request.reasoning import CONTEXTS, EFFORTS
from ..request.sealed import Seal, read_keys
from ..request.settings import LIMITS, PROFILES, Limits
from ..validation import json_shown
from ..wire.chat import REASONING_FIELDS
from .common import Container, Misuse, OneOf, blaming, hush, needing, read_given, read_key, say
from .configuration import configured
from .engines import LOCAL, find_engine
from .local import find_local, start_local
from .model import model_arguments, name_engine, open_model
from .tools import open_tools, tools_arguments

if TYPE_CHECKING:
    from ..engines.local import Address
    from ..generation.telemetry import Telemetry
    from ..server.main import Operation
    from ..server.models import Served
    from ..server.workers import ServerWorker
    from ..store import Store


_SAME = (
    "profile", "reasoning_field", "full_text", "timing", "content_chunks", "coalesce_reasoning", "coalesce_arguments",
    "coalesce_delay", "named_reason", "sessions",
)  # fmt: skip
"""Arguments that are fields of `Settings`."""
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


def serve_arguments(p: argparse.ArgumentParser) -> None:
    text = "a GGUF to serve; --engine names other engines; default: a small model"
    p.add_argument("file", metavar="MODEL.gguf", nargs="?", help=text)
    p.add_argument("--config", metavar="FILE", help="TOML with these arguments, and a table for each of several models")
    model_arguments(p.add_argument_group("model and engine"))
    _operating_arguments(p.add_argument_group("address and process"))
    _access_arguments(p.add_argument_group("who may use it"))
    _reasoning_arguments(p.add_argument_group("reasoning and memory"))
    _answer_arguments(p.add_argument_group("form of the answers"))
    tools = p.add_argument_group("tools that the server runs")
    tools_arguments(tools)
    text = "the secret for approvals of calls, if several servers share one address; default: random"
    tools.add_argument("--approval-key", metavar="KEY|@FILE", help=text)
    text = "allow requests to name MCP servers of their own: only https and public addresses"
    tools.add_argument("--allow-server-url", action="store_true", help=text)
    limits = p.add_argument_group("limits")
    for field, text in LIMITS.items():
        default = getattr(Limits(), field)
        limits.add_argument(
            f"--max-{field}", type=type(default), metavar="N", default=default, help=f"{text}; default: {default:,.12g}"
        )


def _operating_arguments(p: Container) -> None:
    """Add the arguments that say where the server listens, and how the process is run."""
    p.add_argument("--host", default="127.0.0.1", help="the address to listen on; default: 127.0.0.1")
    p.add_argument("--port", type=int, default=8192, help="default: 8192; 0 picks a free one")
    p.add_argument("--no-ui", action="store_true", help="serve no page at /")
    p.add_argument(
        "--workers", type=int, metavar="N", default=1, help="number of processes that answer on the port; default: 1"
    )
    p.add_argument("--log-format", type=OneOf(LOG_FORMATS), metavar="FORMAT", default=LOG_FORMATS[0], help="text, json")
    p.add_argument("--log-level", type=OneOf(LOG_LEVELS), metavar="LEVEL", default="info", help=", ".join(LOG_LEVELS))
    p.add_argument("--access-log", action="store_true", help="log each answered request")
    text = "send OpenTelemetry's spans of requests, outputs and calls where the OTEL_* variables say (extra otel)"
    p.add_argument("--otel", action="store_true", help=text)
    text = "spans contain messages, arguments and results of tools; implies --otel"
    p.add_argument("--otel-content", action="store_true", help=text)


def _access_arguments(p: Container) -> None:
    """Add the arguments that say who may use the server, and over what."""
    p.add_argument("--api-key", metavar="KEY|@FILE", help="the key that clients must send")
    text = "admit the pages of a website, such as https://HOST; * admits all (repeatable); default: none"
    p.add_argument("--cors", metavar="ORIGIN", action="append", default=[], help=text)
    text = (
        "fetch images and other parts of requests from HOST, *.HOST or * (repeatable); default: none, only data: URLs"
    )
    p.add_argument("--media-host", metavar="HOST", action="append", default=[], help=text)
    text = "a name by which clients reach the server, besides localhost and addresses; * is any (repeatable)"
    p.add_argument("--allowed-host", metavar="HOST", action="append", default=[], help=text)
    p.add_argument("--ssl-certfile", metavar="FILE", help="the certificate with its chain; serves https")
    p.add_argument("--ssl-keyfile", metavar="FILE", help="the certificate's key, if it is in another file")
    p.add_argument("--ssl-keyfile-password", metavar="TEXT|@FILE", help="the password of the key")


def _reasoning_arguments(p: Container) -> None:
    """Add the arguments on reasoning, and on what is kept of earlier turns."""
    text = "keys that seal reasoning, each 32 bytes in base64; the first seals, all open ($UNSPOOL_REASONING_KEY)"
    p.add_argument("--reasoning-key", metavar="KEYS|@FILE", help=text)
    text = "tokens of reasoning for an effort, such as low=1024 (repeatable); a request's own budget overrides it"
    p.add_argument("--effort-budget", metavar="EFFORT=TOKENS", action="append", default=[], help=text)
    text = (
        "repeat the model's turns in prompts exactly as it wrote them: never, loop (within a tool loop; default), all"
    )
    p.add_argument("--context-turns", type=OneOf(CONTEXTS), metavar="TURNS", default="loop", help=text)
    text = "MiB of memory for the turns that --context-turns repeats; default: 128; 0 is none"
    p.add_argument("--turn-memory", type=int, metavar="MIB", default=128, help=text)
    text = "record agents' runs for training, token by token: POST /sessions makes one (the extra rl)"
    p.add_argument("--sessions", action="store_true", help=text)
    text = "the SQLite file that keeps responses, conversations and sessions; default: memory, until the server ends"
    p.add_argument("--store", metavar="FILE", help=text)
    p.add_argument("--no-store", action="store_true", help="keep no responses, unless a request says so")


def _answer_arguments(p: Container) -> None:
    """Add the arguments that adapt answers to what clients expect."""
    p.add_argument("--profile", type=OneOf(PROFILES), metavar="PROFILE", default=PROFILES[0], help=", ".join(PROFILES))
    p.add_argument("--full-text", action="store_true", help="profile mindie: each chunk repeats the content so far")
    p.add_argument(
        "--timing", type=OneOf(("usage", "top")), metavar="PLACE", default="usage", help="mindie: usage, top"
    )
    p.add_argument("--content-chunks", action="store_true", help="profile candle: extensions repeat the content")
    fields = tuple(REASONING_FIELDS)
    p.add_argument("--reasoning-field", type=OneOf(fields), metavar="FIELD", default=fields[0], help=", ".join(fields))
    reasons = ("stop", "tool_calls")
    text = "finish reason of an answer to a named tool_choice: stop (default), tool_calls"
    p.add_argument("--named-reason", type=OneOf(reasons), metavar="REASON", default=reasons[0], help=text)
    p.add_argument("--coalesce-reasoning", action="store_true", help="stream reasoning sentence by sentence")
    p.add_argument("--coalesce-arguments", action="store_true", help="split streamed arguments only at JSON boundaries")
    text = "the longest time a delta waits; on its own, all deltas of that time are joined"
    p.add_argument("--coalesce-delay", type=float, metavar="SECONDS", help=text)


def run_serve(options: argparse.Namespace) -> int:
    words = options.words
    of_models = {"": options}
    if options.config is not None:
        if options.file is not None:
            raise Misuse("MODEL.gguf: cannot be combined with --config, whose tables name their engines")
        of_models = configured(words, options.config, serve_arguments, model_arguments)
        options = next(iter(of_models.values()))
    name_engine(options, options.file)
    settings = _settings(options)
    with needing("server"):
        from ..server.workers import ServerWorker
    worker = ServerWorker.here()
    if worker is None:
        listen(options).close()  # fails before a model is loaded in vain
    elif worker.number:
        hush()
    local = LocalProcesses(of_models)
    with local.started(None if worker is None else worker.engines) as engines:
        # llama.cpp loads during what follows, which takes as long as that: imports, and the proof of the dialect.
        operation = _operation(options, worker)
        settings |= _admitted(options)
        if options.workers > 1 and worker is None:
            return local.code(_supervise(words, options, operation, engines))
        return local.code(_serve(options, of_models, settings, operation))


def _serve(
    options: argparse.Namespace,
    of_models: Mapping[str, argparse.Namespace],
    settings: dict[str, Any],
    operation: "Operation",
) -> int:
    """Serve in this process until the end."""
    from ..server import serve

    worker = operation.worker
    store = _store(options, worker)
    tools = open_tools(options)
    first, *others = [_served(name, of_model, settings) for name, of_model in of_models.items()]
    if options.sessions and any(one.prompts is None for one in (first, *others)):
        raise Misuse("--sessions: needs the model's chat template; --tokenizer names it")
    with listen(options) if worker is None else worker.listening() as listener:
        served = serve(
            first.settings,
            first.engine,
            options.host,
            options.port,
            first.prompts,
            tools=tools,
            listener=listener,
            others=others,
            operation=operation,
            store=store,
        )
    return 0 if served else 1


class LocalProcesses:
    """The processes of llama.cpp of one command: one for each GGUF that it serves."""

    def __init__(self, of_models: Mapping[str, argparse.Namespace]) -> None:
        found = {name: find_engine(options.engine or []) for name, options in of_models.items()}
        self._of_models = {name: of_models[name] for name, (kind, _) in found.items() if kind is LOCAL}
        self._files = {name: argument for name, (_, argument) in found.items()}
        self._fault = ""
        self._ending = 0  # the signal
        self._starting = False

    @contextlib.contextmanager
    def started(self, engines: "Mapping[str, Address] | None") -> "Iterator[Mapping[str, Address]]":
        """A context in which the processes run, with their addresses by the models' names; ``engines`` if they run
        already, since this is a worker."""
        with contextlib.ExitStack() as stack:
            if self._of_models:
                signal.signal(signal.SIGTERM, self._end)
                stack.callback(self._ended)
            for name, options in self._of_models.items():
                if engines is not None:
                    options.address = engines[name]
                else:
                    self._starting = True  # between its start and what closes it, no signal ends this process
                    stack.callback(start_local(options, self._files[name], self._failed).close)
                    self._starting = False
                    if self._ending:
                        self._end(self._ending, None)
            yield {name: options.address for name, options in self._of_models.items()}

    def code(self, code: int) -> int:
        """The exit code of the command, after the reason for which a model could not be loaded."""
        if self._fault:
            where = "" if self._fault.startswith("--") else "--engine: "
            say(f"unspool serve: {where}{self._fault}")
        return 1 if self._fault else code

    def _end(self, number: int, frame: Any) -> None:
        """Handle a signal: end now if the command is starting, else let uvicorn drain, which passes the signal on."""
        if self._fault:
            raise SystemExit(self.code(1))
        self._ending = number
        if not self._starting:
            raise SystemExit(128 + number)

    def _ended(self) -> None:
        """Exit by the signal that asked for it, once everything is closed."""
        if self._ending:
            signal.signal(self._ending, signal.SIG_DFL)
            signal.raise_signal(self._ending)

    def _failed(self, fault: str) -> None:
        self._fault = self._fault or fault
        os.kill(os.getpid(), signal.SIGTERM)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of `Settings` that all models share, except those of `_admitted`."""
    key = _key("--api-key", options.api_key)
    approval_key = _key("--approval-key", options.approval_key)
    seal = _seal(options)
    efforts = _efforts(options.effort_budget)
    if options.turn_memory < 0:
        raise Misuse("--turn-memory: must be at least 0")
    if not 0 <= options.port <= 65_535:
        raise Misuse("--port: must be between 0 and 65535")
    if options.coalesce_delay is not None and options.coalesce_delay <= 0:
        raise Misuse("--coalesce-delay: must be more than 0")
    return {
        **{name: getattr(options, name) for name in _SAME},
        "api_key": key,
        "approval_key": (approval_key or "").encode(),
        "own_servers": options.allow_server_url,
        "seal": seal,
        "context": options.context_turns,
        "turn_memory": options.turn_memory << 20,
        "stores": not options.no_store,
        "efforts": efforts,
        "ui": not options.no_ui,
        "limits": _limits(options),
    }


def _store(options: argparse.Namespace, worker: "ServerWorker | None") -> "Store":
    """The store. Workers without a file share a temporary one."""
    from ..store import Store, StoreError

    limits = _limits(options)
    file, durable = options.store, True
    if file is None and worker is not None:
        file, durable = os.path.join(worker.folder, "store.db"), False
    with blaming("--store", file, StoreError):
        store = Store(file, size=limits.stored, days=limits.days, durable=durable)
        if options.sessions:
            store.claim("sessions")
        return store


def _key(argument: str, given: str | None) -> str | None:
    key = read_key(argument, given)
    if key == "":
        raise Misuse(f"{argument}: is empty")
    return key


def _limits(options: argparse.Namespace) -> Limits:
    try:
        return Limits(**{field: getattr(options, f"max_{field}") for field in LIMITS})
    except ValueError as error:
        raise Misuse(f"--max-{error}") from None


def _admitted(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of `Settings` that say who may use the server: origins of websites, names of the server, and hosts
    that are read."""
    from ..server.guards import check_host, check_origin
    from ..tools.addresses import read_host

    with blaming("--cors", None, ValueError):
        origins = tuple(map(check_origin, options.cors))
    with blaming("--allowed-host", None, ValueError):
        hosts = tuple(map(check_host, options.allowed_host))
    for argument, given in (("--media-host", options.media_host), ("--browser-host", options.browser_host)):
        with blaming(argument, None, ValueError):
            list(map(read_host, given))
    return {"cors": origins, "hosts": (*hosts, options.host.lower()), "media_hosts": tuple(options.media_host)}


def _operation(options: argparse.Namespace, worker: "ServerWorker | None") -> "Operation":
    with needing("server"):
        from ..server.main import Operation

    if options.workers < 1:
        raise Misuse("--workers: must be at least 1")
    if options.workers > 1 and options.sessions:
        raise Misuse("--workers: with --sessions, one process answers; several servers need a --store each")
    password = read_key("--ssl-keyfile-password", options.ssl_keyfile_password)
    if options.ssl_certfile is None and (options.ssl_keyfile or password) is not None:
        raise Misuse("--ssl-certfile: is missing")
    if options.ssl_certfile is not None:
        import ssl

        files = ", ".join(filter(None, (options.ssl_certfile, options.ssl_keyfile)))
        with blaming("--ssl-certfile", files):  # `ssl.SSLError` is an `OSError`
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, lambda: password or "")
    return Operation(
        log_format=options.log_format,
        log_level=options.log_level,
        access_log=options.access_log,
        certificate=options.ssl_certfile,
        key=options.ssl_keyfile,
        password=password,
        worker=worker,
        telemetry=_telemetry(options) if options.otel or options.otel_content else None,
    )


def _telemetry(options: argparse.Namespace) -> "Telemetry | None":
    with needing("otel"):
        from ..generation.telemetry import configured

        try:
            return configured(content=options.otel_content)
        except ValueError as error:
            raise Misuse(str(error)) from None


def _supervise(
    words: list[str], options: argparse.Namespace, operation: "Operation", engines: "Mapping[str, Address]"
) -> int:
    """Start workers with the same command line, and supervise them until the end."""
    if os.name != "posix":
        raise Misuse("--workers: several need POSIX")
    from ..server.logs import set_up_logs
    from ..server.workers import supervise

    set_up_logs(operation.log_format, operation.log_level)
    with listen(options) as listener:
        return supervise(["serve", *words], listener, options.workers, engines)


def _served(name: str, options: argparse.Namespace, common: Mapping[str, Any]) -> "Served":
    """One of the models, by the name of its table in the configuration, or an empty one."""
    from ..server.models import Served

    try:
        return Served(*open_model(options, **common, engine=", ".join(options.engine or [find_local("").gguf.path])))
    except Misuse as error:
        raise Misuse(f"models.{json_shown(name)}: {error}") if name else error from None


def _seal(options: argparse.Namespace) -> Seal | None:
    """The seal of reasoning, from the argument or the environment; ``None`` if neither has a key."""
    where, text = "--reasoning-key", read_given("--reasoning-key", options.reasoning_key)
    if text is None:
        where, text = "$UNSPOOL_REASONING_KEY", os.environ.get("UNSPOOL_REASONING_KEY") or None
    if text is None:
        return None
    with needing("seal"), blaming(where, None, ValueError):
        return Seal(read_keys(text))


def _efforts(given: list[str]) -> dict[str, int]:
    found = {}
    for one in given:
        effort, _, tokens = one.partition("=")
        if effort not in EFFORTS or effort == "none":
            raise Misuse(f"--effort-budget: {effort!r} is not one of {', '.join(EFFORTS[1:])}")
        if not (tokens.isascii() and tokens.isdigit()):
            raise Misuse(f"--effort-budget: {one!r}: {tokens!r} is not a number of tokens")
        found[effort] = int(tokens)
    return found


def listen(options: argparse.Namespace) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Misuse(f"--port: {options.port} is in use; --port 0 picks a free one") from None
        refused = error.errno in (errno.EACCES, errno.EPERM)
        where = f"--port: {options.port}" if refused else f"--host: {options.host}"
        raise Misuse(f"{where}: {(error.strerror or str(error)).partition(' (while')[0]}") from None
