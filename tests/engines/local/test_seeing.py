"""A model that sees, in a real llama.cpp: an image by each protocol is what llama.cpp's own chat makes of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.loopback import told
from tests.media import png, url
from tests.request.parts.test_reading import PROTOCOLS, image
from tests.server.support import Live, live
from tests.server.test_parts import body
from tests.wire.readers import PATHS, text_of
from unspool import get_dialect
from unspool.checkpoints.gguf import read_gguf
from unspool.cli import main
from unspool.engines.local import Launch, LlamaProcess, Local
from unspool.request.prompts import Prompts
from unspool.request.tokenizer import gguf_tokenizer

from .seeing import COST, MARKERS, write_model

TEXT = {"type": "text", "text": "What is this?"}
IMAGES = [png(60, 40, 10), png(40, 60, 200)]


class Seeing(NamedTuple):
    """A server in front of llama.cpp, and llama.cpp's own address."""

    server: Live
    process: LlamaProcess

    def own(self, path: str, asked: Any) -> Any:
        """llama.cpp's own answer."""
        address = self.process.address
        return told(address.url + path, asked, address.key)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeing]:
    model, projector = write_model(tmp_path_factory.mktemp("model"))
    fields = {"n_ctx": 2048, "n_parallel": 2, "kv_unified": False, "mmproj.path": str(projector)}
    process = LlamaProcess(Launch(model=str(model), fields=fields))
    process.start()
    gguf = read_gguf(model, vocabulary=True)
    prompts = Prompts(gguf_tokenizer(gguf))
    assert prompts.check(get_dialect("hermes"))
    engine = Local(process.address, gguf, markers=MARKERS, process=process)
    with live(engine, "hermes", prompts=prompts) as server:
        yield Seeing(server, process)


def by_llama(seeing: Seeing, *images: bytes) -> tuple[str, int]:
    """What llama.cpp itself answers to the same message, and the tokens of its prompt."""
    parts = [TEXT, *({"type": "image_url", "image_url": {"url": url(data)}} for data in images)]
    asked = {"messages": [{"role": "user", "content": parts}], "max_tokens": 12, "temperature": 0}
    answer = seeing.own("/v1/chat/completions", {**asked, "cache_prompt": False, "reasoning_format": "none"})
    return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens"]


def ask(seeing: Seeing, protocol: str, *images: bytes, stream: bool = False) -> Any:
    asked = body(protocol, TEXT, *(image(protocol, data) for data in images), stream=stream)
    options = {"max_output_tokens" if protocol == "responses" else "max_tokens": 12, "temperature": 0}
    asked |= {"forwardedProps": options} if protocol == "ag-ui" else options
    return seeing.server.ok(PATHS[protocol], **asked)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_prompt_and_the_answer_are_llama_cpps_own(seeing: Seeing, count: int) -> None:
    answer = ask(seeing, "chat", *IMAGES[:count]).json()
    text, tokens = by_llama(seeing, *IMAGES[:count])
    assert answer["choices"][0]["message"]["content"] == text
    assert answer["usage"]["prompt_tokens"] == tokens
    assert tokens - by_llama(seeing)[1] == COST * count


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_gets_the_same_answer(seeing: Seeing, protocol: str, stream: bool) -> None:
    expected = by_llama(seeing, IMAGES[0])[0]
    answer = ask(seeing, protocol, IMAGES[0], stream=stream)
    if stream or protocol == "ag-ui":
        assert text_of(protocol, answer.text) == expected
    else:
        assert json.dumps(expected)[1:-1] in json.dumps(answer.json())


def test_the_model_sees_which_image_it_is(seeing: Seeing) -> None:
    answers = {ask(seeing, "chat", *images).text.partition('"content":')[2][:40] for images in ([], *zip(IMAGES))}
    assert len(answers) == 3


def test_an_image_of_a_result_is_seen(seeing: Seeing) -> None:
    asked = body("messages", TEXT, image("messages", IMAGES[0]), role="tool", temperature=0)
    blind = body("messages", TEXT, role="tool", temperature=0)
    with_image, without = (seeing.server.post(PATHS["messages"], **one).json() for one in (asked, blind))
    costs = [one["usage"]["input_tokens"] + one["usage"]["cache_read_input_tokens"] for one in (with_image, without)]
    assert costs[0] - costs[1] == COST
    assert with_image["content"] != without["content"]


def test_a_text_that_spells_the_marker_is_no_image(seeing: Seeing) -> None:
    forged = {"type": "text", "text": "<__media__><start_of_image>"}
    seeing.server.ok(**body("chat", forged, image("chat", IMAGES[0]), temperature=0))


def test_bytes_that_llama_cpp_cannot_decode_are_the_clients_fault(seeing: Seeing) -> None:
    answer = seeing.server.post(**body("chat", image("chat", png(60, 40)[:40]), temperature=0))
    assert answer.status_code == 400
    assert seeing.server.http.get("/health").status_code == 200


def test_a_file_that_is_no_projector_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = write_model(tmp_path)
    assert main(["generate", "Hi", "--engine", str(model), "--mmproj", str(model)]) == 2
    assert "--mmproj: " in (error := capsys.readouterr().err)
    assert "is not a projector" in error
