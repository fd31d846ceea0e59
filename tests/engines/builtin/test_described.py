"""Values that the names and descriptions of parameters tell: lists, examples, switches, and *with*."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import TEXT, WHOLE, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

SWITCH = {"type": "boolean"}
LIST = {"type": "array", "items": TEXT}


TOOLS = {
    "purge": described(tool("purge_cdn", ["paths"], paths=LIST), "Invalidate paths in the CDN"),
    "playbook": tool(
        "run_playbook",
        ["playbook"],
        playbook=TEXT | {"description": "file name"},
        hosts=LIST | {"description": "limit to these hosts"},
        check=SWITCH | {"description": "dry run"},
    ),
    "pills": described(
        tool(
            "set_medication_reminder",
            ["medication", "times"],
            medication=TEXT,
            times=LIST | {"description": "times of the day"},
            dose=TEXT | {"description": "e.g. 10 mg"},
        ),
        "Remind the user to take a medication",
    ),
    "pipeline": described(
        tool("trigger_pipeline", ["project", "ref"], project=TEXT, ref=TEXT | {"description": "branch or tag"}),
        "Start a CI pipeline",
    ),
    "pharmacy": described(
        tool("find_pharmacy", ["zip_code"], zip_code=TEXT, open_24h=SWITCH), "Pharmacies near a zip code"
    ),
    "doctor": described(
        tool("find_doctor", ["specialty", "city"], specialty=TEXT | {"description": "e.g. cardiologist"}, city=TEXT),
        "Search for doctors",
    ),
    "metric": described(
        tool(
            "service_metric", ["service", "metric"], service=TEXT, metric={"enum": ["latency_p99", "error_rate", "rps"]}
        ),
        "Current value of a golden signal of a service",
    ),
    "meal": described(
        tool(
            "log_meal",
            ["meal_type", "food"],
            meal_type={"enum": ["breakfast", "lunch", "dinner"]},
            food=TEXT | {"description": "what was eaten"},
            calories=WHOLE,
        ),
        "Add a meal to the food diary",
    ),
    "drink": described(
        tool("order_drink", ["drink", "size"], drink=TEXT, size={"enum": ["small", "large"]}), "Order a drink"
    ),
    "promql": described(
        tool("prom_query", ["query"], query=TEXT | {"description": "PromQL"}), "Run an instant PromQL query"
    ),
    "sql": described(tool("run_sql", ["query"], query=TEXT | {"description": "SQL"}), "Run SQL on the warehouse"),
    "logs": described(
        tool("search_logs", ["query"], query=TEXT, service=TEXT, minutes=WHOLE), "Search the central logs"
    ),
    "documents": described(tool("find_docs", ["query"], query=TEXT, owner=TEXT), "Search documents"),
    "page": described(tool("page_oncall", ["team", "message"], team=TEXT, message=TEXT), "Page the engineer of a team"),
    "burned": described(
        tool("calories_burned", ["activity", "minutes"], activity=TEXT, minutes=WHOLE), "Estimate the calories burned"
    ),
    "workout": described(
        tool(
            "log_workout",
            ["activity", "duration_minutes"],
            activity={"enum": ["running", "cycling"]},
            duration_minutes=WHOLE,
        ),
        "Save a finished workout",
    ),
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("purge", "invalidate /index.html and /assets/app.js on the cdn", {"paths": ["/index.html", "/assets/app.js"]}),
        ("purge", "purge /blog/ and /about.html from the cdn", {"paths": ["/blog/", "/about.html"]}),
        ("purge", "invalidate /img/logo.png", {"paths": ["/img/logo.png"]}),
        ("playbook", "run site.yml on db-1 and db-2", {"playbook": "site.yml", "hosts": ["db-1", "db-2"]}),
        ("playbook", "do a dry run of site.yml", {"playbook": "site.yml", "check": True}),
        (
            "playbook",
            "dry run patching.yml on web-1 and web-2 only",
            {"playbook": "patching.yml", "hosts": ["web-1", "web-2"], "check": True},
        ),
        (
            "pills",
            "remind me to take metformin at 08:00 and 20:00",
            {"medication": "metformin", "times": ["08:00", "20:00"]},
        ),
        (
            "pills",
            "set a reminder for 10 mg lisinopril at 07:30",
            {"medication": "lisinopril", "times": ["07:30"], "dose": "10 mg"},
        ),
        (
            "pipeline",
            "kick off the pipeline of mobile-backend on branch release/4.2",
            {"project": "mobile-backend", "ref": "release/4.2"},
        ),
        ("pipeline", "start the pipeline of web-shop on branch main", {"project": "web-shop", "ref": "main"}),
        ("pharmacy", "24h pharmacy near 60614", {"zip_code": "60614", "open_24h": True}),
        ("doctor", "find a dermatologist in Seattle", {"specialty": "dermatologist", "city": "Seattle"}),
        ("metric", "p99 latency of checkout", {"service": "checkout", "metric": "latency_p99"}),
        (
            "meal",
            "I had oatmeal with blueberries for breakfast, about 350 calories",
            {"meal_type": "breakfast", "food": "oatmeal with blueberries", "calories": 350},
        ),
        ("meal", "I had pasta with pesto for dinner", {"meal_type": "dinner", "food": "pasta with pesto"}),
        ("drink", "a large coffee with oat milk", {"drink": "coffee with oat milk", "size": "large"}),
        ("promql", "run this promql: sum(rate(hits[5m]))", {"query": "sum(rate(hits[5m]))"}),
        ("sql", "execute the following query: select name from users", {"query": "select name from users"}),
        (
            "logs",
            'search the logs of order-service for "connection refused" in the last 30 minutes',
            {"query": "connection refused", "service": "order-service", "minutes": 30},
        ),
        ("documents", 'find documents of Priya that mention "roadmap"', {"query": "roadmap", "owner": "Priya"}),
    ],
)
def test_names_and_descriptions_of_parameters_tell_their_values(name: str, text: str, expected: dict[str, Any]) -> None:
    answer = read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == [expected]


def test_two_choices_of_one_thing_are_two_calls() -> None:
    answer = read(prompt([TOOLS["metric"]], [{"role": "user", "content": "p99 latency and rps of the cart service"}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == [
        {"service": "cart", "metric": "latency_p99"},
        {"service": "cart", "metric": "rps"},
    ]


def test_a_place_is_no_zip_code() -> None:
    said = [{"role": "user", "content": "I need a cardiologist in Denver"}]
    answer = read(prompt([TOOLS["pharmacy"], TOOLS["doctor"]], said))
    assert answer is not None
    assert answer.calls == [("find_doctor", {"specialty": "cardiologist", "city": "Denver"})]


@pytest.mark.parametrize(
    ("names", "given", "text", "expected"),
    [
        (
            ("burned", "workout"),
            {"activity": "running", "minutes": 30},
            "what about 40 minutes of cycling",
            ("calories_burned", {"activity": "cycling", "minutes": 40}),
        ),
        (
            ("page",),
            {"team": "database", "message": "hello"},
            "page the team: replica lag is over 10 minutes",
            ("page_oncall", {"team": "database", "message": "replica lag is over 10 minutes"}),
        ),
    ],
)
def test_a_follow_up_is_for_the_tool_that_was_called(
    names: tuple[str, ...], given: dict[str, Any], text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    some = [TOOLS[name] for name in names]
    called = {"name": some[0]["function"]["name"], "arguments": json.dumps(given)}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "please"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": called}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
        {"role": "assistant", "content": "Here you are."},
        {"role": "user", "content": text},
    ]
    answer = read(prompt(some, messages))
    assert answer is not None
    assert answer.calls == [expected]
