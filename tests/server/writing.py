"""An engine that writes given outputs in tokens of one byte, a chat template, and how its prompts go on.

Processes that tests start import this, so it imports no clients.
"""

from collections.abc import AsyncGenerator
from functools import cache
from typing import Any

from unspool.engines import Delta, Request
from unspool.request.prompts import Prompts
from unspool.request.prompts import Tokenizer as Files
from unspool.wire import Usage

from ..tokenizer import byte_level

# It drops the reasoning of the history, writes calls differently from the model, and shows which template was used.
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
MARKS = ["<|im_start|>", "<|im_end|>"]
CALL = """<think>
Which city?\x20
</think>

<tool_call>
{"name":  "get_weather", "arguments": {"city":"Paris"}}
</tool_call>"""
ANSWER = "<think>\nIt is warm.\n</think>\n\n20 degrees."


TOKENIZER = byte_level(merges=[("a", "s"), ("as", "s"), ("i", "n"), ("e", "r"), ("e", "a")], special=MARKS)


class Writing:
    """Writes outputs one after another, in one-byte tokens that the tokenizer would not choose."""

    tokenizer: Any = TOKENIZER

    def __init__(self, *outputs: str, ids: bool = True) -> None:
        self.outputs = outputs
        self.ids = ids
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        for piece in self.outputs[(len(self.requests) - 1) % len(self.outputs)]:
            ids = TOKENIZER.encode(piece, add_special_tokens=False).ids
            yield Delta(text=piece, token_ids=tuple(ids) if self.ids else ())
        yield Delta(finish_reason="stop", usage=Usage(prompt_tokens=1, completion_tokens=1))

    async def health(self) -> None:
        pass

    async def close(self) -> None:
        pass


@cache
def template(text: str = TEMPLATE) -> Prompts:
    """A template's prompts, for all tests of a process, because starting what renders them takes long."""
    return Prompts(Files(text, text, {"eos_token": "<|im_end|>"}, tuple(MARKS)))


def extends(engine: Writing, at: int, raw: str) -> bool:
    """Whether a prompt begins with the whole prompt before it and with the output that followed that prompt."""
    before, now = engine.requests[at - 1], engine.requests[at]
    assert isinstance(before.prompt, str)
    assert isinstance(now.prompt, str)
    text = before.prompt + raw
    if not now.prompt.startswith(text):
        return False
    if engine.ids:
        ids = before.prompt_ids or TOKENIZER.encode(before.prompt, add_special_tokens=False).ids
        written = [i for c in raw for i in TOKENIZER.encode(c, add_special_tokens=False).ids]
        assert written != TOKENIZER.encode(raw, add_special_tokens=False).ids, "the tokenizer would choose the same"
        whole = [*ids, *written]
        assert now.prompt_ids is not None
        assert list(now.prompt_ids[: len(whole)]) == whole
        assert TOKENIZER.decode(list(now.prompt_ids), skip_special_tokens=False) == now.prompt
    return True
