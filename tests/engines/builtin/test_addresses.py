"""Postal addresses are read in parts, however they are ordered."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

ORDER = {"order_id": TEXT, "street": TEXT, "city": TEXT, "zip": TEXT, "state": TEXT, "country": TEXT}
MOVE = tool("change_order_address", ["order_id", "street", "city", "zip"], **ORDER)
LINES = tool(
    "set_address", ["address1", "address2", "city", "state", "zip"],
    address1=TEXT, address2=TEXT, city=TEXT, state=TEXT, country=TEXT, zip=TEXT,
)  # fmt: skip
PLACE = {"street": TEXT, "town": TEXT, "postcode": WHOLE}
NESTED = tool(
    "ship_to", ["parcel", "address"], parcel=WHOLE,
    address={"type": "object", "properties": PLACE, "required": ["street", "town"]},
)  # fmt: skip
REFUND = tool("refund_order", ["order_id", "amount"], order_id=TEXT, amount=NUMBER)


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (
            MOVE,
            "change the address of order 71-4 to 9 Mill Lane, Dover, CT17 9AB please",
            {"order_id": "71-4", "street": "9 Mill Lane", "city": "Dover", "zip": "CT17 9AB"},
        ),
        (
            MOVE,
            "order 8812 goes to Seestr. 12, 8002 Zug, Switzerland instead",
            {"order_id": "8812", "street": "Seestr. 12", "city": "Zug", "zip": "8002", "country": "Switzerland"},
        ),
        (
            MOVE,
            "change order 5 to 40 oak street, Akron, OH 44301",
            {"order_id": "5", "street": "40 oak street", "city": "Akron", "zip": "44301", "state": "OH"},
        ),
        (
            LINES,
            "Set my address to 8 Elm Avenue, Apt 3, Reno, NV, USA, 89501",
            {"address1": "8 Elm Avenue", "address2": "Apt 3", "city": "Reno", "state": "NV"}
            | {"country": "USA", "zip": "89501"},
        ),
        (
            NESTED,
            "ship parcel 7 to Rue Verte 3, 1020 Brussels",
            {"parcel": 7, "address": {"street": "Rue Verte 3", "town": "Brussels", "postcode": 1020}},
        ),
    ],
)  # fmt: skip
def test_the_parts_of_an_address_are_read(schema: Any, text: str, expected: Any) -> None:
    answer = read(prompt([schema], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == [expected]


def test_an_address_asks_for_the_tool_that_takes_its_parts() -> None:
    answer = read(
        prompt([REFUND, MOVE], [{"role": "user", "content": "Order 12-80 should go to Seestr. 12, 8002 Zug"}])
    )
    assert answer is not None
    assert [name for name, _ in answer.calls] == ["change_order_address"]
