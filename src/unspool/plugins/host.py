"""What the plug-ins share: names, engines' representations of tools, policies from the environment, markers."""

import logging
import os
import re
import tomllib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, wraps
from importlib import metadata
from typing import Any, Final, TypeVar

import msgspec

from .. import (
    ContentDelta,
    Dialect,
    Parser,
    Policy,
    ReasoningEnd,
    ReasoningStart,
    Stage,
    UnknownDialect,
    detect_dialect,
    get_dialect,
    list_dialects,
)
from ..dialect.patterns import worded
from ..dialect.template import unstarted
from ..infer.choosing import choose_dialect

PREFIX: Final = "unspool_"  # the prefix of a dialect's name in engines that have their own names
AUTO: Final = "auto"  # stands for the dialect that the model's chat template proves
POLICY: Final = "UNSPOOL_POLICY"  # the environment variable with the policies, see `environment_policy`

logger = logging.getLogger("unspool.plugins")

_T = TypeVar("_T")


# --- names ------------------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """Every name and alias of every dialect, and `AUTO`; without `PREFIX`."""
    return [AUTO, *sorted({name for d in list_dialects() for name in d.names})]


def abilities() -> Iterator[tuple[str, bool, bool]]:
    """Each of `names`, with whether its dialect has calls, and whether it has reasoning; `AUTO` may have both."""
    for name in names():
        d = None if name == AUTO else get_dialect(name)
        yield name, d is None or bool(d.call), d is None or bool(d.reasoning)


def dialect_of(name: str, *, model: str | None = None, chat_template: Any = None) -> Dialect:
    """The dialect of a name from `names`, with or without `PREFIX`. For `AUTO`, the model's name or path, and its chat
    template (or a dict of several by name, as in transformers) decide. `UnknownDialect` if no dialect has this name,
    the chat template proves none, or the model's dialect is unknown."""
    name = name.removeprefix(PREFIX)
    if name != AUTO:
        return get_dialect(name)
    if isinstance(chat_template, Mapping):
        chat_template = chat_template.get("tool_use") or chat_template.get("default")
    return _detected(model or None, chat_template if isinstance(chat_template, str) and chat_template else None)


def dialect_for(name: str, tokenizer: Any, model: str | None = None) -> Dialect:
    """`dialect_of`, with the chat template of a tokenizer, if there is one, and its model's name unless ``model`` is
    given."""
    model = model or getattr(tokenizer, "name_or_path", None)
    return dialect_of(name, model=model, chat_template=getattr(tokenizer, "chat_template", None))


@lru_cache(16)
def _detected(model: str | None, chat_template: str | None) -> Dialect:
    """The dialect that the chat template proves; without a template, the one that fits the model's name."""
    if chat_template is not None:
        choice = choose_dialect(chat_template, model=model)
        logger.info("unspool: %s reads %s", model, choice.described())
        return choice.dialect
    found = detect_dialect(model) if model else []
    if not found:
        raise UnknownDialect(
            f"{PREFIX}{AUTO}: no dialect found by the name {model!r} or a chat template; "
            f"choose {PREFIX}<dialect>, see list_dialects()"
        )
    logger.info("unspool: %s reads %s (%s)", model, found[0].dialect, found[0].reason)
    return get_dialect(found[0].dialect)


def registered(host: str, written_for: str, register: Callable[[], None]) -> bool:
    """Register parsers with a host, and return whether it worked.

    If the host's version has other interfaces, its log gets one line, and it starts without the plug-in. If it takes
    the parsers, but the plug-in was written for version numbers that begin otherwise, its log gets a line that says so.
    """
    version = _version(host) or "of an unknown version"
    try:
        register()
    except Exception as error:  # whatever another version does, its server must start
        logger.error(
            "unspool: nothing is registered with %s %s (the plug-in knows the interface of %s): %s",
            host,
            version,
            written_for,
            " ".join(f"{type(error).__name__}: {error}".split()),
        )
        return False
    if not f"{version}.".startswith(f"{written_for}."):
        logger.warning(
            "unspool: registered with %s %s; the plug-in was written for %s, and other versions are not tested",
            host,
            version,
            written_for,
        )
    return True


def _version(host: str) -> str | None:
    """The version of a package; its distribution may have another name, such as one for an accelerator."""
    try:
        return metadata.version(host)
    except metadata.PackageNotFoundError:
        found = _distributions().get(host)
        return metadata.version(found[0]) if found else None


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions of each package, cached because every installed distribution must be read."""
    return metadata.packages_distributions()


# --- requests ---------------------------------------------------------------------------------------------------------


def tools_of(tools: Sequence[Any] | None) -> list[Any]:
    """Tools as dicts. Dicts stay as they are; objects (pydantic models, nested or flat) become dicts of their fields.

    Objects that are not functions, such as an engine's built-in tools, are left out.
    """
    found: list[Any] = []
    for tool in tools or ():
        if isinstance(tool, Mapping):
            found.append(tool)
            continue
        function = getattr(tool, "function", tool)
        if getattr(tool, "type", "function") == "function" and getattr(function, "name", None):
            fields = {k: getattr(function, k, None) for k in ("name", "description", "parameters", "strict")}
            known = {k: v for k, v in fields.items() if v is not None}
            found.append({"type": "function", "function": known})
    return found


def tool_choice_of(choice: Any) -> Any:
    """A tool choice as OpenAI writes it: a string or a dict. An object with attributes becomes a dict."""
    if choice is None or isinstance(choice, str | Mapping):
        return choice or "auto"
    function = getattr(choice, "function", choice)
    name = getattr(function, "name", None)
    if name:
        return {"type": "function", "function": {"name": name}}
    return choice.model_dump(exclude_none=True)


def environment_policy() -> Policy | None:
    """The policies in the variable `POLICY`: ``field=value,field=value``, or the path of a TOML file of such fields.
    The message of a `ValueError` names the variable."""
    given = os.environ.get(POLICY, "").strip()
    return _policy(given) if given else None


def ids_policy() -> Policy:
    """The policies of the environment, for outputs whose token ids are known: text that only spells a special token is
    text, unless the policies say otherwise."""
    policy = environment_policy() or Policy()
    return policy if policy.text_markers is not None else msgspec.structs.replace(policy, text_markers="ignore")


@cache
def _policy(given: str) -> Policy:
    try:
        if "=" in given and not os.path.isfile(given):
            pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
            fields: dict[str, Any] = {k.strip(): v.strip() for k, _, v in pairs}
            fields = {k: {"true": True, "false": False}.get(v, v) for k, v in fields.items()}
        else:
            with open(given, "rb") as file:
                fields = tomllib.load(file)
        unknown = sorted(set(fields) - set(Policy.__struct_fields__))
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}; allowed are {', '.join(Policy.__struct_fields__)}")
        return Policy(**fields)
    except (OSError, ValueError) as error:
        raise ValueError(f"{POLICY}={given!r}: {error}") from None


# --- markers ----------------------------------------------------------------------------------------------------------

_CUT = re.compile(r'[\s"{[]')


def openings(d: Dialect) -> tuple[str, ...]:
    """The texts with which calls of a dialect begin, or the word after a name that begins one; none for a bare name."""
    found = []
    for block in d.calls:
        head = block.opening.strip()
        for text in [head] if head else [call.text.strip() for call in d.call]:
            head, _, rest = text.partition("{name}")
            after = rest.partition("{")[0]
            head = unstarted(head, d.start) or (after if worded(after) else "")  # the prompt may contain the start
            found.append(head[0] if head[:1] in ("{", "[") else _CUT.split(head)[0])
    return tuple(dict.fromkeys(filter(None, found)))


def closings(d: Dialect) -> tuple[tuple[str, str], ...]:
    """The openings and closings of a dialect's reasoning, without white space; the written ones come first."""
    return tuple((t.opening.strip(), t.closing.strip()) for t in d.reasoning)


def content_ids(d: Dialect, ids: Sequence[int], tokenizer: Any, beginning: Mapping[str, Any]) -> list[int]:
    """The ids of an output after its reasoning. ``beginning``: the arguments of `Parser` that say where it begins."""
    parser = Parser(d, **{**beginning, "tokenizer": tokenizer})
    end: int | None = 0 if parser.stage is not Stage.REASONING else None
    for event in [*parser.feed_tokens(ids), *parser.close()]:
        if isinstance(event, ReasoningStart):
            end = None
        elif isinstance(event, ReasoningEnd):
            end = event.token_end
    return [] if end is None else list(ids[end:])


def reasoning_closed(d: Dialect, text: str) -> bool:
    """Whether reasoning is closed in the last turn of a text, which is a prompt or a prompt and its output."""
    for start in d.start:
        text = text.rpartition(start)[2]
    return any(end and end in text for _, end in closings(d))


def cached(make: Callable[[Dialect, Any], _T]) -> Callable[[Dialect, Any], _T]:
    """A function of a dialect and a tokenizer that keeps its results as long as the tokenizer lives."""
    memory: weakref.WeakKeyDictionary[Any, dict[str, _T]] = weakref.WeakKeyDictionary()

    @wraps(make)
    def found(d: Dialect, tokenizer: Any) -> _T:
        try:
            known = memory.setdefault(tokenizer, {})
        except TypeError:  # the tokenizer cannot be a key, so nothing is cached
            known = {}
        if d.name not in known:
            known[d.name] = make(d, tokenizer)
        return known[d.name]

    return found


@cached
def foreign_tokens(d: Dialect, tokenizer: Any) -> "re.Pattern[str] | None":
    """A pattern for a tokenizer's special tokens that no template of a dialect contains; ``None`` if there are none.

    The parser itself decides: these are the tokens that it reads as markup by their id, and as content by their text.
    """
    found = [text for token, text in _special(tokenizer) if _is_foreign(d, tokenizer, token, text)]
    found.sort(key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None


def _special(tokenizer: Any) -> Iterator[tuple[int, str]]:
    decoder = getattr(tokenizer, "added_tokens_decoder", None)
    if isinstance(decoder, Mapping):
        for token, added in decoder.items():
            text = str(getattr(added, "content", added))
            if getattr(added, "special", False) and text.strip():
                yield token, text


def _is_foreign(d: Dialect, tokenizer: Any, token: int, text: str) -> bool:
    by_text = Parser(d, stage=Stage.CONTENT)
    if not any(isinstance(e, ContentDelta) for e in [*by_text.feed(text), *by_text.close()]):
        return False
    by_id = Parser(d, stage=Stage.CONTENT, tokenizer=tokenizer)
    return not any(isinstance(e, ContentDelta) for e in [*by_id.feed_tokens([token]), *by_id.close()])
