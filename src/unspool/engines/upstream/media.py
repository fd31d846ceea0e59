"""The rows for prompts with media: the endpoint of each kind of server that takes them beside a rendered prompt.

The prompt has one placeholder for each medium, and the servers get bytes, never URLs.

* vLLM: ``/inference/v1/generate``, which takes ids, and says which ranges of the prompt the media have become. It needs
  ``--enable-scale-out``; without that, `CHAT` is used, where vLLM renders its own prompt.
* SGLang: ``/generate``, also for tokens as they were sampled. It decodes the ids, and encodes the text anew.
* llama.cpp: ``/completion`` with a text, in which its own marker stands for a placeholder and its frame.
* Ollama: ``/api/generate`` with ``[img-0]``, ``[img-1]``, …
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ...grammar import Constraint
from ..base import EngineError, Request
from ..media import MEDIA, placed
from .answers import SglangReader
from .kinds import KINDS, Kind

SGLANG: Final = "sglang"  # the kind whose row is also the one for tokens as they were sampled


def _vllm(request: Request, prompt: Any) -> dict[str, Any]:
    parts = [{"type": f"{m.kind}_url", "url": m.url, "uuid": m.sha256} for m in request.media]
    return {"token_ids": prompt, "content_parts": parts}


def _chat(request: Request, prompt: Any) -> dict[str, Any]:
    if any(medium.role != "user" for medium in request.media):
        raise EngineError("vLLM takes media in results of tools only if it is started with --enable-scale-out", 400)
    if request.spoken is None:
        raise EngineError("vLLM takes this conversation with media only if it is started with --enable-scale-out", 400)
    media = {m.sha256: m for m in request.media}

    def part(one: Any) -> Any:
        medium = media.get(one.get("sha256", "")) if isinstance(one, dict) else None
        return one if medium is None else {"type": f"{medium.kind}_url", f"{medium.kind}_url": {"url": medium.url}}

    def content(value: Any) -> Any:
        return [part(one) for one in value] if isinstance(value, list) else value

    said = request.spoken
    asked: dict[str, Any] = {"messages": [{**m, "content": content(m.get("content"))} for m in said["messages"]]}
    if said["tools"]:
        asked |= {"tools": said["tools"], "tool_choice": "none"}
    if request.sampling.logprobs is not None:
        asked |= {"logprobs": True, "top_logprobs": request.sampling.logprobs}
    return asked | ({"chat_template_kwargs": said["chat_template_kwargs"]} if said["chat_template_kwargs"] else {})


def _sglang(request: Request, prompt: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"input_ids": prompt}
    for kind in MEDIA:
        if data := [m.url for m in request.media if m.kind == kind]:
            asked[f"{kind}_data"] = data
    if request.capture:
        asked |= {"return_logprob": True, "return_routed_experts": True}
    if request.sampling.logprobs is not None:
        shown = {"top_logprobs_num": request.sampling.logprobs, "return_text_in_logprobs": True}
        asked |= {"return_logprob": True, **shown}
    return asked


def _llama_cpp(request: Request, prompt: Any) -> dict[str, Any]:
    return {"prompt": {"prompt_string": prompt, "multimodal_data": [m.base64 for m in request.media]}}


def _ollama(request: Request, prompt: Any) -> dict[str, Any]:
    text = placed(prompt, request.media, lambda i: f"[img-{i}]")
    return {"prompt": text, "images": [m.base64 for m in request.media]}


def _structural(constraint: Constraint) -> dict[str, Any]:
    return {"structural_tag": msgspec.json.encode(constraint.structural_tag).decode()}


def _row(kind: str, **changed: Any) -> Kind:
    return msgspec.structs.replace(KINDS[kind], **changed)


_SHOWN: Final = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
_STREAM: Final = {name: KINDS["vllm"].always[name] for name in ("stream_options", "return_token_ids")}


def _flags(names: Mapping[str, str]) -> Callable[[Mapping[str, Any]], list[str] | None]:
    """Reads what a model takes from fields that are true or false, by the kinds of media."""

    def senses(described: Mapping[str, Any]) -> list[str] | None:
        taken = described.get("modalities", described)
        if not isinstance(taken, dict) or not taken.keys() & set(names.values()):
            return None
        return [kind for kind, name in names.items() if taken.get(name)]

    return senses


def _ollama_senses(described: Mapping[str, Any]) -> list[str] | None:
    found = described.get("capabilities")
    return (["image"] if "vision" in found else []) if isinstance(found, list) else None


_SEES: Final = "has_image_understanding"  # SGLang's, which has no such field for videos

WITH_MEDIA: Final = {
    "vllm": _row(
        "vllm",
        media=MEDIA,
        generate="/inference/v1/generate",
        tokenize=("/tokenize", "prompt", "add_special_tokens"),
        endless=None,
        always={**_STREAM, "output_mode": "text"},
        options="sampling_params",
        within=_SHOWN,
        constrain=lambda constraint: {"structured_outputs": _structural(constraint)},
        place=_vllm,
        capture={"logprobs": 0},  # versions of weights come unasked
    ),
    "sglang": _row(
        "sglang",
        media=MEDIA,
        described="/model_info",
        senses=_flags({"image": _SEES, "audio": "has_audio_understanding", "video": _SEES}),
        generate="/generate",
        fields={**KINDS["sglang"].fields, "seed": "sampling_seed", "logprobs": ""},
        length="max_new_tokens",
        always={"return_prompt_token_ids": True},
        options="sampling_params",
        within=_SHOWN,
        constrain=_structural,
        place=_sglang,
        read=SglangReader,
        capture={},
    ),
    **{
        name: _row(
            name,
            media=MEDIA,
            described="/props",
            senses=_flags({"image": "vision", "audio": "audio", "video": "video"}),
            tokenize=None,
            ids=False,
            place=_llama_cpp,
            marks=True,
        )
        for name in ("llama.cpp", "llama.cpp-llguidance")
    },
    "ollama": _row("ollama", media=("image",), described="/api/show", senses=_ollama_senses, place=_ollama),
}
"""The row of each kind of server that takes media, by its name."""

CHAT: Final = _row(
    "vllm",
    media=MEDIA,
    generate="/v1/chat/completions",
    endless=None,
    fields={**KINDS["vllm"].fields, "logprobs": ""},
    always={**_STREAM, **_SHOWN},
    place=_chat,
    capture=None,
)
"""vLLM's row where it does not take ids with media."""


def with_marker(request: Request, props: Mapping[str, Any], adds_bos: bool) -> str:
    """The prompt for llama.cpp, whose text may begin with the token that the server adds itself (``adds_bos``). An
    `EngineError` if a text spells the marker: it is random, unless LLAMA_MEDIA_MARKER fixes it."""
    marker, prompt = props.get("media_marker") or "<__media__>", request.needed_prompt()
    assert isinstance(prompt, str), "media have places in texts"
    text = placed(prompt, request.media, lambda i: marker)
    if text.count(marker) != len(request.media):
        raise EngineError("messages: a text spells the marker by which llama.cpp finds media", 400)
    bos = props.get("bos_token")
    return text.removeprefix(bos) if adds_bos and isinstance(bos, str) else text


def ranges(ours: Sequence[int], theirs: Sequence[int], spans: Sequence[Sequence[int]]) -> list[tuple[int, int]] | None:
    """Where the media are in the tokens of an engine (``theirs``), as beginnings and lengths; ``None`` if they differ
    elsewhere from ours, which have one placeholder with its frame (``spans``) for each medium."""
    mine, other = array("q", ours).tobytes(), array("q", theirs).tobytes()
    pieces: list[bytes] = []
    at = 0
    for span in spans:
        found = _find(mine, array("q", span).tobytes(), at)
        if found < 0:
            return None
        pieces.append(mine[at:found])
        at = found + 8 * len(span)
    first, last = (pieces[0], mine[at:]) if spans else (mine, b"")
    if not (other.startswith(first) and other.endswith(last)):
        return None
    made: list[tuple[int, int]] = []
    start = len(first)
    for i in range(1, len(pieces) + 1):
        end = _find(other, pieces[i], start + 8) if i < len(pieces) else len(other) - len(last)
        if end <= start:
            return None
        made.append((start // 8, (end - start) // 8))
        start = end + (len(pieces[i]) if i < len(pieces) else 0)
    return made


def _find(tokens: bytes, wanted: bytes, at: int) -> int:
    """Where tokens are among others, from a place on."""
    found = tokens.find(wanted, at)
    while found >= 0 and found % 8:
        found = tokens.find(wanted, found + 1)
    return found
