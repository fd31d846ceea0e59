"""The page in the other two engines that browsers are made of: Firefox's and WebKit's."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..server.support import Live, Scripted, live
from .conftest import SHOTS
from .test_page import BROKEN, HOSTILE, RAW, cut
from .webdriver import Driven, Firefox, WebKit

pytestmark = pytest.mark.browsers


@pytest.fixture(params=[Firefox, WebKit])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    found = request.param(tmp_path)
    yield found
    found.close()


def begin(browser: Driven, server: Live) -> None:
    browser.open(server.url)
    browser.until("document.querySelector('.ideas button')")
    browser.run("window.faults = []; addEventListener('error', ({message}) => faults.push(message));")
    browser.run("addEventListener('unhandledrejection', ({reason}) => faults.push(String(reason)));")


def say(browser: Driven, text: str = "Hello") -> None:
    browser.run("document.querySelector('.say textarea').focus()")
    browser.press(*text, "Enter")
    browser.until("document.querySelector('.turn.assistant footer')")


def shot(browser: Driven, name: str) -> None:
    if SHOTS:
        browser.shot(Path(SHOTS) / f"{type(browser).__name__.lower()}-{name}.png")


def texts(browser: Driven, selector: str) -> list[str]:
    found: list[str] = browser.run(
        "return [...document.querySelectorAll(arguments[0])].map((n) => n.textContent)", selector
    )
    return found


def test_an_answer_is_written_explained_and_read_anew_by_keyboard(browser: Driven) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        begin(browser, server)
        say(browser)
        assert texts(browser, ".call strong") == ["get_weather"]
        assert json.loads(texts(browser, ".call .arguments")[0]) == {"city": "Paris"}
        assert texts(browser, ".part.content") == ["Let me look."]
        shot(browser, "try")
        browser.run("document.querySelector('.turn footer button').focus()")
        browser.press("Enter")
        browser.until("document.querySelector('u-look .chip')")
        assert "".join(texts(browser, "u-look .tile")).replace("↵", "") == RAW + "∅"
        browser.run("document.querySelector('u-look .chip').focus()")
        browser.press("Right", "Right")
        assert texts(browser, "u-look .panel h4")[0].startswith("Chunk 3")
        assert browser.run("return document.querySelectorAll('.timeline rect').length") > 5
        shot(browser, "look")
        browser.run("document.querySelector('#s-protocols').scrollIntoView()")
        browser.until("document.querySelector('#s-protocols .bytes')?.textContent.includes('chat.completion.chunk')")
        browser.run("document.querySelector('#s-protocols input[value=ag-ui]').focus()")
        browser.press("Space")
        browser.until("document.querySelector('#s-protocols .bytes').textContent.includes('TOOL_CALL_ARGS')")
        browser.run("location.hash = '#bench'")
        browser.until("document.querySelector('u-bench .chip')")
        browser.run("document.querySelector('u-bench input[type=checkbox]').focus()")
        browser.press("Space")
        browser.until("document.querySelector('.verdict.good')")
        shot(browser, "bench")
        browser.run("document.querySelector('button.language').focus()")
        browser.press("Enter")
        assert browser.until("document.documentElement.lang") == "zh-CN"
        assert texts(browser, ".top nav a:not([hidden])") == ["试用", "透视", "工作台"]
        assert browser.run("return faults") == []


def test_hostile_and_broken_output_stays_text_and_is_reported(browser: Driven) -> None:
    raw = BROKEN.replace("A thought.", HOSTILE)
    with live(Scripted(cut(raw, 7)), "hermes") as server:
        begin(browser, server)
        say(browser)
        assert "<script>" in texts(browser, ".reasoning .body")[0]
        assert "U+202E" in texts(browser, ".part.content")[0]
        assert texts(browser, ".call .status:last-child") == ["ok", "invalid"]
        assert browser.run("return document.querySelectorAll('main :is(script, img, iframe, a, b)').length") == 0
        assert browser.run("return document.title") == "unspool · served"
        attempt = "try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (error) { return error.name; }"
        assert browser.run(attempt) == "TypeError"
        assert browser.run("return faults") == []


def test_a_recording_is_dropped_and_what_a_view_saves_is_the_same(browser: Driven) -> None:
    with live(Scripted(cut(RAW)), "hermes") as server:
        begin(browser, server)
        say(browser)
        # The saved file is intercepted before the browser writes it, and then dropped onto the page.
        browser.run(
            """window.saved = null;
            const make = URL.createObjectURL;
            URL.createObjectURL = (blob) => {
                blob.text().then((text) => (window.saved = text));
                return make.call(URL, blob);
            };
            document.querySelector('.turn footer .save').click();"""
        )
        text = browser.until("window.saved")
        browser.run(
            """const data = new DataTransfer();
            data.items.add(new File([arguments[0]], 'r.jsonl'));
            for (const type of ['dragenter', 'dragover', 'drop'])
                dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));""",
            text,
        )
        browser.until("document.querySelector('u-look .call .status.ok')")
        assert "".join(texts(browser, "u-look .tile")).replace("↵", "") == RAW + "∅"
