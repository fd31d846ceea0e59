"""Names of persons, folders, routes and things in requests, and requests of two calls that refer to each other."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

NAME = {"first_name": TEXT, "last_name": TEXT}
PEOPLE = {"type": "array", "items": {"type": "object", "properties": NAME, "required": list(NAME)}}
IDA, BO = {"first_name": "Ida", "last_name": "Berg"}, {"first_name": "Bo", "last_name": "Ek"}
LIST = {"type": "array", "items": TEXT}
ON = {"type": "boolean"}
TOOLS = {
    "seats": tool("set_travellers", ["booking", "travellers"], booking=TEXT, travellers=PEOPLE),
    "parcels": tool("list_parcels", [], state={"enum": ["sent", "lost"]}, courier=TEXT, recipient=TEXT),
    "hunt": tool("search_text", ["pattern"], pattern=TEXT, path=TEXT),
    "folder": tool("list_folder", ["path"], path=TEXT),
    "save": tool("write_file", ["path", "content"], path=TEXT, content=TEXT),
    "trains": tool("find_trains", ["origin", "destination"], origin=TEXT, destination=TEXT, date=TEXT),
    "branch": tool("create_branch", ["name"], name=TEXT, from_branch=TEXT),
    "box": tool("open_box", ["box_id"], box_id=TEXT | {"description": "number of the box"}),
    "boxes": tool("empty_crates", ["crate_ids"], crate_ids=LIST),
    "guess": tool("submit", ["guess"], guess=TEXT),
    "oven": tool("set_oven", ["hours", "minutes"], hours=WHOLE, minutes=WHOLE),
    "room": tool("book_room", ["room", "start_hour"], room=TEXT, start_hour=WHOLE),
    "heat": tool("set_heater", ["temperature"], temperature=NUMBER, room=TEXT | {"description": "all if left out"}),
    "plug": tool("switch_flag", ["flag", "enabled"], flag=TEXT, enabled=ON),
    "groceries": tool("add_grocery", ["title"], title=TEXT),
    "hotel": tool("find_hotels", ["city"], city=TEXT, guests=WHOLE),
    "assign": tool("assign_bug", ["bugId", "assignee"], bugId=TEXT | {"description": "e.g. AB-12"}, assignee=TEXT),
    "remark": tool("add_comment", ["bug_id", "comment"], bug_id=TEXT, comment=TEXT),
    "status": tool("get_train_status", ["train_number", "date"], train_number=TEXT, date=TEXT),
    "client": tool("find_client_by_email", ["email"], email=TEXT),
    "named": tool("find_client_by_name", ["first_name", "last_name"], first_name=TEXT, last_name=TEXT),
    "lend": tool("lend_book", ["book", "friend"], book=TEXT, friend=TEXT, weeks=WHOLE),
}


def calls(names: str, text: str) -> Any:
    answer = read(prompt([TOOLS[name] for name in names.split()], [{"role": "user", "content": text}]))
    return answer and answer.calls


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (
            "seats",
            "the travellers of booking Q7 should be Ida Berg and Bo Ek",
            [{"booking": "Q7", "travellers": [IDA, BO]}],
        ),
        ("parcels", "what parcels does Ida have?", [{"courier": "Ida"}]),
        ("hunt", "search for max_size in lib", [{"pattern": "max_size", "path": "lib"}]),
        ("folder", "what is in the photos folder?", [{"path": "photos"}]),
        ("trains", "trains Oslo - Bergen please", [{"origin": "Oslo", "destination": "Bergen"}]),
        (
            "trains",
            "any trains Oslo to Bergen on 2026-02-01?",
            [{"origin": "Oslo", "destination": "Bergen", "date": "2026-02-01"}],
        ),
        ("branch", "create a branch fix/menu from stable", [{"name": "fix/menu", "from_branch": "stable"}]),
        ("box", "open the box 512", [{"box_id": "512"}]),
        ("boxes", "empty crates 4811 and 4812", [{"crate_ids": ["4811", "4812"]}]),
        ("guess", "Submit 19 as my last guess", [{"guess": "19"}]),
        ("oven", "set the oven to 2 hours and 20 minutes", [{"hours": 2, "minutes": 20}]),
        ("room", "book room C3 at 4pm", [{"room": "C3", "start_hour": 16}]),
        ("heat", "set the dining room heater to 20", [{"temperature": 20, "room": "dining room"}]),
        (
            "plug",
            "switch dark_mode on and beta_menu off",
            [{"flag": "dark_mode", "enabled": True}, {"flag": "beta_menu", "enabled": False}],
        ),
        ("groceries", "add jam and 3 lemons", [{"title": "jam"}, {"title": "3 lemons"}]),
        ("groceries", "add two groceries: green tea and dark rye", [{"title": "green tea"}, {"title": "dark rye"}]),
        ("hotel", "hotels in Bergen for 3", [{"city": "Bergen", "guests": 3}]),
        (
            "assign remark",
            'assign AB-7 to Ida and comment "see the log" on it',
            [{"bugId": "AB-7", "assignee": "Ida"}, {"bug_id": "AB-7", "comment": "see the log"}],
        ),
        (
            "status",
            "is IC204 on time on 2026-02-01? and IC310 the same day?",
            [{"train_number": "IC204", "date": "2026-02-01"}, {"train_number": "IC310", "date": "2026-02-01"}],
        ),
        (
            "client named",
            "I don't know my email, find the client named Ida Berg",
            [{"first_name": "Ida", "last_name": "Berg"}],
        ),
        ("lend", "I lent Persuasion to Ida for 3 weeks", [{"book": "Persuasion", "friend": "Ida", "weeks": 3}]),
    ],
)
def test_names_and_what_belongs_to_them_are_read(names: str, text: str, expected: Any) -> None:
    assert [given for _, given in calls(names, text)] == expected


def test_a_thing_with_an_indefinite_article_is_no_file() -> None:
    assert not calls("save", "write a limerick about tea")
