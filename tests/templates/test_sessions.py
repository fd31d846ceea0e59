"""Sessions with the families' own chat templates: rows are what a server that speaks as vLLM was sent and sampled."""

from pathlib import Path
from typing import Any

import pytest

import unspool
from unspool.engines.upstream import Upstream

from ..server.support import live
from ..sessions.proxy import Proxy, serving
from ..sessions.support import check, made, trajectory, tree
from ..sessions.vllm import Scripted
from ..support import calling
from .table import Source
from .test_continuation import ASKED, CASES, RESULT, THOUGHT, asked, call, letters, tokenizer
from .test_prompts import checked
from .turns import TOOLS

pytestmark = pytest.mark.templates


@CASES
def test_rows_are_what_the_engine_was_sent_and_sampled(source: Source, templates: dict[str, Path]) -> None:
    prompts = checked(source, templates)
    encoder = tokenizer(source.text(templates), source.dialect)
    dialect = unspool.get_dialect(source.dialect)
    end = next(i for e in (*dialect.end, "<EOS>") if (i := encoder.token_to_id(e)) is not None)
    closed = [e for e in dialect.end if e.strip()]  # some write the end themselves
    engine = Scripted(
        lambda text: letters(encoder, text) + [end] * (not text.endswith(tuple(closed))),
        lambda id: str(encoder.decode([id], skip_special_tokens=False)),
    )
    messages: list[Any] = [ASKED]
    says: list[dict[str, Any]] = [
        calling(call(dialect), content=None, reasoning_content=THOUGHT),
        {"role": "assistant", "content": "It is warm.", "reasoning_content": THOUGHT},
        {"role": "assistant", "content": "Bye."},
    ]
    with serving(engine.app()) as url, Proxy(url).running() as proxy:
        upstream = Upstream(proxy.url, tokenizer=encoder)
        with live(upstream, source.dialect, prompts=prompts, sessions=True) as server:
            session = made(server)
            assert session["exact"], session["problems"]
            proxy.record.clear()
            client = server.openai.with_options(api_key=session["key"])
            for said in says:
                shown = said if dialect.reasoning else {**said, "reasoning_content": None}
                prompt = prompts.render(asked([{**m, "content": m.get("content")} for m in messages], source))
                stage = unspool.detect_stage(dialect, prompt)
                engine.outputs.append(unspool.render(shown, dialect, tools=TOOLS, stage=stage))
                answer = client.chat.completions.create(
                    model="m",
                    messages=messages,
                    tools=TOOLS,  # type: ignore[arg-type]
                    extra_body={"chat_template_kwargs": dict(source.variables)} if source.variables else None,
                )
                message = answer.choices[0].message.model_dump(exclude_none=True)
                message.pop("reasoning_content", None)
                messages.append(message)
                for made_call in message.get("tool_calls", ()):
                    messages.append({"role": "tool", "tool_call_id": made_call["id"], "content": RESULT})
                if not message.get("tool_calls"):
                    messages.append({"role": "user", "content": "And then?"})
            found = trajectory(server, session)
    check(found, proxy.record)
    assert {c["logprobs_kind"] for c in found["calls"]} == {"processed"}
    assert [c["weight_version"] for c in found["calls"]] == ["3"] * 3
    for made_call in found["calls"]:
        prompt = encoder.decode(made_call["prompt_ids"], skip_special_tokens=False)
        assert [e for e in closed if e + e in prompt] == []
    assert tree(found) == [(None, None), (0, None), (1, None)]
