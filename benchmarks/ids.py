"""Token ids, beside the text that they decode to."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

from unspool import Parser, Stage
from unspool.tokens import Detokenizer

from .clock import ROUND, seconds, time_feed
from .effort import Effort
from .samples import Sample, content_sample, nested_sample, string_sample
from .table import Row, ranked
from .texts import PROSE, SOURCE, TOOLS, ever_new

_MOST: Final = 4.0
_SCRIPTS: Final = "Погода в Кёльне: 3 °C, дождь. 今日は雨ですから、電車で行きます。 서울은 맑습니다 🌤️ — ça va? "
_VOCABULARY: Final = Path(__file__).parent.parent / "examples" / "tokenizer" / "tokenizer.json"


def ids(effort: Effort) -> Iterator[Row]:
    """feed_tokens() of one id after the other, relative to feed() of their texts: the dearest of four samples."""
    rounds = max(5, effort.rounds // 4)
    prose, source, scripts = (ever_new(text, ROUND) for text in (PROSE, SOURCE, _SCRIPTS))
    for tokenizer, of in ((_subwords(), "a byte-level vocabulary of 1,500"), (_bytes(), "single bytes")):
        found = [
            (max(_beside_text(sample, tokenizer, rounds) for sample in samples), dialect)
            for dialect in effort.dialects()
            if (
                samples := (
                    string_sample(dialect, source),
                    content_sample(dialect, prose),
                    content_sample(dialect, scripts),
                    nested_sample(dialect),
                )
            )
        ]
        yield from ranked("a token id, relative to its text", found, "×", worst=_MOST, of=of)


def _beside_text(sample: Sample, tokenizer: Any, rounds: int) -> float:
    """The time for the ids of a sample's body and tail, relative to that for their texts."""
    head, tokens = (
        tokenizer.encode(text, add_special_tokens=False).ids for text in (sample.head, sample.body + sample.tail)
    )
    decoder = Detokenizer(tokenizer)
    texts = [whole for token in tokens if (whole := "".join(decoder.push(token)))]
    found: list[float] = []
    for _ in range(rounds):
        of_text, of_ids = sample.begun(), _parser(sample, tokenizer)
        of_ids.feed_tokens(head)
        text_time, ids_time = time_feed(of_text.feed, texts), _time_ids(of_ids.feed_tokens, tokens)
        sample.check(of_text, 1, closed=True)
        sample.check(of_ids, 1, closed=True)
        found.append(ids_time / text_time)
    return median(found)


def _parser(sample: Sample, tokenizer: Any) -> Parser:
    return Parser(sample.dialect, tools=TOOLS, stage=Stage.CONTENT, tokenizer=tokenizer)


def _time_ids(feed: Callable[[list[int]], Any], tokens: list[int]) -> float:
    """Seconds for feeding the ids one by one."""
    start = seconds()
    for token in tokens:
        feed([token])
    return seconds() - start


def _subwords() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(_VOCABULARY))


def _bytes() -> Any:
    """A tokenizer whose tokens are bytes, so that it splits every character beyond ASCII."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made
