"""Short texts, names and phrases are assigned to parameters together, by the evidence for each pair."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

LIST = {"type": "array", "items": TEXT}
ACCOUNT = {"enum": ["deposit", "current", "pension"]}
TOOLS = {
    "branch": tool("open_branch", ["name"], name=TEXT, base=TEXT, repo=TEXT),
    "rent": tool("rent_flat", ["tenant", "street"], tenant=TEXT, street=TEXT, landlord=TEXT),
    "film": tool("find_films", [], directed_by=TEXT, studio=TEXT),
    "seat": tool("reserve_seat", ["theatre", "name"], theatre=TEXT, name=TEXT),
    "panel": tool("plan_panel", ["topic"], topic=TEXT, participants=LIST),
    "marks": tool("get_marks", ["student"], student=TEXT),
    "member": tool("add_member", ["firstName", "lastName"], firstName=TEXT, lastName=TEXT, company=TEXT),
    "move": tool("move_money", ["from_account", "to_account"], from_account=ACCOUNT, to_account=ACCOUNT, amount=NUMBER),
    "deploy": tool("deploy", ["app", "stage"], app=TEXT, stage={"enum": ["development", "production"]}),
    "shops": tool("find_shops", ["kind", "near"], kind={"enum": ["bakery", "florist"]}, near=TEXT, radius_km=NUMBER),
    "page": tool("print_page", ["colour"], colour={"enum": ["high", "urgent"]}),
    "boil": tool("boil", ["seconds"], seconds=WHOLE),
    "ride": tool("order_taxi", ["pickup", "dropoff"], pickup=TEXT, dropoff=TEXT, passengers=WHOLE),
    "solve": tool("solve", ["equation"], equation=TEXT),
    "divide": tool("divide", ["a", "b"], a=NUMBER, b=NUMBER),
    "court": tool("check_court", ["court"], court=TEXT, date=TEXT),
    "stock": tool("check_stock", ["item"], item=TEXT),
    "visits": tool("list_visits", ["date"], date=TEXT, doctor=TEXT),
    "score": tool(
        "record_score",
        ["pupil", "subject", "score"],
        pupil={"type": "string", "description": "name of the pupil"},
        subject={"type": "string", "description": "school subject"},
        score={"type": "integer", "description": "points from 0 to 100"},
    ),
    "notify": tool(
        "message_members",
        ["club_name", "message"],
        club_name={"type": "string", "description": "club"},
        message=TEXT,
    ),
    "tags": tool("tag_photo", ["photo"], photo=TEXT, scores={"type": "array", "items": NUMBER}),
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("branch", "Open a branch named hotfix-2 in the repo shop", [{"name": "hotfix-2", "repo": "shop"}]),
        (
            "rent",
            "Rent the flat in Elm Street to tenant Maria Lopez, landlord is Bo Ek",
            [{"tenant": "Maria Lopez", "street": "Elm Street", "landlord": "Bo Ek"}],
        ),
        ("film", "find films directed by Agnes Varda", [{"directed_by": "Agnes Varda"}]),
        (
            "seat",
            "Reserve a seat at the Old Vic theatre under the name Moreau",
            [{"theatre": "Old Vic", "name": "Moreau"}],
        ),
        (
            "panel",
            "Plan a panel about tides with Ida and Bo",
            [{"topic": "tides", "participants": ["Ida", "Bo"]}],
        ),
        ("marks", "show the marks of Ida and Bo", [{"student": "Ida"}, {"student": "Bo"}]),
        (
            "member",
            "Add the member Ida Berg, company: Acme",
            [{"firstName": "Ida", "lastName": "Berg", "company": "Acme"}],
        ),
        (
            "move",
            "Move 70 to my pension account from current",
            [{"from_account": "current", "to_account": "pension", "amount": 70}],
        ),
        ("deploy", "deploy billing-api to prod", [{"app": "billing-api", "stage": "production"}]),
        (
            "shops",
            "any bakeries near Mill Lane within 500 meters?",
            [{"kind": "bakery", "near": "Mill Lane", "radius_km": 0.5}],
        ),
        ("page", "print the page, it is urgent", [{"colour": "urgent"}]),
        ("boil", "boil it for half an hour", [{"seconds": 1800}]),
        (
            "ride",
            "Order a taxi from 22 Mill Lane to Dover Harbour",
            [{"pickup": "22 Mill Lane", "dropoff": "Dover Harbour"}],
        ),
        ("solve", "solve 5x - 2 = 18", [{"equation": "5x - 2 = 18"}]),
        ("divide", "Divide 9 by 4 and 30 by 8", [{"a": 9, "b": 4}, {"a": 30, "b": 8}]),
        ("court", "is court 7 available on 2026-05-04?", [{"court": "7", "date": "2026-05-04"}]),
        ("stock", "how many towels and mops are left?", [{"item": "towels"}, {"item": "mops"}]),
        ("visits", "which visits does dr lopez have on 2026-05-04", [{"date": "2026-05-04", "doctor": "dr lopez"}]),
        ("visits", "list the visits of mrs. berg on 2026-05-04", [{"date": "2026-05-04", "doctor": "mrs. berg"}]),
        ("score", "give Ida Berg 64 points in biology", [{"pupil": "Ida Berg", "subject": "biology", "score": 64}]),
        ("score", "record 64 points in art for Bo Ek", [{"pupil": "Bo Ek", "subject": "art", "score": 64}]),
        (
            "notify",
            'tell all members of 4C: "We meet on Friday."',
            [{"club_name": "4C", "message": "We meet on Friday."}],
        ),
    ],
)
def test_words_around_a_text_tell_which_parameter_it_belongs_to(
    name: str, text: str, expected: list[dict[str, Any]]
) -> None:
    answer = read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [arguments for _, arguments in answer.calls] == expected


def test_words_are_not_read_as_members_of_a_list_of_numbers() -> None:
    answer = read(prompt([TOOLS["tags"]], [{"role": "user", "content": "tag photo dawn.png with good scores"}]))
    assert answer is None or all("scores" not in arguments for _, arguments in answer.calls)
