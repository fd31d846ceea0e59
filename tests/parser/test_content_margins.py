"""White space that a format puts around content is removed once, where the text of the turn begins and ends."""

from pathlib import Path

import pytest

import unspool
from tests.support import readings, run
from unspool import Dialect, Stage


@pytest.fixture
def dialect() -> Dialect:
    return unspool.load_dialect(Path(__file__).parents[1] / "dialect" / "files" / "margins.toml")


@pytest.mark.parametrize(
    ("text", "content"),
    [("  Hello.\n\n<end>", " Hello.\n"), ("\nHello. <end>", "\nHello. "), (" a\n b\n<end>", "a\n b"), ("Hi", "Hi")],
)
def test_only_the_margins_that_the_format_writes_are_removed(dialect: Dialect, text: str, content: str) -> None:
    for message in readings(dialect, text):
        assert message.content == content
    assert unspool.parse(text, dialect, prompt="hi[bot:]").content == content


def test_an_output_cut_by_length_keeps_white_space_at_its_end(dialect: Dialect) -> None:
    message, _ = run(dialect, [" Hello.\n"], finish_reason="length")
    assert message.content == "Hello.\n"


def test_text_with_margins_of_its_own_is_written_and_read(dialect: Dialect) -> None:
    raw = unspool.render({"content": " a\n"}, dialect, stage=Stage.CONTENT)
    assert raw == "  a\n\n"
    assert unspool.parse(raw, dialect).content == " a\n"
