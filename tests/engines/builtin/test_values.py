"""Values of one call: identifiers, the form that a description asks for, remarks beside a request, and their like."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, about, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

SWITCH = {"type": "boolean"}


DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
ROOMS = {"type": "array", "items": {"enum": ["attic", "cellar", "porch"]}}
TOOLS = {
    "restart": tool("restart_service", ["service", "host"], service=TEXT, host=TEXT),
    "rollback": tool("roll_back", ["service", "version"], service=TEXT, version=TEXT),
    "ping": tool("ping_host", ["host"], host=TEXT, count=WHOLE),
    "key": tool("delete_key", ["key"], key=TEXT),
    "set": tool("set_key", ["key", "value"], key=TEXT, value=TEXT),
    "publish": tool("mqtt_publish", ["topic", "payload"], topic=TEXT, payload=TEXT),
    "sensor": tool("read_sensor", ["sensor_id"], sensor_id=TEXT),
    "branch": tool("create_branch", ["repo", "branch"], repo=TEXT, branch=TEXT, base=TEXT),
    "pulls": tool("list_pull_requests", ["repo"], repo=TEXT, author=TEXT),
    "issue": tool("open_issue", ["title"], title=TEXT, labels={"type": "array", "items": TEXT}),
    "clock": tool("get_time", ["timezone"], timezone=about("IANA name, e.g. Europe/Paris")),
    "stock": tool("get_stock_price", ["ticker"], ticker=about("Ticker symbol")),
    "fly": tool("find_flights", ["origin", "destination"], origin=about("IATA code"), destination=about("IATA code")),
    "train": tool("find_train", ["time"], date=about("YYYY-MM-DD"), time=about("24-hour, HH:MM")),
    "power": tool("get_power_price", ["hour"], hour=WHOLE | {"description": "hour of the day, 0-23"}),
    "timer": tool("start_timer", ["minutes"], minutes=NUMBER),
    "alarm": tool("set_alarm", ["days"], days={"type": "array", "items": {"enum": DAYS}}),
    "boil": tool("find_recipes", ["ingredient"], ingredient=TEXT, max_minutes=WHOLE),
    "light": tool("dim_light", ["room", "percent"], room=TEXT, percent=WHOLE),
    "sweep": tool("start_vacuum", [], rooms=ROOMS, mode={"enum": ["quiet", "turbo"]}),
    "blinds": tool(
        "move_blinds", ["room", "position"], room=TEXT, position=WHOLE | {"description": "0 = closed, 100 = open"}
    ),
    "boxes": tool("list_boxes", [], all=SWITCH | {"description": "also list archived boxes"}),
    "forecast": tool("get_forecast", ["city"], city=TEXT, days=WHOLE),
    "repos": tool("search_repos", ["query"], query=TEXT, sort={"enum": ["stars", "forks"]}),
    "screen": tool("take_screenshot", ["url"], url=TEXT, width=WHOLE, height=WHOLE),
    "replace": tool("edit_file", ["path", "old_text", "new_text"], path=TEXT, old_text=TEXT, new_text=TEXT),
    "room": tool("reserve_room", ["room", "start", "end"], room=TEXT, start=about("HH:MM"), end=about("HH:MM")),
    "lead": tool("create_lead", ["name"], name=TEXT, company=TEXT),
    "commit": tool("git_commit", ["message"], message=TEXT),
    "cook": tool("find_recipes", ["ingredients"], ingredients={"type": "array", "items": TEXT}),
    "mail": tool("send_email", ["to", "subject", "body"], to=TEXT, subject=TEXT, body=TEXT),
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("restart", "mail-api on web-04 keeps hanging, restart it", {"service": "mail-api", "host": "web-04"}),
        ("rollback", "The last rollout broke it. Roll billing-api back to v1.2.0", ("billing-api", "v1.2.0")),
        ("ping", "Ping 10.9.8.7 three times, i think the switch is dying", ("10.9.8.7", 3)),
        ("ping", "is printer.lan reachable?", ("printer.lan",)),
        ("key", "please delete cart:812 from the cache", ("cart:812",)),
        ("set", "Set user:7:name to Bea", ("user:7:name", "Bea")),
        ("publish", "publish ON to garden/pump/set", ("garden/pump/set", "ON")),
        ("sensor", "what does sensor.attic_temp say?", ("sensor.attic_temp",)),
        ("branch", "Create a branch fix/crash in ada/engine off develop", ("ada/engine", "fix/crash", "develop")),
        ("pulls", "show me the PRs by mkay in ada/engine", ("ada/engine", "mkay")),
        ("issue", 'Open an issue titled "Crash on start" and label it bug', ("Crash on start", ["bug"])),
        ("clock", "what time is it in Kyoto?", ("Asia/Tokyo",)),
        ("clock", "time in Europe/Rome please", ("Europe/Rome",)),
        ("stock", "how is Nvidia doing", ("NVDA",)),
        ("stock", "price of QQQ", ("QQQ",)),
        ("fly", "flights from Munich to Oslo", ("MUC", "OSL")),
        ("train", "a train on March 3, 2027 at 7:30 pm", ("2027-03-03", "19:30")),
        ("train", "a train at half past eight", {"time": "08:30"}),
        ("train", "is there a train at quarter to 5 in the afternoon", {"time": "16:45"}),
        ("train", "a train tomorrow at 9:05", ("tomorrow", "09:05")),
        ("power", "what does power cost at 7 in the evening", (19,)),
        ("power", "how much is power tonight at 10?", (22,)),
        ("timer", "a timer for an hour and a quarter", (75,)),
        ("alarm", "set an alarm on weekdays", (DAYS[:5],)),
        ("boil", "any leek recipes that take under 30 minutes?", ("leek", 30)),
        ("boil", "Just testing. Any leek recipes?", ("leek",)),
        ("light", "it's too bright in here, dim the porch light to 20%", ("porch", 20)),
        ("sweep", "Guests are coming, vacuum the attic and the porch quietly", (["attic", "porch"], "quiet")),
        ("blinds", "open the blinds in the study halfway", ("study", 50)),
        ("boxes", "Which boxes do we have? Include the archived ones too.", (True,)),
        ("forecast", "how's Bergen looking, give me 3 days", ("Bergen", 3)),
        ("repos", "search for chess engines sorted by stars", ("chess engines", "stars")),
        ("screen", "a screenshot of https://x.org/a at 800x600, please", ("https://x.org/a", 800, 600)),
        ("screen", "take a screenshot of https://x.org/a.", ("https://x.org/a",)),
        ("replace", "in src/app.ini replace port=80 with port=81", ("src/app.ini", "port=80", "port=81")),
        ("room", "reserve room Hopper from 9 to 10:30", ("Hopper", "09:00", "10:30")),
        ("lead", "new lead: Ana Diaz from Acme", ("Ana Diaz", "Acme")),
        ("commit", 'commit with the message "fix: an empty body"', ("fix: an empty body",)),
        ("cook", "I have eggs, leek and feta. What can I make?", (["eggs", "leek", "feta"],)),
        (
            "mail",
            'Send an email to bo@x.org with the subject "Moved" and tell her that lunch is at 12:30',
            {"to": "bo@x.org", "subject": "Moved", "body": "lunch is at 12:30"},
        ),
    ],
)
def test_values_are_read_as_the_user_means_them(name: str, text: str, expected: Any) -> None:
    declared = TOOLS[name]
    answer = read(prompt([declared], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [called for called, _ in answer.calls] == [declared["function"]["name"]]
    (_, given), *_ = answer.calls
    assert (given if isinstance(expected, dict) else tuple(given.values())) == expected
