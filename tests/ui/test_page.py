"""The page, in a real browser connected to a real server."""

import json
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from unspool import get_dialect, parse
from unspool.cli import main
from unspool.cli.show import _lines
from unspool.engines import Capture, read_recordings
from unspool.engines.capture import Asked, write_recording
from unspool.engines.media import PlacedMedium
from unspool.engines.upstream import Upstream
from unspool.grammar import ToolStrictLevel
from unspool.policy import CHOICES
from unspool.request.prompts import Prompts, read_tokenizer
from unspool.server import Settings
from unspool.server.models import Served

from ..examples.support import raw_endpoint
from ..media import digest, png
from ..server.support import CHAT, HELLO, WEATHER, Live, Scripted, live, until
from ..server.writing import template
from ..sessions.support import Model, ask, made, trajectory
from ..sessions.test_sessions import CALL
from ..tokenizer import FOLDER
from .conftest import Visit

pytestmark = pytest.mark.ui

RAW = (
    "<think>\nThe user wants\nthe weather.\n</think>\n\nLet me look.\n<tool_call>\n"
    '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)
AXE = Path(sys.prefix) / "node_modules/axe-core/axe.min.js"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def cut(text: str, size: int = 5) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def begin(visit: Visit, server: Live, view: str = "try") -> Any:
    visit.page.goto(f"{server.url}/#{view}")
    visit.page.locator(f"u-{view}").wait_for(state="attached")
    return visit.page


def say(page: Any, text: str = "Hello") -> None:
    page.fill(".say textarea", text)
    page.press(".say textarea", "Enter")


def answered(page: Any) -> None:
    page.locator(".turn.assistant footer").last.wait_for()


def talked(visit: Visit, server: Live, text: str = "Hello", *, inside: bool = False) -> Any:
    """The page after an answer, or with a look inside it."""
    page = begin(visit, server)
    say(page, text)
    answered(page)
    if inside:
        page.click(".turn footer button")
    return page


def thinking(visit: Visit, server: Live) -> Any:
    """The page while the model thinks."""
    page = begin(visit, server)
    say(page)
    page.locator(".reasoning .preview", has_text="user wants").wait_for()
    return page


# -- try it ------------------------------------------------------------------------------------------------------------


def test_a_stream_is_shown_as_it_arrives(visit: Visit) -> None:
    pieces = cut(RAW)
    first = next(i for i in range(len(pieces)) if "wants" in "".join(pieces[:i]))
    inside = next(i for i in range(len(pieces)) if '"city"' in "".join(pieces[:i]))
    gates = {first: threading.Event(), inside: threading.Event()}
    with live(Scripted(pieces, gates=gates), "hermes") as server:
        page = begin(visit, server)
        say(page)
        page.locator(".reasoning .preview", has_text="The user wants").wait_for()
        assert page.locator("details.reasoning").get_attribute("open") is None
        assert page.locator(".call").count() == 0
        gates[first].set()
        arguments = page.locator(".call .arguments")
        arguments.filter(has_text='{"city"').wait_for()
        assert "Paris" not in arguments.inner_text()
        assert page.locator(".call .status").inner_text() == ""
        visit.shot("streaming")
        gates[inside].set()
        answered(page)
        assert json.loads(arguments.inner_text()) == {"city": "Paris"}
        assert page.locator(".call .status").inner_text() == "ok"
        assert page.locator(".part.content").inner_text() == "Let me look."
        page.click("details.reasoning summary")
        assert page.locator(".reasoning .body").inner_text() == "The user wants\nthe weather."
        assert visit.hosts == {server.url.removeprefix("http://")}


def test_results_of_tools_are_sent_back(visit: Visit) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = talked(visit, server)
        page.fill(".results textarea", '{"sky": "clear"}')
        page.click(".results button")
        until(lambda: len(server.engine.requests) == 2)
        sent = server.engine.requests[1].messages
        assert [m["role"] for m in sent] == ["user", "assistant", "tool"]
        assert sent[1]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        assert sent[2]["content"] == '{"sky": "clear"}'
        assert sent[2]["tool_call_id"] == sent[1]["tool_calls"][0]["id"]
        until(lambda: page.locator(".turn.assistant footer").count() == 2)


def test_tools_can_be_edited_and_wrong_ones_are_reported(visit: Visit) -> None:
    with live(Scripted(["Hi."]), "hermes") as server:
        page = begin(visit, server)
        tools = page.locator("u-try .settings textarea.code")
        tools.fill("[{")
        page.locator(".settings .error", has_text="Not JSON").wait_for()
        say(page)
        assert server.engine.requests == []
        tools.fill(json.dumps([WEATHER]))
        page.locator("u-try .settings .pair select").select_option("get_weather")
        page.press(".say textarea", "Enter")
        say(page, "again")
        answered(page)
        assert server.engine.requests[0].tools[0]["function"]["name"] == "get_weather"
        assert server.engine.requests[0].tool_choice == {"type": "function", "function": {"name": "get_weather"}}


def test_one_of_several_models_can_be_chosen(visit: Visit) -> None:
    first, second = Scripted(["Hi."]), Scripted(["[TOOL_CALLS]get_weather[ARGS]{}"])
    other = Served(Settings(model="other", dialect=get_dialect("mistral")), second)
    with live(first, "hermes", others=[other]) as server:
        page = begin(visit, server)
        page.locator("u-try .settings select").first.select_option("other")
        page.locator("u-try .muted", has_text="Talk to other").wait_for()
        say(page)
        answered(page)
        assert (len(first.requests), len(second.requests)) == (0, 1)
        assert page.locator(".call strong").inner_text() == "get_weather"
        page.click(".turn footer button")
        page.locator("u-look .muted", has_text="mistral").wait_for()


def test_a_cut_stream_is_reported_and_can_still_be_inspected(visit: Visit) -> None:
    with live(Scripted(cut(RAW), hang_after=8), "hermes") as server:
        page = thinking(visit, server)
        loop = next(iter(server.server.server_state.connections)).loop
        for connection in list(server.server.server_state.connections):
            loop.call_soon_threadsafe(connection.transport.abort)
        page.locator(".warning", has_text="connection was lost").wait_for()
        visit.shot("cut")
        page.click("text=Look inside >> nth=-1")
        page.locator("u-look .warning", has_text="connection was lost").wait_for()
        assert page.locator(".chip").count() == 8


def test_an_answer_can_be_stopped(visit: Visit) -> None:
    with live(Scripted(cut(RAW), hang_after=8), "hermes") as server:
        page = thinking(visit, server)
        page.click(".say button")
        page.locator(".warning", has_text="stopped").wait_for()
        until(lambda: server.engine.cancelled == 1)


def test_an_enter_that_chooses_characters_sends_nothing(visit: Visit) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = begin(visit, server)
        page.fill(".say textarea", "ni hao")
        for told in ("isComposing: true", "keyCode: 229"):  # Safari tells only the latter
            event = f"new KeyboardEvent('keydown', {{ key: 'Enter', cancelable: true, {told} }})"
            assert page.evaluate(f"document.querySelector('.say textarea').dispatchEvent({event})"), "the browser's own"
        assert page.input_value(".say textarea") == "ni hao"
        assert page.locator(".turn").count() == 0


def test_errors_are_reported_before_and_within_an_answer(visit: Visit) -> None:
    with live(Scripted(cut(RAW), fail_after=10), "hermes") as server:
        page = begin(visit, server)
        say(page)
        page.locator(".error", has_text="the device is lost").wait_for()
        assert page.locator(".reasoning").count() == 1
        visit.shot("error")
    with live(Scripted([], fail_after=0), "hermes") as server:
        page = begin(visit, server)
        say(page)
        page.locator(".error", has_text="refused: the device is lost").wait_for()


HOSTILE = (
    "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
    "</div></pre><a href='javascript:alert(1)'>x</a> \u202eevil\u202c \u2066hidden\u2069 &lt;b&gt;"
)


def test_hostile_output_stays_text(visit: Visit) -> None:
    call = json.dumps({"name": "<img src=x onerror=alert(1)>", "arguments": {"<b>": HOSTILE}})
    raw = f"<think>\n{HOSTILE}\n</think>\n\n{HOSTILE}\n<tool_call>\n{call}\n</tool_call>"
    markup = "document.querySelectorAll('main :is(script, img, iframe, a, b)').length"
    with live(Scripted(cut(raw, 7)), "hermes") as server:
        page = talked(visit, server, HOSTILE)
        assert page.title() == "unspool · served"
        shown = HOSTILE
        for odd in "\u202e\u202c\u2066\u2069":
            shown = shown.replace(odd, f"U+{ord(odd):04X}")
        assert page.locator(".part.content").inner_text() == shown
        assert page.locator(".call strong").inner_text() == "<img src=x onerror=alert(1)>"
        assert page.evaluate(markup) == 0
        page.click(".turn footer button")
        page.locator(".chip").first.wait_for()
        page.locator("#s-protocols").scroll_into_view_if_needed()
        page.locator("#s-protocols .bytes", has_text="script").wait_for()
        assert page.evaluate(markup) == 0
        assert page.title() == "unspool · served"
        visit.shot("hostile")


def test_the_page_stays_usable_with_five_megabytes(visit: Visit) -> None:
    big = "<script>alert(1)</script> word \u202e" * 160_000
    assert len(big) > 5_000_000
    with live(Scripted(cut(big, 20_000)), "hermes") as server:
        page = begin(visit, server)
        began = time.monotonic()
        say(page)
        page.set_default_timeout(60_000)
        answered(page)
        page.locator("button.quiet", has_text="more characters").wait_for()
        assert time.monotonic() - began < 40
        page.click("text=Look inside >> nth=-1")
        page.locator(".chip").first.wait_for()
        assert page.locator(".chip").count() == len(cut(big, 20_000)) + 1
        page.locator("#s-protocols").scroll_into_view_if_needed()
        page.locator("#s-protocols .error", has_text="allowed are 4,194,304").wait_for()


def test_a_key_is_asked_for_and_a_wrong_one_again(visit: Visit) -> None:
    with live(Scripted(["Hi."]), "hermes", api_key="sesame") as server:
        page = begin(visit, server)
        page.fill("dialog input", "open")
        page.click("dialog button.primary")
        page.locator("dialog .error").wait_for()
        visit.shot("key", whole=False)
        page.fill("dialog input", "sesame")
        page.press("dialog input", "Enter")
        page.locator("u-try .muted", has_text="Talk to served").wait_for()
        say(page)
        answered(page)


# -- look inside -------------------------------------------------------------------------------------------------------


def test_chips_tile_the_output_and_show_what_was_held(visit: Visit) -> None:
    pieces = [
        "<think>\n",
        "A th",
        "ought.</th",
        "ink>\n\nHi <tool",
        '_call>\n{"name": "get_weather", "arg',
        'uments": {"city":',
        ' "Rome"}}\n</tool_call>',
    ]
    with live(Scripted(pieces), "hermes") as server:
        page = talked(visit, server, inside=True)
        chips = page.locator(".chip")
        chips.first.wait_for()
        assert chips.count() == len(pieces) + 1  # and the chip with the finish reason
        tiles = page.evaluate("[...document.querySelectorAll('.tile')].map(n => n.textContent.replaceAll('↵', ''))")
        assert "".join(tiles) == "".join(pieces) + "∅"
        chips.nth(2).hover()
        panel = page.locator(".panel")
        assert "held" in (chips.nth(2).get_attribute("class") or "")
        assert "</think>" in panel.locator(".may").inner_text()
        assert "reasoning_delta" in panel.inner_text()
        chips.nth(0).focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert "Chunk 4" in panel.inner_text()
        assert "does not say which tokens" in page.locator(".grain").inner_text()
        assert "content_delta" in panel.inner_text()
        assert "<tool_call>" in panel.locator(".may").inner_text()
        assert page.locator(".timeline rect").count() > 5


def test_every_protocol_is_shown_as_the_server_writes_it(visit: Visit) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = talked(visit, server, inside=True)
        page.locator("#s-protocols").scroll_into_view_if_needed()
        shown = page.locator("#s-protocols .bytes")
        for name, sign in (
            ("Chat completions", "chat.completion.chunk"),
            ("Responses", "response.output_text.delta"),
            ("Messages", "event: content_block_delta"),
            ("AG-UI", "TOOL_CALL_ARGS"),
            ("MindIE", "data: "),
        ):
            page.click(f"#s-protocols .choices >> text='{name}'")
            shown.filter(has_text=sign).wait_for()
        page.click("#s-protocols .choices >> text='Chat completions'")
        page.click("#s-protocols .choices >> text='whole'")
        shown.filter(has_text='"object":"chat.completion"').wait_for()
        message = json.loads(shown.inner_text())["choices"][0]["message"]
        assert message["content"] == "Let me look."
        assert message["tool_calls"][0]["function"]["arguments"] == '{"city": "Paris"}'


def test_an_engine_at_a_url_shows_its_prompt_its_grammar_and_its_tokens(visit: Visit) -> None:
    with (
        raw_endpoint() as (url, _),
        live(
            Upstream(url, tokenizer=Tokenizer.from_file(str(FOLDER / "tokenizer.json"))),
            "hermes",
            prompts=Prompts(read_tokenizer(FOLDER)),
            strict_level=ToolStrictLevel.PARAMETER,
        ) as server,
    ):
        page = begin(visit, server)
        page.click(".ideas button >> nth=0")
        answered(page)
        assert page.locator(".call").count() == 1
        page.click(".turn footer button")
        page.locator(".prompt mark").nth(2).wait_for()
        page.locator("#s-grammar").scroll_into_view_if_needed()
        page.locator("#s-grammar .bytes", has_text="llguidance").wait_for()
        page.click("#s-grammar .choices >> text='gbnf'")
        page.locator("#s-grammar .bytes", has_text="root ::=").wait_for()
        page.locator(".grain", has_text="Every box is one token").wait_for()
        page.locator(".chip").first.hover()
        assert "Token 1" in page.locator(".panel").inner_text()
        visit.shot("tokens-look")


# -- the bench ---------------------------------------------------------------------------------------------------------


def bench(visit: Visit, server: Live) -> Any:
    page = begin(visit, server, "bench")
    page.locator("u-bench .chip").first.wait_for()
    return page


def test_every_dialect_has_an_example_at_a_click(visit: Visit) -> None:
    with live(Scripted([]), "hermes") as server:
        page = bench(visit, server)
        for name in ("mistral", "harmony", "qwen3-coder", "kimi_k2"):
            page.locator("u-reading select").first.select_option(name)
            page.locator("u-bench textarea.raw").wait_for()
            raws = [raw for example in get_dialect(name).examples for raw in example.raw]
            until(partial(lambda shown, raws: shown.input_value() in raws, page.locator("u-bench textarea.raw"), raws))
            page.locator("u-bench .call .status.ok").first.wait_for()
        visit.shot("bench")


def test_an_output_is_read_while_it_is_typed_under_edited_policies_tools_and_cuts(visit: Visit) -> None:
    with live(Scripted([]), "hermes") as server:
        page = bench(visit, server)
        bad = '<tool_call>\n{"name": "f", "arguments": {"a": 1,}}\n</tool_call>'
        page.fill("u-bench textarea.raw", bad)
        page.click("u-bench summary:has-text('Tools')")
        page.locator("u-bench .card.input textarea.code").nth(1).fill("")
        page.locator("u-bench .call.invalid").wait_for()
        page.click("u-bench summary:has-text('Policies')")
        page.locator(".policies label", has_text="bad_arguments").locator("select").select_option(label="repair")
        page.locator("u-bench .call .status.repaired").wait_for()
        page.locator("u-bench .notice", has_text="repaired").wait_for()
        page.locator("u-bench label", has_text="Cuts").locator("select").select_option("whole")
        until(lambda: page.locator("u-bench .chip").count() == 2)
        page.fill("u-bench textarea.raw", "Hello ✂wor✂ld")
        page.locator("u-bench label", has_text="Cuts").locator("select").select_option("hand")
        until(lambda: page.locator("u-bench .chip").count() == 4)
        assert page.locator("u-bench .part.content").inner_text() == "Hello world"


def test_the_dialects_own_file_can_be_edited(visit: Visit) -> None:
    with live(Scripted([]), "hermes") as server:
        page = bench(visit, server)
        page.click("u-bench summary:has-text('The dialect')")
        file = page.locator("u-reading textarea.code")
        own = file.input_value()
        file.fill(own.replace("<tool_call>", "<ACT>").replace("</tool_call>", "</ACT>"))
        page.fill("u-bench textarea.raw", '<ACT>\n{"name": "get_weather", "arguments": {}}\n</ACT>')
        until(lambda: page.locator("u-bench .call .status.ok").count() == 1)
        file.fill("name = 5")
        page.locator("u-reading .error", has_text="dialect.toml").wait_for()
        page.click("text=Undo the changes")
        page.locator("u-bench .part.content", has_text="<ACT>").wait_for()
        page.click("text=Check its examples")
        page.locator(".good", has_text="All examples pass").wait_for()


def test_two_readings_are_compared_and_a_dialect_is_detected(visit: Visit) -> None:
    with live(Scripted([]), "json") as server:
        page = bench(visit, server)
        page.fill("u-bench textarea.raw", RAW)
        page.click("u-bench label.check")
        until(lambda: page.locator("u-reading").count() == 2)
        page.locator(".verdict", has_text="A and B give the same result").wait_for()
        page.locator("u-reading").nth(1).locator("select").first.select_option("hermes")
        page.locator(".verdict", has_text="differ").wait_for()
        visit.shot("compare")
        page.click("text=Detect")
        until(lambda: page.locator("u-reading select").first.input_value() in ("hermes", "qwen3"))


# -- recordings --------------------------------------------------------------------------------------------------------


def drop(page: Any, name: str, text: str) -> None:
    page.evaluate(
        """([name, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name));
            for (const type of ["dragenter", "dragover", "drop"])
                window.dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
        }""",
        [name, text],
    )


def test_a_capture_opens_by_drag_and_drop_and_what_is_saved_reads_the_same(
    visit: Visit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Capture(Scripted(cut(RAW)), tmp_path / "c", dialect="hermes")
    with live(engine, "hermes") as server:
        server.post(messages=HELLO, tools=[WEATHER])
        file = next((tmp_path / "c").iterdir())
        page = begin(visit, server)
        drop(page, file.name, file.read_text())
        page.locator("u-look .chip").first.wait_for()
        page.locator("u-look .call .status.ok").wait_for()
        with page.expect_download() as download:
            page.click("u-look button.save")
        saved = tmp_path / "saved.jsonl"
        download.value.save_as(saved)
        drop(page, "no.jsonl", "just text")
        page.locator(".alerts .error", has_text="not a recording").wait_for()
    before, after = read_recordings(file)[0], read_recordings(saved)[0]
    assert after.text == before.text == RAW
    assert after.asked == before.asked
    assert len(after.pieces) == len(before.pieces)
    assert main(["parse", str(saved)]) == 0
    assert json.loads(capsys.readouterr().out)["content"] == parse(RAW, "hermes").content


def test_what_the_bench_saves_carries_its_dialect_and_policies(visit: Visit, tmp_path: Path) -> None:
    with live(Scripted([]), "hermes") as server:
        page = bench(visit, server)
        page.click("u-bench summary:has-text('The dialect')")
        file = page.locator("u-reading textarea.code")
        file.fill(file.input_value().replace("tool_call>", "do>"))
        page.fill("u-bench textarea.raw", 'é\u202e<do>\n{"name": "get_weather", "arguments": {}}\n</do>')
        until(lambda: page.locator("u-bench .call").count() == 1)
        with page.expect_download() as download:
            page.click("u-reading button.save")
        saved = tmp_path / "saved.jsonl"
        download.value.save_as(saved)
    message = read_recordings(saved)[0].parse()
    assert (message.content, [c.name for c in message.tool_calls]) == ("é\u202e", ["get_weather"])


def test_show_opens_a_recording_from_the_command_line(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    write_recording(file, Asked(dialect="hermes", tools=[WEATHER]), cut(RAW))
    command = [sys.executable, "-m", "unspool", "show", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shown:
        try:
            assert shown.stdout is not None
            url = shown.stdout.readline().strip()
            assert url.endswith("/#look")
            assert shown.stderr is not None
            while "listening" not in shown.stderr.readline():
                pass
            visit.page.goto(url)
            visit.page.locator("u-look .chip").first.wait_for()
            visit.page.locator("u-look .call .status.ok").wait_for()
        finally:
            shown.terminate()


def test_an_image_is_shown_in_its_place_in_the_prompt(visit: Visit, tmp_path: Path) -> None:
    picture, prompt = png(40, 30), "\U0001f600 <|user|>What is <|pad|>this?"
    start = prompt.index("<|pad|>")
    medium = PlacedMedium("image", "image/png", digest(picture), start, start + len("<|pad|>"))
    sound = PlacedMedium("audio", "audio/wav", digest(b""), len(prompt), len(prompt))
    (tmp_path / "media").mkdir()
    (tmp_path / medium.path).write_bytes(picture)
    write_recording(tmp_path / "r.jsonl", Asked(dialect="hermes", prompt=prompt, media=[medium, sound]), ["A cat."])
    with live(Scripted([]), "hermes", shown=_lines(str(tmp_path / "r.jsonl"), None)) as server:
        page = begin(visit, server, "look")
        image = page.locator("u-look .prompt img.medium")
        image.wait_for()
        assert image.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [40, 30]
        assert image.evaluate("image => image.previousSibling.textContent").endswith("What is <|pad|>")
        assert image.evaluate("image => image.nextSibling.textContent") == "this?"
        assert page.locator("u-look .prompt mark").inner_text() == "[audio]"


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "visit", [{"bypass_csp": True}, {"locale": "zh-CN", "bypass_csp": True, **PHONE}], indirect=True
)
def test_a_session_is_shown_as_a_tree_and_each_row_in_the_colours_of_its_tokens(visit: Visit) -> None:
    model = Model(lambda request: CALL if len(model.requests) == 1 else f"Say {len(model.requests)}.")
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        session = made(server, id="run-1")
        first = ask(session, server, CHAT, messages=HELLO, tools=[WEATHER]).json()["choices"][0]["message"]
        for result in ("20 C", "30 C"):
            sent = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": result}
            ask(session, server, CHAT, messages=[*HELLO, first, sent], tools=[WEATHER])
        ask(session, server, CHAT, messages=[{"role": "user", "content": "Another."}], tools=[WEATHER])
        rows = trajectory(server, session)["rows"]
        page = begin(visit, server, "sessions")
        page.locator("u-sessions .sessions button", has_text="run-1").click()
        page.locator("u-sessions .tokens").nth(2).locator(".k-marker").last.wait_for()
        page.wait_for_load_state("networkidle")
        page.evaluate(AXE.read_text())
        assert violations(page) == []
        visit.shot(f"sessions-{page.locator('html').get_attribute('lang')}")
        assert page.locator("u-sessions .tree > li", has_text="get_weather (ok)").count() == 1
        assert page.locator("u-sessions .tree .tree > li").count() == 2, "two answers continue the first"
        for place, row in enumerate(rows):
            shown = page.locator("u-sessions .tokens").nth(place)
            for kind in {*row["kinds"]}:
                ids = [i for i, k in zip(row["input_ids"], row["kinds"], strict=True) if k == kind]
                text = "".join(shown.locator(f"[data-kind={kind}]").all_text_contents())
                assert text == model.tokenizer.decode(ids, skip_special_tokens=False)
            learnt = "".join(shown.locator(".learnt").all_text_contents())
            ids = [i for i, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]
            assert learnt == model.tokenizer.decode(ids, skip_special_tokens=False)
    with live(Scripted(["Hi."]), "hermes") as server:
        page = begin(visit, server)
        page.locator(".ideas").wait_for()
        assert not page.locator("[data-view=sessions]").is_visible()


# -- everywhere --------------------------------------------------------------------------------------------------------


def test_both_languages_say_everything(visit: Visit) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = talked(visit, server)
        page.click("button.language")
        assert page.locator("html").get_attribute("lang") == "zh-CN"
        assert page.locator(".top nav").inner_text().split() == ["试用", "透视", "工作台"]
        assert page.locator(".turn.assistant .call").count() == 1  # the conversation is kept
        visit.shot("chinese-try")
        for view in ("look", "bench"):
            page.evaluate(f"location.hash = '#{view}'")
            page.locator(f"u-{view} .chip").first.wait_for()
            visit.shot(f"chinese-{view}")
        page.reload()
        assert page.locator("html").get_attribute("lang") == "zh-CN"
        page.click("button.language")
        assert page.locator(".top nav").inner_text().split("\n") == ["Try it", "Look inside", "Bench"]


@pytest.mark.parametrize(
    ("visit", "name"),
    [
        ({}, "light"),
        ({"color_scheme": "dark"}, "dark"),
        (PHONE, "phone"),
        ({**PHONE, "color_scheme": "dark"}, "phone-dark"),
    ],
    indirect=["visit"],
)
def test_every_view_fits_the_screen(visit: Visit, name: str) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = begin(visit, server)
        visit.shot(f"{name}-0-first", whole=False)
        say(page)
        answered(page)
        visit.shot(f"{name}-1-try", whole=False)
        for i, view in enumerate(("try", "look", "bench")):
            page.evaluate(f"location.hash = '#{view}'")
            page.wait_for_timeout(500)
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wide) <= 0, view
            if i:
                visit.shot(f"{name}-{i + 1}-{view}")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(18, 19, 26)") == ("dark" in name)


def test_everything_is_reached_by_keyboard(visit: Visit) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = begin(visit, server)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert unreached(page) == []
        page.focus(".say textarea")
        page.keyboard.type("Hello")
        page.keyboard.press("Enter")
        answered(page)
        assert unreached(page) == []
        page.focus(".turn footer button")
        page.keyboard.press("Enter")
        page.locator("u-look .chip").first.wait_for()
        page.locator("#s-grammar").scroll_into_view_if_needed()
        page.wait_for_load_state("networkidle")
        assert unreached(page) == []
        page.focus(".top nav a[data-view=bench]")
        page.keyboard.press("Enter")
        page.locator("u-bench .chip").first.wait_for()
        page.focus("u-bench input[type=checkbox]")
        page.keyboard.press("Space")
        page.locator("u-bench .verdict.good").wait_for()
        page.evaluate("document.querySelectorAll('u-bench details').forEach((one) => (one.open = true))")
        assert unreached(page) == []


def unreached(page: Any) -> list[str]:
    """Elements that can be used or scrolled, but not reached with Tab; of a group of radio buttons, one is enough."""
    page.evaluate(
        """() => {
            const fields = 'select, textarea, input:not([type=radio], [hidden]), input:checked';
            const used = `a[href], button, summary, [tabindex="0"], ${fields}`;
            const usable = (one) => one.checkVisibility() && !one.disabled;
            window.wanted = [...document.querySelectorAll(used)].filter(usable);
            window.seen = new Set();
            addEventListener('focusin', ({target}) => seen.add(target));
            document.activeElement.blur();
        }"""
    )
    count = page.evaluate("wanted.length")
    assert count > 10
    for _ in range(count + 5):
        page.keyboard.press("Tab")
    found: list[str] = page.evaluate("wanted.filter((one) => !seen.has(one)).map((one) => one.outerHTML.slice(0, 99))")
    return found


BROKEN = (
    "<think>\nA thought.\n</think>\n\nLet \u202eme.\n<tool_call>\n"
    '{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "gone", "arguments": {"a": 1\n</tool_call>'
)


@pytest.mark.parametrize(
    "visit",
    [
        {"locale": locale, "color_scheme": scheme, "bypass_csp": True, **screen}
        for locale in ("en-US", "zh-CN")
        for scheme, screen in (("light", {}), ("dark", {}), ("light", PHONE), ("dark", PHONE))
    ],
    ids=lambda one: f"{one['locale'][:2]}-{one['color_scheme']}-{'phone' if 'is_mobile' in one else 'desk'}",
    indirect=True,
)
def test_an_accessibility_checker_finds_nothing(visit: Visit) -> None:
    """Every view follows axe-core's rules for WCAG 2.2 AA and its best practices, with everything unfolded."""
    with live(Scripted(cut(BROKEN)), "hermes") as server:
        page = begin(visit, server)
        page.evaluate(AXE.read_text())
        page.locator(".ideas").wait_for()
        found = violations(page)
        say(page)
        answered(page)
        found += violations(page)
        for view in ("look", "bench"):
            page.evaluate(f"location.hash = '#{view}'")
            page.locator(f"u-{view} .chip").first.wait_for()
            if view == "look":
                for section in ("protocols", "grammar"):
                    page.locator(f"#s-{section}").scroll_into_view_if_needed()
                    page.wait_for_load_state("networkidle")  # the view asks the server when it is first shown
            found += violations(page)
        page.locator("u-bench input[type=checkbox]").check()
        page.locator("u-bench .verdict.good").wait_for()
        found += violations(page)
    assert found == []


def violations(page: Any) -> list[str]:
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.evaluate("scrollTo(0, 0)")  # the frame stays above scrolled content
    page.wait_for_timeout(300)  # animations change the contrast
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("(rules) => axe.run(document, {runOnly: rules})", rules)["violations"]
    return [f"{one['id']}: {node['target']} {node['html'][:90]}" for one in found for node in one["nodes"][:3]]


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(root)]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = {Path(name).name for name in wheel.namelist() if name.startswith("unspool/server/ui/")}
    assert held == {file.name for file in (root / "src/unspool/server/ui").iterdir()}


def test_an_answer_that_comes_while_the_language_is_switched_is_not_lost(visit: Visit) -> None:
    with live(Scripted(cut(RAW), hang_after=8), "hermes") as server:
        page = thinking(visit, server)
        page.click("button.language")
        page.locator(".warning", has_text="停止").wait_for()
        assert page.locator(".turn.assistant .reasoning").count() == 1
        until(lambda: server.engine.cancelled == 1)
        page.click(".turn footer button")
        page.locator("u-look .chip").first.wait_for()


# -- first contact -----------------------------------------------------------------------------------------------------


def test_a_conversation_is_there_again_after_the_page_is_loaded_again(visit: Visit) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        page = talked(visit, server, "What is the weather?")
        page.reload()
        answered(page)
        assert page.locator(".turn.user").all_inner_texts() == ["What is the weather?"]
        assert page.locator(".turn.assistant .part.content").inner_text() == "Let me look."
        page.fill(".results textarea", "sunny")
        page.click(".results button")
        until(lambda: len(server.engine.requests) == 2)
        assert [m["role"] for m in server.engine.requests[1].messages] == ["user", "assistant", "tool"]
        until(lambda: page.locator(".turn.assistant footer").count() == 2)
        page.reload()
        until(lambda: page.locator(".turn.assistant footer").count() == 2)
        page.click(".turn footer button >> nth=0")
        page.locator("#s-output .chip").first.wait_for()
        page.click("a[data-view=try]")
        page.click("text=New conversation")
        page.reload()
        page.locator(".ideas").wait_for()
        assert page.locator(".turn").count() == 0


def test_a_conversation_that_is_too_large_to_keep_disturbs_nothing(visit: Visit) -> None:
    with live(Scripted(["x" * 8_000_000]), "hermes") as server:
        page = talked(visit, server)
        page.reload()
        page.locator(".ideas").wait_for()


def test_a_calls_frame_shows_whether_it_is_valid(visit: Visit) -> None:
    def frame(page: Any) -> str:
        return str(call(page).evaluate("node => getComputedStyle(node).borderTopColor"))

    def call(page: Any, how: str = "") -> Any:
        return page.locator(f"u-bench .call{how}[aria-label='Call f']")

    with live(Scripted([]), "hermes") as server:
        page = bench(visit, server)
        found = {}
        for how, body in {"ok": '{"a": 1}', "invalid": '{"a": 1,}'}.items():
            page.fill("u-bench textarea.raw", f'<tool_call>\n{{"name": "f", "arguments": {body}}}\n</tool_call>')
            call(page, f".{how}").wait_for()
            found[how] = frame(page)
    assert found["ok"] != found["invalid"]


def test_every_policy_is_explained(visit: Visit) -> None:
    with live(Scripted([]), "hermes") as server:
        for language in ("en", "zh"):
            page = bench(visit, server)
            if language == "zh":
                page.click("button.language")
                page.locator("u-bench .chip").first.wait_for()
            said = page.locator("u-reading .policies small").all_text_contents()
            assert len(said) == len(CHOICES)
            assert all(said)
            assert all(text.isascii() for text in said) == (language == "en")


def test_special_tokens_are_said_to_be_highlighted_only_where_some_are(visit: Visit) -> None:
    prompts = Prompts(read_tokenizer(FOLDER))
    for known, engine in ((prompts, Scripted(["Hi."])), (None, Scripted(["Hi."]))):
        with live(engine, "hermes", prompts=known) as server:
            page = talked(visit, server, inside=True)
            page.locator("#s-prompt .prompt").wait_for()
            marked = page.locator("#s-prompt mark").count() > 0
            assert marked is (known is not None)
            assert page.locator("#s-prompt", has_text="Special tokens are highlighted").count() == int(marked)


def test_the_bench_names_another_dialect_if_only_that_one_fits(visit: Visit) -> None:
    with live(Scripted([]), "hermes") as server:
        page = bench(visit, server)
        page.fill("u-bench textarea.raw", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}')
        advice = page.locator("u-bench [role=status]", has_text="No marker of hermes is in this output")
        advice.locator("button").wait_for()
        page.fill("u-bench textarea.raw", '<tool_call>\n{"name": "f", "arguments": {"a": 1,}}\n</tool_call>')
        advice.wait_for(state="detached")
        page.fill("u-bench textarea.raw", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}')
        advice.locator("button").click()
        until(lambda: page.locator("u-reading select").first.input_value() != "hermes")
        page.locator("u-bench .call .status.ok").wait_for()
        page.fill("u-bench textarea.raw", "Just prose.")
        page.locator("u-bench .part.content", has_text="Just prose.").wait_for()
        assert page.locator("u-bench", has_text="No marker of").count() == 0
