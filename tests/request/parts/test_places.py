"""Templates write a placeholder for each medium, found by rendering; nothing else in a prompt can be read as one."""

from functools import cache
from typing import Any

import pytest

from tests.media import png, url
from unspool import get_dialect
from unspool.engines import Medium
from unspool.request.chat_request import ChatRequest
from unspool.request.continuation import Turns
from unspool.request.fields import BadRequest, Fields
from unspool.request.parts.places import FORGED
from unspool.request.parts.reading import settled
from unspool.request.prompts import Prompts, Tokenizer
from unspool.request.protocols import ChatProtocol
from unspool.request.settings import Limits, Settings
from unspool.request.shapes import MOVED

from ...support import calling, function_call

SEEING = """{%- macro content(c) %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{% if p.type == 'image' %}
{%- if number %}Picture {{ loop.index }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif
p.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% else %}
{{- p.text }}{% endif %}{% endfor %}{% endif %}{% endmacro %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ content(m.content or '') }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""A template that writes media in messages of every role."""
BLIND_RESULTS = SEEING.replace(
    "{{ content(m.content or '') }}",
    "{% if m.role == 'tool' %}{{ m.content if m.content is string else m.content[0].text }}"
    "{% else %}{{ content(m.content or '') }}{% endif %}",
)
"""The same, except that results of tools are only texts."""
BLIND = """{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
SPAN = "<|vision_start|><|image_pad|><|vision_end|>"
PROTOCOL = ChatProtocol(Settings(model="m", dialect=get_dialect("hermes")))
ADDED = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
CALLS = calling(*(function_call("look", id=f"c{i}") for i in range(2)))


@cache
def prompts(template: str) -> Prompts:
    return Prompts(Tokenizer(template, template, {}, ADDED))


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(color: int = 0) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url(png(color=color))}}


def asked(*messages: dict[str, Any], **ask: Any) -> ChatRequest:
    return settled(PROTOCOL.read(Fields({"messages": list(messages), **ask})), {}, Limits())


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def turns(template: str) -> Turns:
    return Turns(PROTOCOL.settings, prompts(template), None, lambda: "an-engine")


def placed(template: str, request: ChatRequest) -> tuple[str, tuple[Medium, ...]]:
    """The prompt of a request, and the media in it."""
    made = turns(template)
    prompt = made.prompt(request).prompt
    return prompt, made.media(prompt, request)


def test_a_placeholder_is_found_with_its_frame_and_where_results_hold_it() -> None:
    found = prompts(SEEING).known.places
    assert found.spans == {"image": SPAN, "video": SPAN.replace("image", "video")}
    assert found.held == {"image", "video"}
    assert found.literals == ("<|image_pad|>", "<|video_pad|>", "<|vision_end|>", "<|vision_start|>")
    assert prompts(BLIND_RESULTS).known.places.held == frozenset()
    assert prompts(BLIND).known.places.spans == {}


def test_a_special_token_of_an_unusual_shape_is_a_whole_placeholder() -> None:
    """MiniMax-M3's."""
    token = "]<]image[>["
    template = SEEING.replace(SPAN, token)
    for added in ((token,), ("\n\n", "image", token)):
        places = Prompts(Tokenizer(template, template, {}, (*ADDED, *added))).known.places
        assert (places.spans["image"], "image" in places.held) == (token, True)


@pytest.mark.parametrize(
    "sentence", ["<reminder>You see no image.</reminder>", "", "(no image)", "<|a|> image <|b|>", "{{ p }}"]
)
def test_what_is_not_made_of_special_tokens_is_no_placeholder(sentence: str) -> None:
    assert "image" not in prompts(SEEING.replace(SPAN, sentence)).known.places.spans


def test_every_medium_has_its_place_in_order() -> None:
    request = asked(user(text("one "), image(1), text(" two "), image(2)), user(image(3), text("three")))
    prompt, media = placed(SEEING, request)
    assert f"one {SPAN} two {SPAN}" in prompt
    assert f"{SPAN}three" in prompt
    assert [m.data for m in media] == [png(color=c) for c in (1, 2, 3)]
    assert [prompt[m.start : m.end] for m in media] == [SPAN] * 3
    assert [m.start for m in media] == sorted({m.start for m in media})
    assert [m.role for m in media] == ["user"] * 3


def test_what_a_template_writes_before_the_frame_stays() -> None:
    request = asked(user(image(1), image(2)), chat_template_kwargs={"number": True})
    prompt, media = placed(SEEING, request)
    assert f"Picture 1: {SPAN}Picture 2: {SPAN}" in prompt
    assert len(media) == 2


def test_the_same_image_twice_has_two_places() -> None:
    _, media = placed(SEEING, asked(user(image(1), text("and"), image(1))))
    assert len({m.start for m in media}) == 2
    assert len({m.sha256 for m in media}) == 1


RESULTS = [
    user(text("Look.")),
    CALLS,
    {"role": "tool", "tool_call_id": "c0", "content": [text("A cat: "), image(1)]},
    {"role": "tool", "tool_call_id": "c1", "content": [image(2), text(" and a dog "), image(3)]},
]


def test_an_image_of_a_result_stays_where_the_template_writes_it() -> None:
    prompt, media = placed(SEEING, asked(*RESULTS))
    assert f"tool\nA cat: {SPAN}<|im_end|>\n<|im_start|>tool\n{SPAN} and a dog {SPAN}<|im_end|>" in prompt
    assert MOVED not in prompt
    assert [(m.data, m.role) for m in media] == [(png(color=c), "tool") for c in (1, 2, 3)]


@pytest.mark.parametrize("more", [[], [user(text("So?"), image(4))]])
def test_an_image_of_a_result_moves_to_a_user_message_behind_all_results_otherwise(more: list[Any]) -> None:
    prompt, media = placed(BLIND_RESULTS, asked(*RESULTS, *more))
    assert "tool\nA cat: [image 1]<|im_end|>" in prompt
    assert "tool\n[image 2] and a dog [image 3]<|im_end|>" in prompt
    assert f"user\n{MOVED}\n[image 1]{SPAN}[image 2]{SPAN}[image 3]{SPAN}<|im_end|>" in prompt
    assert prompt.index("dog") < prompt.index(MOVED)
    assert [m.data for m in media] == [png(color=c) for c in range(1, 4 + len(more))]


@pytest.mark.parametrize("word", [*FORGED, SPAN, "<|image_pad|>", "<|vision_end|>", "<|video_pad|>", MOVED])
def test_no_text_can_spell_a_placeholder(word: str) -> None:
    word = f"{word}0]" if word == "[img-" else word
    messages = [
        {"role": "system", "content": "" if word == MOVED else f"The system says {word}."},
        user(text(f"I say {word}"), image(1), text(f"{word[:3]}"), text(word[3:])),
        calling(function_call("look", {"at": word}, "c0"), content=f"It says {word}"),
        {"role": "tool", "tool_call_id": "c0", "content": [text(word), image(2), text(f"&lt;{word[1:]}")]},
        user(text(word)),
    ]
    prompt, media = placed(SEEING, asked(*messages))
    rest = prompt
    for medium in reversed(media):
        rest = rest[: medium.start] + rest[medium.end :]
    assert len(media) == 2
    assert word not in rest


def test_texts_without_media_may_spell_what_only_engines_read() -> None:
    prompt, _ = placed(SEEING, asked(user(text("<image> and <video> are tags."))))
    assert "<image> and <video> are tags." in prompt


@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_template_that_takes_no_image_is_named_with_the_engine_and_the_role(role: str) -> None:
    messages = [user(text("?"), image())] if role == "user" else [*RESULTS]
    with pytest.raises(BadRequest) as refused:
        placed(BLIND, asked(*messages))
    assert refused.value.param == f"messages[{0 if role == 'user' else 2}].content[1].image_url.url"
    told = f"the chat template takes text only in a message of role {role!r}; the engine (an-engine) was not asked"
    assert str(refused.value) == f"{refused.value.param}: image: {told}"


def test_a_template_that_drops_an_image_is_noticed() -> None:
    drops = SEEING.replace("{%- for m in messages %}", "{%- for m in messages %}{% if loop.length < 4 or loop.last %}")
    drops = drops.replace("{% endfor %}{% if add", "{% endif %}{% endfor %}{% if add")
    many = [user(image(1)), {"role": "assistant", "content": ""}, user(image(2)), {"role": "assistant", "content": ""}]
    with pytest.raises(BadRequest, match="does not write one placeholder for each medium"):
        placed(drops, asked(*many, user(text("last"))))
