"""Words in the form of a description's example are values of its parameter, and what stands next to words tells."""

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin import reader
from unspool.engines.builtin.reader import read


def like(example: str) -> dict[str, Any]:
    return {"type": "string", "description": f"for example {example}"}


TOOLS = {
    "health": tool("component_health", ["component"], component=like("auth-worker")),
    "assign": tool("assign_case", ["key", "assignee"], key=TEXT, assignee=TEXT),
    "purge": tool("purge_cache", ["pattern"], pattern=like("cart:*")),
    "duty": tool("compute_duty", ["value", "country"], value=NUMBER, country=like("NO")),
    "shelf": tool("find_shelf", ["slot"], slot=like("B7-02")),
    "schema": tool("describe_schema", ["schema"], schema=TEXT),
    "record": tool("play_record", ["record"], record={"type": "string", "description": "title"}, artist=TEXT),
    "die": tool("throw_dice", ["sides"], sides=WHOLE, count=WHOLE),
    "tv": tool("projector", ["action"], action={"enum": ["switch_on", "switch_off", "mute"]}),
    "token": tool(
        "issue_token", ["name", "rights"], name=TEXT, rights={"type": "array", "items": {"enum": ["read", "write"]}}
    ),
    "branch": tool("create_branch", ["name"], name=TEXT, from_branch=TEXT),
    "homework": tool("set_homework", ["course", "title"], course=TEXT, title=TEXT, points=WHOLE),
    "heat": tool("set_ac", ["room", "temperature"], room=TEXT, temperature=NUMBER),
    "pods": tool("scale_workload", ["name", "pods"], name=TEXT, pods=WHOLE),
    "robot": tool("robot", ["action"], action={"enum": ["start", "dock"]}, rooms={"type": "array", "items": TEXT}),
    "stock": tool("get_stock_level", ["sku"], sku=TEXT, depot=TEXT),
    "parcel": tool("track_parcel", ["parcel_id"], parcel_id=like("'#P000'. The sign belongs to it")),
    "paint": tool("paint_wall", ["color"], color=like("#FF0000")),
    "post": tool("return_parcels", ["parcel_ids"], parcel_ids={"type": "array", "items": TEXT}),
    "hold": tool("hold_stock", ["sku", "quantity"], sku=TEXT, quantity=WHOLE),
}


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (("health",), "is mail-relay up?", [{"component": "mail-relay"}]),
        (("assign",), "assign OPS-12 to jdoe", [{"key": "OPS-12", "assignee": "jdoe"}]),
        (("purge",), "purge everything under user:*", [{"pattern": "user:*"}]),
        (
            ("duty",),
            "What is the duty on 250 in SE and on 90 in FI?",
            [{"value": 250, "country": "SE"}, {"value": 90, "country": "FI"}],
        ),
        (("shelf",), "which shelf is C12-44", [{"slot": "C12-44"}]),
        (("schema",), "describe the schemas sales and stores", [{"schema": "sales"}, {"schema": "stores"}]),
        (("record",), "Play the record Blue by Joni Mitchell", [{"record": "Blue", "artist": "Joni Mitchell"}]),
        (("die",), "throw three eight-sided dice", [{"sides": 8, "count": 3}]),
        (("tv",), "switch the projector off", [{"action": "switch_off"}]),
        (
            ("token",),
            "issue a token called ci with read and write rights",
            [{"name": "ci", "rights": ["read", "write"]}],
        ),
        (("branch",), "Create a branch called fix/header", [{"name": "fix/header"}]),
        (("parcel",), "track parcel #P8841", [{"parcel_id": "#P8841"}]),
        (("parcel",), "where are parcels P17 and P93?", [{"parcel_id": "#P17"}, {"parcel_id": "#P93"}]),
        (("paint",), "paint the wall red", [{"color": "red"}]),
        (("post",), "please return parcels 70012 and 70013", [{"parcel_ids": ["70012", "70013"]}]),
        (
            ("homework",),
            'Set the homework "Chapter 3 and 4" for Chemistry 2',
            [{"course": "Chemistry 2", "title": "Chapter 3 and 4"}],
        ),
        (("heat",), "Set the AC in the study to 21", [{"room": "study", "temperature": 21}]),
        (
            ("pods",),
            "I need 4 pods of web and 2 pods of worker",
            [{"name": "web", "pods": 4}, {"name": "worker", "pods": 2}],
        ),
        (("robot",), "Could the robot go to its dock please", [{"action": "dock"}]),
        (("hold", "stock"), "how many MUG-RED-S do we have in stock?", [{"sku": "MUG-RED-S"}]),
    ],
)
def test_the_form_and_neighbours_of_a_value_tell_its_parameter(
    names: tuple[str, ...], text: str, expected: list[dict[str, Any]]
) -> None:
    answer = read(prompt([TOOLS[name] for name in names], [{"role": "user", "content": text}]))
    assert answer is not None, "the words are not clear"
    assert [given for _, given in answer.calls] == expected


def test_what_clients_send_does_not_fill_memory() -> None:
    names = [m.name for m in pkgutil.iter_modules(reader.__path__)]
    modules = [importlib.import_module(f"{reader.__name__}.{name}") for name in names]
    caches = {
        f for m in modules for f in vars(m).values() if hasattr(f, "cache_info") and inspect.signature(f).parameters
    }
    assert caches
    assert all(f.cache_info().maxsize is not None for f in caches)
