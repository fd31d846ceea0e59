"""Asks a server, before it is used, what it serves: its kind, its model's name, and the chat template.

* llama.cpp sends the template in ``/props``, and names the model's file.
* vLLM sends the tokenizer's settings in ``/tokenizer_info``, if it is started with that endpoint; else ``root`` in
  ``/v1/models`` names the model's folder or repository.
* SGLang names it in ``/model_info``.
* Ollama names the model's file in ``/api/show``, and sends the file's template if it uses that itself, not one of Go's.

A path that exists on this machine is read here, and so is a repository in Hugging Face's cache.
"""

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ...errors import GgufError
from ..base import EngineError
from ..stores import find_stored, hf_snapshot
from .engine import base_urls
from .kinds import detect, listed

OLLAMA: Final = "ollama"  # the kind whose list of models may name other owners
_SECONDS: Final = 5.0
_MOST: Final = 32 << 20  # the most bytes of an answer
_TOKEN: Final = re.compile(r"<[^<>\s]{1,60}>|\[/?[A-Z_]{2,40}\]")  # texts in a template that may be special tokens
_NAMED: Final = ("bos_token", "eos_token", "unk_token", "pad_token")
_FROM: Final = re.compile(r"^FROM (/.+|[A-Za-z]:\\.+)$", re.MULTILINE)


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself."""

    kind: str | None  # its kind; ``None`` if it cannot be detected
    model: str | None  # the name of its model; ``None`` if it lists none
    looks: str | None = None  # the kind that it looks like, if that is another one than was given
    fault: str = ""  # what is wrong with its list of models; empty if nothing is
    # The model's folder, or its GGUF, on this machine; ``None`` if it is not there, or not known.
    path: Path | None = None
    # template, tool_template: the chat templates that it sends; empty if it sends none.
    template: str = ""
    tool_template: str = ""
    # special, added: named special tokens, such as ``bos_token``, and further ones.
    special: dict[str, str] = {}
    added: tuple[str, ...] = ()


def possible_tokens(template: str) -> tuple[str, ...]:
    """Texts in a template that look like special tokens."""
    return tuple(sorted(set(_TOKEN.findall(template))))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are refused: a key goes to the server that was named, and to no other."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def discover(urls: Sequence[str], *, key: str | None, kind: str | None, model: str | None) -> Discovered:
    """Ask the first of the servers of one model. `ValueError` if a URL or the kind is wrong; `EngineError` if the
    server cannot be reached, or refuses the key."""
    server = _ServerQueries(base_urls(urls, kind)[0], key)
    first = listed(server.ask("/v1/models"), model)
    fault = server.fault or ("" if first else "it lists no model")
    name = model or _text(first, "id") or None
    detected = detect(first, server.ask("/openapi.json"))
    seen, looks = None if detected is None else detected.name, None
    if kind is not None:
        looks = seen if seen is not None and not kind.startswith(seen) else None
    elif seen is None and _text(server.ask("/api/version"), "version"):
        kind = OLLAMA
    else:
        kind = seen
    found = Discovered(kind=kind, model=name, looks=looks, fault=f"/v1/models: {fault}" if fault else "")
    return _ASKED.get(kind or "", _by_root)(server, found, first)


def _llama_cpp(server: "_ServerQueries", found: Discovered, first: Mapping[str, Any]) -> Discovered:
    props = server.ask("/props")
    template = _text(props, "chat_template")
    special = {name: token for name in _NAMED if (token := _text(props, name))}
    added = []
    for token in sorted({*possible_tokens(template), *special.values()})[:200]:
        ids = server.ask("/tokenize", {"content": token, "add_special": False, "parse_special": True}).get("tokens")
        if isinstance(ids, list) and len(ids) == 1:
            added.append(token)
    return msgspec.structs.replace(
        found,
        path=_here(_text(props, "model_path")),
        template=template,
        tool_template=_text(props, "chat_template_tool_use"),
        special=special,
        added=tuple(added),
    )


def _vllm(server: "_ServerQueries", found: Discovered, first: Mapping[str, Any]) -> Discovered:
    info = server.ask("/tokenizer_info")
    if not _text(info, "chat_template"):
        return _by_root(server, found, first)
    decoder = info.get("added_tokens_decoder")
    listed = decoder.values() if isinstance(decoder, dict) else ()
    return msgspec.structs.replace(
        found,
        path=_here(_text(first, "root")),
        template=_text(info, "chat_template"),
        special={name: token for name in _NAMED if (token := _token(info.get(name)))},
        added=tuple(token for one in listed if (token := _token(one))),
    )


def _sglang(server: "_ServerQueries", found: Discovered, first: Mapping[str, Any]) -> Discovered:
    info = server.ask("/model_info") or server.ask("/get_model_info")
    path = _here(_text(info, "tokenizer_path")) or _here(_text(info, "model_path"))
    return msgspec.structs.replace(found, path=path)


def _by_root(server: "_ServerQueries", found: Discovered, first: Mapping[str, Any]) -> Discovered:
    return msgspec.structs.replace(found, path=_here(_text(first, "root")) or _here(found.model or ""))


def _ollama(server: "_ServerQueries", found: Discovered, first: Mapping[str, Any]) -> Discovered:
    shown = server.ask("/api/show", {"model": found.model})
    named = _FROM.search(_text(shown, "modelfile"))
    path = _here(named[1]) if named is not None else None
    if path is None and found.model is not None:
        try:
            path = find_stored(f"ollama:{found.model}").path
        except GgufError:
            path = None  # another machine's
    template = _text(shown, "template")
    if path is not None or "{%" not in template:
        return msgspec.structs.replace(found, path=path)
    details = server.ask("/api/show", {"model": found.model, "verbose": True}).get("model_info")
    info = details if isinstance(details, dict) else {}
    texts = info.get("tokenizer.ggml.tokens")
    tokens = [one if isinstance(one, str) else "" for one in texts] if isinstance(texts, list) else []
    special = {}
    for name in _NAMED:
        at = info.get(f"tokenizer.ggml.{name}_id")
        if isinstance(at, int) and 0 <= at < len(tokens):
            special[name] = tokens[at]
    added = tuple(sorted({*possible_tokens(template)} & {*tokens}))
    return msgspec.structs.replace(found, template=template, special=special, added=added)


_ASKED: Final = {
    "llama.cpp": _llama_cpp,
    "llama.cpp-llguidance": _llama_cpp,
    "vllm": _vllm,
    "sglang": _sglang,
    OLLAMA: _ollama,
}


def _here(name: str) -> Path | None:
    """The folder or GGUF of a path or a repository, if it is on this machine."""
    if not name:
        return None
    try:
        path = Path(name)
        if path.is_dir() or (path.is_file() and path.is_absolute()):
            return path
    except (OSError, ValueError):  # too long, or a zero byte
        return None
    return hf_snapshot(name)


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _token(value: Any) -> str:
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


class _ServerQueries:
    def __init__(self, base: str, key: str | None) -> None:
        self.fault = ""  # what was wrong with the last answer
        self._base = base
        self._demands = "it demands an API key" if key is None else "it refuses the API key"
        self._headers = {"Content-Type": "application/json"} | (
            {} if key is None else {"Authorization": f"Bearer {key}"}
        )
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect()).open

    def ask(self, path: str, question: Any = None) -> dict[str, Any]:
        """The JSON object of an answer; empty if there is another answer, or an error."""
        data = None if question is None else json.dumps(question).encode()
        self.fault = ""
        try:
            with self._open(urllib.request.Request(self._base + path, data, self._headers), timeout=_SECONDS) as answer:
                found = json.loads(answer.read(_MOST + 1)[:_MOST])
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (401, 403):
                raise EngineError(f"{self._demands}; see --engine-key", 401) from None
            self.fault = f"it answers {error.code}"
            return {}
        except (ValueError, RecursionError):
            self.fault = "its answer is no JSON"
            return {}
        except http.client.HTTPException:
            raise EngineError("its answer is no HTTP", 503) from None
        except OSError as error:  # `URLError` is one
            reason = getattr(error, "reason", error)
            raise EngineError(f"it cannot be reached ({getattr(reason, 'strerror', None) or reason})", 503) from None
        return found if isinstance(found, dict) else {}
