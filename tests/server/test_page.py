"""The server side of the page: its files and headers, the origins that the server answers, and the page's requests."""

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from unspool import ToolStrictLevel, get_dialect, parse
from unspool.cli import main
from unspool.engines import Delta
from unspool.engines.capture import Asked, read_lines, write_recording
from unspool.events import NOTICES
from unspool.server.guards import Guard, check_host

from .support import CHAT, HELLO, WEATHER, Live, Scripted, chunks, live, replay

RAW = (
    '<think>\nplan\n</think>\n\nHi.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
)
FILES = sorted(file.name for file in resources.files("unspool.server").joinpath("ui").iterdir())
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(replay(RAW), "hermes") as running:
        yield running


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_browser_gets_the_page_and_every_file_that_it_names(server: Live) -> None:
    page = server.http.get("/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    asked, waiting = set(), ["/ui/app.js", *re.findall(r'(?:src|href)="([^"]+)"', page.text)]
    while waiting:
        path = waiting.pop()
        if path in asked:
            continue
        asked.add(path)
        answer = server.http.get(path)
        assert answer.status_code == 200, path
        if path.endswith(".js"):
            names = re.findall(r'^(?:import|export) .*?"\./([\w.]+)";', answer.text, re.M)
            waiting += [f"/ui/{name}" for name in names]
    assert {Path(path).name for path in asked} == {*FILES} - {"index.html"}


def test_the_page_may_ask_nobody_else_and_run_nothing_else(server: Live) -> None:
    for path in ("/", "/ui/app.js", "/ui/style.css"):
        headers = server.http.get(path, headers=BROWSER).headers
        policy = dict(rule.partition(" ")[::2] for rule in headers["content-security-policy"].split("; "))
        assert policy.pop("default-src") == "'none'"
        assert {v for k, v in policy.items() if k.endswith("-src") and k != "img-src"} == {"'self'"}
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_names_no_other_host_and_never_writes_markup() -> None:
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|style=")
    for name in FILES:
        text = resources.files("unspool.server").joinpath("ui", name).read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}, name
        assert not markup.search(text), name


def test_a_file_that_the_browser_has_is_not_sent_again(server: Live) -> None:
    tag = server.http.get("/ui/app.js").headers["etag"]
    answer = server.http.get("/ui/app.js", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
    assert server.http.get("/ui/../app.py").status_code == server.http.get("/ui/").status_code == 404


def test_clients_that_accept_json_or_text_get_an_overview(server: Live) -> None:
    answer = server.http.get("/", headers={"Accept": "application/json"}).json()
    assert (answer["name"], answer["dialect"]) == ("unspool", "hermes")
    assert {"/v1/chat/completions", "/parse", "/metrics"} <= {path["path"] for path in answer["paths"]}
    text = server.http.get("/")
    assert text.headers["content-type"].startswith("text/plain")
    assert all(path in text.text for path in ("/v1/responses", "/v1/messages", "/ag-ui", "/health"))
    assert f"curl {server.url}/v1/chat/completions" in text.text


def test_without_the_page_none_of_its_routes_exist() -> None:
    with live(Scripted([]), ui=False) as server:
        assert server.http.get("/", headers=BROWSER).headers["content-type"].startswith("text/plain")
        assert server.http.get("/ui/app.js").status_code == 404
        assert server.post("/ui/about").status_code == 404
        assert server.post("/parse", text="x").status_code == 200


def test_both_languages_have_the_same_texts_with_the_same_places() -> None:
    def texts(language: str) -> dict[str, str]:
        text = resources.files("unspool.server").joinpath("ui", f"{language}.js").read_text(encoding="utf-8")
        return dict(re.findall(r'^  "([^"]+)": "(.*)",$', text, re.M))

    en, zh = texts("en"), texts("zh")
    assert len(en) > 150
    meanings = {f"notice {kind}" for kind in NOTICES}  # the server sends the English ones
    assert zh.keys() == en.keys() | meanings
    for key, text in en.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", zh[key])), key


# -- origins and hosts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/ag-ui", "/parse", "/ui/about", "/ui/chat"])
def test_a_post_must_be_json(server: Live, path: str, given: str) -> None:
    request = server.http.build_request("POST", path, content=b"{}")
    request.headers["content-type"] = given
    answer = server.http.send(request)
    assert answer.status_code == 415
    assert "add the header 'Content-Type: application/json'" in answer.text
    assert given in answer.text
    request.headers["content-type"] = "Application/JSON; charset=utf-8"
    assert server.http.send(request).status_code != 415


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/ag-ui", "/parse", "/ui/about", "/ui/chat"])
def test_a_post_without_a_type_is_read_unless_a_browser_sends_it(server: Live, path: str) -> None:
    request = server.http.build_request("POST", path, content=b"{}")
    request.headers.pop("content-type", None)
    assert server.http.send(request).status_code != 415
    for name, value in (("origin", str(server.http.base_url).rstrip("/")), ("sec-fetch-site", "cross-site")):
        request.headers[name] = value
        answer = server.http.send(request)
        assert answer.status_code == 415
        assert "is missing; add the header 'Content-Type: application/json'" in answer.text
        del request.headers[name]


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/metrics", "/ui/app.js"])
def test_a_foreign_host_name_is_refused(server: Live, path: str) -> None:
    refused = server.http.get(path, headers={"Host": "evil.example:8192"})
    assert refused.status_code == 403
    assert "--allowed-host" in refused.text
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8192", "192.168.1.7:8192", "a.localhost"):
        assert server.http.get(path, headers={"Host": host}).status_code == 200, host


def test_other_host_names_are_allowed_one_by_one_or_all() -> None:
    def refused(hosts: tuple[str, ...], host: str) -> bool:
        return Guard(hosts).refusal({"headers": [(b"host", host.encode("latin-1"))]}) is not None

    assert not refused(("gpu.lan",), "GPU.lan.:80")
    assert refused(("gpu.lan",), "xgpu.lan")
    assert refused((), "127.0.0.1.evil.example")
    assert refused((), "localhost.evil.example")
    for odd in ("", "localhost:80@evil.example", "[::1].evil.example", "[localhost]", "localhost:", "::1", "[::1]x:80"):
        assert refused((), odd), odd
    assert refused((), "\xff\xfe")
    assert not refused(("*",), "evil.example")
    assert check_host("Gpu.LAN.") == "gpu.lan"
    for wrong in ("http://x", "x:80", "", "a b", "x/"):
        with pytest.raises(ValueError, match="is not the name of a host"):
            check_host(wrong)


def test_pages_of_the_servers_own_origin_may_use_it_by_any_of_its_names() -> None:
    guard = Guard()
    assert guard.allows("http://192.168.1.7:8192", "192.168.1.7:8192")
    assert guard.allows("https://gpu.lan", "GPU.lan")
    assert not guard.allows("http://192.168.1.7:8193", "192.168.1.7:8192")
    assert not guard.allows("null", "null")
    assert not guard.allows("http://evil.example", "192.168.1.7:8192")


def test_the_page_needs_no_key_but_what_it_asks_does() -> None:
    with live(Scripted([]), api_key="k") as server:
        assert server.http.get("/", headers=BROWSER).status_code == 200
        for path in ("/ui/about", "/ui/chat", "/ui/recordings", "/parse"):
            assert server.post(path).status_code == 401


# -- requests of the page ----------------------------------------------------------------------------------------------


def test_a_trace_contains_all_of_a_recording_with_reasons(server: Live) -> None:
    lines = chunks(server.post("/ui/chat", messages=HELLO, tools=[WEATHER]).text)
    assert [line["type"] for line in lines[:2]] == ["request", "chunk"]
    assert [line["type"] for line in lines[-2:]] == ["end", "done"]
    asked = lines[0]
    assert (asked["dialect"], asked["messages"], asked["constrained"]) == ("hermes", HELLO, False)
    recorded = [line for line in lines if line["type"] in ("request", "chunk")]
    recording = next(read_lines("trace", map(json.dumps, recorded)))
    assert recording.text == RAW
    assert recording.parse().content == "Hi."
    events = [event for line in lines for event in line.get("events", ())]
    assert [e["start"] for e in events] == [0, *(e["end"] for e in events[:-1])]
    held = [line["held"] for line in lines if "held" in line]
    assert {"marker", "space", "header"} & {one["why"] for one in held}
    for line in lines:
        if "held" in line:
            assert line["held"]["end"] == sum(len(x["text"]) for x in lines[1 : lines.index(line) + 1])


@pytest.mark.parametrize(
    ("pieces", "held"),
    [
        (["<thi"], {"start": 0, "end": 4, "why": "marker", "may_be": ["<think>"]}),
        (["<think>", "\n"], {"start": 7, "end": 8, "why": "space"}),
        (["Hi ", "<tool_call>", '\n{"na'], {"start": 2, "end": 19, "why": "header"}),
        (["Hi"], None),
    ],
)
def test_held_text_has_a_reason(server: Live, pieces: list[str], held: Any) -> None:
    answer = server.post("/parse", pieces=pieces, format="steps", tools=[WEATHER]).json()
    assert len(answer["steps"]) == len(pieces) + 1
    found = answer["steps"][len(pieces) - 1].get("held")
    if held and held["why"] == "header":  # the space before a marker belongs to the marker
        assert found["why"] in ("header", "marker")
    else:
        assert found == held


def test_steps_give_the_same_message_as_a_whole_text(server: Live) -> None:
    body: dict[str, Any] = {"dialect": "hermes", "tools": [WEATHER]}
    pieces = [RAW[i : i + 3] for i in range(0, len(RAW), 3)]
    steps = server.post("/parse", pieces=pieces, format="steps", **body).json()
    whole = server.post("/parse", text=RAW, **body).json()
    for message in (steps["message"], whole["message"]):
        for call in message["tool_calls"]:
            del call["id"]
    assert steps["message"] == whole["message"]
    assert steps["stage"] == "content"
    forced = server.post("/parse", pieces=[{"text": "plan", "stage": "reasoning"}, "!"]).json()["message"]
    assert forced["reasoning"] == "plan!"


def test_the_page_learns_of_every_dialect_and_reads_one_with_its_file(server: Live) -> None:
    about = server.post("/ui/about").json()
    assert {"hermes", "harmony"} <= {d["name"] for d in about["dialects"]}
    assert about["policies"]["bad_arguments"] == ["raw", "drop", "text", "repair"]
    answer = server.post("/ui/about", dialect="harmony").json()
    dialect = get_dialect("harmony")
    assert answer["toml"] == dialect.file[1]
    assert [e["raw"] for e in answer["examples"]] == [list(e.raw) for e in dialect.examples]
    own = answer["toml"].replace('"harmony"', '"mine"', 1)
    raw = dialect.examples[-1].raw[0]
    message = server.post("/parse", text=raw, toml=own).json()["message"]
    assert message["content"] == parse(raw, "harmony").content


def test_a_file_is_tried_on_its_examples(server: Live) -> None:
    toml = get_dialect("think").file[1]
    assert server.post("/ui/check", toml=toml).json()["problems"] == []
    problems = server.post("/ui/check", toml=toml.replace('content = "', 'content = "not ')).json()["problems"]
    assert problems
    assert problems[0]["where"].startswith("examples[")


def test_the_dialect_of_an_output_is_found(server: Live) -> None:
    assert server.post("/ui/detect", output=RAW).json()["candidates"][0]["dialect"] in get_dialect("hermes").names
    assert server.post("/ui/detect", output="Hello.").json()["candidates"] == []


def test_grammars_come_in_every_form_and_none_where_nothing_is_constrained(server: Live) -> None:
    body = {"dialect": "hermes", "tools": [WEATHER]}
    grammar = server.post("/ui/grammar", **body, tool_choice="required").json()["grammar"]
    assert {form: "grammar" in form_of for form, form_of in grammar.items()} == dict.fromkeys(grammar, True)
    assert "get_weather" in grammar["lark"]["grammar"]
    assert grammar["structural_tag"]["grammar"]["type"] == "structural_tag"
    assert server.post("/ui/grammar", **body).json()["grammar"] is None
    asked = server.post("/ui/prompt", messages=HELLO, tools=[WEATHER], tool_choice="required").json()
    assert asked["grammar"]["lark"] == grammar["lark"]


def test_a_schema_without_a_grammar_loosens_its_own_tool_alone() -> None:
    contradiction = {"properties": {"n": {"type": "integer", "enum": ["one"]}}}
    tools = [WEATHER, {"type": "function", "function": {"name": "book", "parameters": contradiction}}]
    with live(replay(RAW), "hermes", strict_level=ToolStrictLevel.PARAMETER) as server:
        asked = [server.post("/ui/prompt", messages=HELLO, tools=some).json() for some in (tools, tools[:1])]
    grammars = [a["grammar"]["lark"]["grammar"] for a in asked]
    assert ["book" in g for g in grammars] == [True, False]
    assert ["city" in g for g in grammars] == [True, True]
    assert '"one"' not in grammars[0]


@pytest.mark.parametrize(
    ("protocol", "sign"),
    [
        ("chat", '"object":"chat.completion.chunk"'),
        ("responses", "response.completed"),
        ("messages", "event: message_stop"),
        ("ag-ui", "RUN_FINISHED"),
        ("mindie", '"role":"assistant"'),
        ("candle", "chat.completion"),
    ],
)
def test_every_protocol_is_written_streamed_and_whole(server: Live, protocol: str, sign: str) -> None:
    answer = server.post("/ui/protocol", protocol=protocol, text=RAW, tools=[WEATHER]).json()
    assert sign in answer["stream"]
    assert "Paris" in answer["whole"]


def test_a_trace_ends_with_the_engines_error() -> None:
    with live(Scripted([Delta(text="a"), Delta(text="b")], fail_after=2), "hermes") as server:
        lines = chunks(server.post("/ui/chat", messages=HELLO).text)
        assert lines[-1] == {"type": "error", "message": "the device is lost", "status": 500}
    with live(Scripted([], fail_after=0), "hermes") as server:
        assert server.post("/ui/chat", messages=HELLO).status_code == 500


# -- recordings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: No such file"),
        (["{plain}"], "the first line must be of the type request"),
        (["{unnamed}"], "--dialect: is missing; the recording names none"),
    ],
)
def test_show_reports_what_it_cannot_open(
    arguments: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").write_text('{"type": "chunk"}\n')
    write_recording(tmp_path / "unnamed", Asked(), ["x"])
    given = [a.format(plain=tmp_path / "plain", unnamed=tmp_path / "unnamed") for a in arguments]
    assert main(["show", *given]) == 2
    assert error in capsys.readouterr().err


def test_show_serves_the_recording_with_its_dialects_file(
    served: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.toml").write_text(get_dialect("hermes").file[1])
    file = tmp_path / "r.jsonl"
    write_recording(file, Asked(dialect=str(tmp_path / "own.toml")), ["hi"])
    assert main(["show", str(file)]) == 0
    settings = served[0][0]
    line = json.loads(settings.shown.partition("\n")[0])
    assert line["toml"] == get_dialect("hermes").file[1]
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
