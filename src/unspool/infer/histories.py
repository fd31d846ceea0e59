"""The conversations that templates render. Every text in them is a word that no template contains."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Message = dict[str, Any]
Calls = Sequence[tuple[str, dict[str, Any]]]

NAMES: Final = ("zqtoola", "zqtoolb", "zqtoolc")
DOTTED: Final = "zqspace.zq-tool_d"  # a tool's name that is not an identifier
SNAKE: Final = "zq_Tool_E2"  # a tool's name of several words
KEYS: Final = ("zqkeya", "zqkeyb")
WORDS: Final = "zq_Key_F2"  # a key of several words
MANY_KEYS: Final = tuple(f"zqmany{i}" for i in range(12))
ODD_KEYS: Final = (
    "Zq-Max-N", "zq.inner.key", "zq two words", "1stZq", "größeZq北京", "class", "None", "@zq", "zq" * 100,
    "", "zq'it\"s", "zq=1", "zq,x", "zq[0]", "zq<x>", "zq: y",
)  # fmt: skip
"""Keys as schemas may have them."""
SIGNS: Final = 9
"""The index of the first key that a format may be unable to write, because it is empty or contains syntax."""
ODD_TOOL: Final = "zqtoolg"  # the name of the tool that takes the odd keys
VALUES: Final = ("zqvala", "zqvalb")
IDS: Final = ("zqcallid1", "zqcallid2", "zqcallid3")  # nine letters and digits, which some templates require
CONTENT: Final = "Zqtext."
THOUGHT: Final = "Zqthought."
USER: Final = ("Zqusera?", "Zquserb?")
LIVELY: Final = (
    ' It\'s the <b>first</b> & "last" line of [several](zq), {as} people write them: long, with Capitals and 1,024 '
    "signs; no terminal shows it in one row.\n\n* An iPhone\n  at 50 %\n* <i>Zq</i>\nEnd."
)
"""A second half of a text, with everything that a template may change in a text."""
LONG: Final = " ".join(f"zqword{i}" for i in range(1500))  # some 15,000 characters, which a template may truncate
RESULT: Final = "Zqresult."
SEPARATOR: Final = "\u2028"  # a line separator for Python, and so for templates that indent text, but for nothing else
EOS: Final = "<zq|eos|>"  # the default value of ``eos_token``, for which engines return no text

_MORE: Final = {"additionalProperties": {"type": "string"}}  # some templates require this
_OBJECT: Final = {
    "type": "object",
    **_MORE,
    "properties": {
        "zqone": {"type": "integer", "description": "A value."},
        "zqtwo": {
            "type": "object",
            **_MORE,
            "description": "A value.",
            "properties": {"zqin": {"type": "string", "description": "A value."}},
        },
    },
}


def _record(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", **_MORE, "properties": {"zqin": {**schema, "description": "A value."}}}


def _listed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


TYPED: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "zqint": (-71023, {"type": "integer"}),
    "zqbool": (True, {"type": "boolean"}),
    "zqlist": ([1, 2], {"type": "array", "items": {"type": "integer"}}),
    "zqtexts": (["b", "A c", "b"], {"type": "array", "items": {"type": "string"}}),
    "zqnone": (None, {"type": "string", "nullable": True}),
    "zqnumber": (-0.0625, {"type": "number"}),
    "zqbig": (123456789012345678901234567890, {"type": "integer"}),
    "zqtiny": (1e-07, {"type": "number"}),
    "zqfine": (-0.1234567890123, {"type": "number"}),
    "zqempty": ([], {"type": "array", "items": {"type": "string"}}),
    "zqdeep": (
        {"zqin": [{"zqin": [[1, -2], []]}, {"zqin": []}]},
        _record(_listed(_record(_listed(_listed({"type": "integer"}))))),
    ),
    "zqobject": ({"zqone": -1, "zqtwo": {"zqin": "b"}}, _OBJECT),
}
"""Arguments that are not strings: a value of each type, and its schema."""

_PROPERTIES: Final = {
    **{key: {"type": "string", "description": "A text."} for key in (*KEYS, WORDS, *MANY_KEYS)},
    **{key: {**schema, "description": "A value."} for key, (_, schema) in TYPED.items()},
}


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": []}
    return {"type": "function", "function": {"name": name, "description": "Does.", "parameters": parameters}}


TOOLS: Final[list[dict[str, Any]]] = [_tool(name, _PROPERTIES) for name in (*NAMES, DOTTED, SNAKE)]
"""Every tool takes every argument."""
ODD_TOOLS: Final = [
    *TOOLS,
    _tool(ODD_TOOL, {key: {"type": "string", "description": "A text."} for key in (KEYS[0], *ODD_KEYS)}),
]
"""With one that takes the odd keys."""

SWITCHES: Final = ("enable_thinking", "thinking", "thinking_mode", "think", "reasoning")
"""Variables by which templates turn thinking on and off."""


class HistoryStyle(NamedTuple):
    """The form in which a template accepts a history."""

    arguments: str = "object"  # ``object`` or ``text``
    nothing: str | None = ""  # the value for missing content next to calls
    thoughts: str = "keys"  # ``keys`` of the message, or ``parts`` of its content
    ids: str = "plain"  # ``plain``, or ``named`` if they contain the tool's name and the call's index
    # Whether another user message comes after the turn, since templates may leave the last turn open.
    followed: bool = False

    def id(self, index: int, name: str) -> str:
        plain = IDS[index] if index < len(IDS) else f"zqcall{index + 1:03}"
        return plain if self.ids == "plain" else f"functions.{name}:{index}"


class HistoryTurn(NamedTuple):
    """The parts of an assistant's turn."""

    reasoning: str = ""
    content: str = ""
    calls: Calls = ()

    def message(self, style: HistoryStyle) -> Message:
        message: Message = {"role": "assistant", "content": self.content}
        if self.calls:
            message["content"] = self.content or style.nothing
            message["tool_calls"] = []
            for i, (name, a) in enumerate(self.calls):
                arguments = a if style.arguments == "object" else json.dumps(a, ensure_ascii=False)
                function = {"name": name, "arguments": arguments}
                message["tool_calls"].append({"id": style.id(i, name), "type": "function", "function": function})
        if self.reasoning and style.thoughts == "keys":
            message.update(dict.fromkeys(("reasoning_content", "reasoning", "thinking"), self.reasoning))
        elif self.reasoning:
            parts = [{"type": "thinking", "thinking": self.reasoning}]
            message["content"] = [*parts, {"type": "text", "text": self.content}] if self.content else parts
        return message


def _first(values: Mapping[str, Any]) -> Calls:
    return ((NAMES[0], dict(values)),)


ONE: Final = _first({KEYS[0]: VALUES[0]})
PAIR: Final = _first(dict(zip(KEYS, VALUES, strict=True)))
TWO: Final[Calls] = (*ONE, (NAMES[1], {KEYS[1]: VALUES[1]}))

TURNS: Final[dict[str, HistoryTurn]] = {
    "content": HistoryTurn(content=CONTENT),
    "one call": HistoryTurn(calls=ONE),
    "two arguments": HistoryTurn(calls=PAIR),
    "no arguments": HistoryTurn(calls=_first({})),
    "two calls": HistoryTurn(calls=TWO),
    "three calls": HistoryTurn(calls=(*TWO, (NAMES[2], {}))),
    "text and call": HistoryTurn(content=CONTENT, calls=ONE),
    "text and two calls": HistoryTurn(content=CONTENT, calls=TWO),
    "reasoning and content": HistoryTurn(THOUGHT, CONTENT),
    "reasoning and call": HistoryTurn(THOUGHT, calls=ONE),
    "reasoning, text and call": HistoryTurn(THOUGHT, CONTENT, ONE),
    "a tool called twice": HistoryTurn(calls=(*ONE, *_first({KEYS[0]: VALUES[1]}), *ONE)),
    "many calls": HistoryTurn(calls=tuple((NAMES[i % 3], {KEYS[0]: f"zq{i}"}) for i in range(12))),
    "a name with a dot": HistoryTurn(calls=((DOTTED, {KEYS[0]: VALUES[0]}),)),
    "names of several words": HistoryTurn(calls=((SNAKE, {WORDS: "Zq Value"}),)),
    "integer": HistoryTurn(calls=_first({"zqint": TYPED["zqint"][0]})),
    "boolean": HistoryTurn(calls=_first({"zqbool": True})),
    "false": HistoryTurn(calls=_first({"zqbool": False})),
    "zero": HistoryTurn(calls=_first({"zqint": 0})),
    "number": HistoryTurn(calls=_first({"zqnumber": TYPED["zqnumber"][0]})),
    "null": HistoryTurn(calls=_first({"zqnone": None})),
    "list": HistoryTurn(calls=_first({"zqlist": TYPED["zqlist"][0]})),
    "texts in a list": HistoryTurn(calls=_first({"zqtexts": TYPED["zqtexts"][0]})),
    "a big integer": HistoryTurn(calls=_first({"zqbig": TYPED["zqbig"][0]})),
    "a tiny number": HistoryTurn(calls=_first({"zqtiny": TYPED["zqtiny"][0]})),
    "a number of many digits": HistoryTurn(calls=_first({"zqfine": TYPED["zqfine"][0]})),
    "empty list": HistoryTurn(calls=_first({"zqempty": []})),
    "deep nesting": HistoryTurn(calls=_first({"zqdeep": TYPED["zqdeep"][0]})),
    "many arguments": HistoryTurn(calls=_first(dict.fromkeys(MANY_KEYS, "b"))),
    "nested object": HistoryTurn(calls=_first({"zqobject": TYPED["zqobject"][0]})),
    "lines, quotes and tags": HistoryTurn(content=CONTENT + LIVELY),
    "such reasoning": HistoryTurn(THOUGHT + LIVELY, CONTENT),
    "Unicode": HistoryTurn(
        content=CONTENT + " Ünï 北京 🌧️", calls=_first({KEYS[0]: "é 北京 🌧️ ﬁ\u00a0ａ 😀 عرب\u200b ´`"})
    ),
    "a line separator": HistoryTurn(calls=_first({KEYS[0]: f"zqleft{SEPARATOR}zqright"})),
    "a long text": HistoryTurn(calls=_first({KEYS[0]: LONG})),
    "long content": HistoryTurn(content=f"{CONTENT} {LONG}"),
    "long reasoning": HistoryTurn(f"{THOUGHT} {LONG}", CONTENT),
    "texts like other values": HistoryTurn(
        calls=tuple(
            (NAMES[0], dict(zip(KEYS, pair, strict=True)))
            for pair in (("null", "12"), ("True", "1e5"), ("[1]", '{"zqkeya": "x"}'), ('"quoted"', "-0.50"))
        )
    ),
    "quotes and lines": HistoryTurn(
        calls=_first({KEYS[0]: "a \"b\" 'c'\n\\d\n\n<e> & {f}\t%20 &amp; \\n  \r\nz", KEYS[1]: ""})
    ),
    "white space around a text": HistoryTurn(calls=_first({KEYS[0]: "  Zq padded \n"})),
}
"""The turns that are rendered, by the name of their case."""

ASKED: Final[list[Message]] = [{"role": "user", "content": USER[0]}]


def request(messages: Sequence[Message], *, generate: bool, **variables: Any) -> dict[str, Any]:
    """The variables of one rendering."""
    return {
        "messages": list(messages),
        "tools": TOOLS,
        "add_generation_prompt": generate,
        "documents": None,
        **variables,
    }


def answered(turn: HistoryTurn, style: HistoryStyle) -> list[Message]:
    """A conversation that ends with the turn and, if the style wants one, another user message."""
    return [*ASKED, turn.message(style), *again(style)]


def again(style: HistoryStyle) -> list[Message]:
    """The message after a turn."""
    return [{"role": "user", "content": USER[1]}] if style.followed else []


def with_result(style: HistoryStyle) -> list[Message]:
    """A conversation that ends with a tool's result."""
    call = TURNS["one call"].message(style)
    name = NAMES[0]
    return [*ASKED, call, {"role": "tool", "content": RESULT, "name": name, "tool_call_id": style.id(0, name)}]
