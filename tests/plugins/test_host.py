"""What the plug-ins share: names, policies from the environment, engines' representations of tools."""

import importlib.metadata
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import unspool
from unspool import Policy, UnknownDialect
from unspool.plugins import fastdeploy, lmdeploy, sglang, vllm
from unspool.plugins.host import dialect_of, environment_policy, names, registered, tool_choice_of, tools_of
from unspool.plugins.sglang import FunctionCallParser

from ..infer import invented
from .support import WEATHER

BROKEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": Paris}}\n</tool_call>'


def test_every_name_and_alias_is_registered_with_the_prefix_too() -> None:
    found = names()
    assert found[0] == "auto"
    assert set(found[1:]) == {name for d in unspool.list_dialects() for name in d.names}
    assert dialect_of("unspool_qwen25") is dialect_of("qwen25") is unspool.get_dialect("hermes")


def test_the_dialect_is_found_by_the_models_name_or_template() -> None:
    assert dialect_of("unspool_auto", model="/models/Kimi-K2-Instruct").name == "kimi_k2"
    assert dialect_of("auto", chat_template={"default": "", "tool_use": invented.TEMPLATES["known"]}).name == "hermes"
    assert (
        dialect_of("auto", chat_template=invented.TEMPLATES["numbered-calls"])
        .call[0]
        .text.startswith("<|call|>{name}#{index}")
    )
    with pytest.raises(UnknownDialect, match=r"no dialect is proven by the chat template; .*inferred: content: fail"):
        dialect_of("auto", model="Qwen3-8B", chat_template=invented.TEMPLATES["ambiguous"])
    with pytest.raises(UnknownDialect, match="unspool_auto: no dialect found by the name 'tiny'"):
        dialect_of("auto", model="tiny")


def test_policies_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = FunctionCallParser([WEATHER], "hermes")
    assert parser.parse_non_stream(BROKEN)[1]
    monkeypatch.setenv("UNSPOOL_POLICY", "bad_arguments=drop, bare_calls=true")
    assert environment_policy() == Policy(bad_arguments="drop", bare_calls=True)
    assert parser.detector.detect_and_parse(BROKEN, [WEATHER]).calls == []


def test_policies_are_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('bad_arguments = "repair"\nbare_calls = true\n', encoding="utf-8")
    monkeypatch.setenv("UNSPOOL_POLICY", str(path))
    assert environment_policy() == Policy(bad_arguments="repair", bare_calls=True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("bad_arguments=never", "'never' is not one of"),
        ("nothing=x", "unknown field 'nothing'; allowed are text_before_tools"),
        ("/no/such/file.toml", "No such file"),
    ],
)
def test_a_wrong_policy_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch, given: str, why: str) -> None:
    monkeypatch.setenv("UNSPOOL_POLICY", given)
    with pytest.raises(ValueError, match=f"UNSPOOL_POLICY='{given}': .*{why}"):
        environment_policy()


def test_tools_are_read_as_dicts_and_as_objects_nested_or_flat() -> None:
    function = WEATHER["function"]
    nested = SimpleNamespace(type="function", function=SimpleNamespace(**function, strict=None))
    flat = SimpleNamespace(type="function", **function)
    hosted = SimpleNamespace(type="web_search")
    assert tools_of([WEATHER, nested, flat, hosted]) == [WEATHER] * 3
    assert tools_of(None) == []


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, "auto"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}),
        (SimpleNamespace(function=SimpleNamespace(name="f")), {"type": "function", "function": {"name": "f"}}),
        (SimpleNamespace(type="function", name="f"), {"type": "function", "function": {"name": "f"}}),
        (SimpleNamespace(model_dump=lambda exclude_none: {"type": "allowed_tools"}), {"type": "allowed_tools"}),
    ],
)
def test_a_choice_is_read_in_every_form(given: Any, read: Any) -> None:
    assert tool_choice_of(given) == read


def test_every_entry_point_names_an_importable_function() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["entry-points"]
    assert sorted(groups) == [
        "fastdeploy.reasoning_parser_plugins",
        "fastdeploy.tool_parser_plugins",
        "sglang.srt.plugins",
        "vllm.general_plugins",
    ]
    for group in groups.values():
        module, _, function = group["unspool"].partition(":")
        __import__(module)
        assert callable(getattr(sys.modules[module], function))


@pytest.mark.parametrize(
    ("host", "register"),
    [
        ("vllm", vllm.register),
        ("sglang", sglang.register),
        ("lmdeploy", lmdeploy.register),
        ("fastdeploy", fastdeploy.register_tools),
        ("fastdeploy", fastdeploy.register_reasoning),
    ],
)
def test_without_its_host_a_plug_in_says_so_in_one_line(
    caplog: pytest.LogCaptureFixture, host: str, register: Callable[[], None]
) -> None:
    register()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"unspool: nothing is registered with {host} of an unknown version (the plug-in knows")
    assert f"No module named '{host}" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("0.33.0", None),
        ("0.33.1rc1+cpu", None),
        (
            "0.330.0",
            "registered with host 0.330.0; the plug-in was written for 0.33, and other versions are not tested",
        ),
    ],
)
def test_an_unsupported_host_version_is_reported_in_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, version: str, line: str | None
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert registered("host", "0.33", lambda: None)
    assert [r.getMessage() for r in caplog.records] == ([] if line is None else [f"unspool: {line}"])


@pytest.mark.parametrize("error", [ImportError, AttributeError, TypeError, ValueError, KeyError, RuntimeError])
def test_any_error_of_a_hosts_registration_is_reported_in_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def register() -> None:
        raise error("first\nsecond")

    # The distribution has another name.
    monkeypatch.setattr("unspool.plugins.host._distributions", lambda: {"pytest": ["pytest"], "host": ["pytest"]})
    assert not registered("host", "0.33", register)
    (line,) = [r.getMessage() for r in caplog.records]
    assert line.startswith(f"unspool: nothing is registered with host {pytest.__version__} (the plug-in knows")
    assert f"{error.__name__}: " in line
    assert "\n" not in line
