"""What models write: source code for string arguments, prose for content and reasoning, values, tools."""

import keyword
import random
import re
from functools import cache, partial
from typing import Any, Final

SOURCE: Final = r'''"""Größen und Währungen: prices of a shop, read from CSV. — 价格表"""

import re
from collections.abc import Iterator

PRICE = re.compile(r'^\s*"?(?P<sku>[A-Z]{2}-\d+)"?;\s*(?P<price>[\d.,]+)\s*€', re.M)
GREETING = "Grüße aus Köln!\n"


class Shop:
    """A shop with a name, e.g. 'Bäckerei Müller', and items."""

    def __init__(self, name: str = "", *, debug: bool = False) -> None:
        self.name = name
        self.items: dict[str, float] = {}
        self._debug = debug  # prints what is read

    def read(self, text: str) -> Iterator[tuple[str, float]]:
        for number, m in enumerate(PRICE.finditer(text), 1):
            price = float(m["price"].replace(".", "").replace(",", "."))
            if price <= 0 or m["sku"] in self.items:
                raise ValueError(f"line {number}: {m.group()!r} isn't a price > 0")
            self.items[m["sku"]] = price
            yield m["sku"], price
        if self._debug:
            print("read", len(self.items), "items\t", f"{sum(self.items.values()):.2f} €")

    def cheapest(self, count: int = 3) -> list[str]:
        return sorted(self.items, key=lambda sku: (self.items[sku], sku))[:count]


// static/shop.js – renders the table; 購物車 is filled by the user
import { escape, byId } from "./dom.js";

const format = new Intl.NumberFormat('de-DE', { style: 'currency', currency: "EUR" });

export async function show(sku, { limit = 20, into = '#table' } = {}) {
  const reply = await fetch(`/api/items/${sku}?limit=${limit}`, { headers: { "Accept": "application/json" } });
  if (!reply.ok) {
    console.error('could not load "%s":\n\t%d', sku, reply.status);
    return null;
  }
  const rows = (await reply.json()).filter((row) => row.price > 0 && row.name !== "");
  byId(into).innerHTML = rows
    .map((row, i) => `<tr class="${i % 2 ? 'odd' : 'even'}"><td>${escape(row.name)}</td>` +
      `<td>${format.format(row.price)}</td></tr>`)
    .join("\n");
  return rows.length < limit ? rows : [...rows, { name: "…", path: "C:\\shop\\more" }];
}

def test_prices_are_read() -> None:
    shop = Shop("Café 'Zur Brücke'")
    assert list(shop.read('AB-1; 1.299,00 €\n"CD-22";0,99 €\n')) == [("AB-1", 1299.0), ("CD-22", 0.99)]
    assert shop.cheapest(1) == ["CD-22"] and not shop.name.startswith("\\")


if __name__ == "__main__":
    import sys

    with open(sys.argv[1], encoding="utf-8") as file:
        for sku, price in Shop(debug="-v" in sys.argv).read(file.read()):
            print(f"{sku:>8} {price:10.2f} €" if price < 1_000 else f"{sku:>8} (teuer) 💶")
'''

DENSE: Final = r"""WORDS = {
    "yes": "ja", "no": 'nein', "good": "gut",
    "key": "Schlüssel", "a b": "c\td",
    "line": "a\n\tb", "path": "C:\\t",
}

def f(x, y="a"):
    # Grüße, 世界 \d+
    if x < 3 and y > 2:
        return {"k": [x, 'q'], "z": f"{y}\n"}
    print("done", x)

let q = `\t${ids["x"]}\n`;
a['id'] = "it's"; b["n"] = 'say "hi"\n';
const s = x => `"${x}"`.split("\r\n");
<p class="a" id="b">é — "ü"</p>
x = re.sub(r"\s+\"", "\\", y)
sql = "select \"a\" from 't'\n"
echo "$A" | grep -q "\.py$" && rm "$B"
{"op": "+", "l": [1, "2"], "r": null}

"""
"""Source code in which every second chunk of four characters contains a quote, an escape or a line break."""

_NAME: Final = re.compile(r"(?<![\\\w])[A-Za-zÀ-ÿ]{2,}(?!\w)|(?<!\w)[0-9]{2,}(?!\w)")
_KEPT: Final = {*keyword.kwlist, "const", "export", "function", "null", "await"}
_SYLLABLES: Final = (
    *(
        "a_b",
        "ab",
        "app",
        "ba",
        "ber",
        "cho",
        "con",
        "da",
        "data",
        "dex",
        "do_",
        "el",
        "err",
        "for_",
        "get",
        "ind",
        "ion",
    ),
    *(
        "is_",
        "key",
        "li",
        "log",
        "max",
        "new_",
        "num",
        "out",
        "pre",
        "re",
        "set",
        "str",
        "sub",
        "tion",
        "un",
        "val",
        "wi",
    ),
    *("er", "fi", "gen", "grö", "ha", "in", "ka", "ket", "lo", "lü", "ma", "mes"),
    *("na", "not", "o", "pa", "que", "ra", "rit", "sor", "ste", "ta", "to", "u", "ver", "vi", "xy", "za"),
)


@cache
def ever_new(text: str, size: int) -> str:
    """``size`` characters of the text, which is repeated with other names and numbers each time.

    A parser that remembers chunks gains no more here than with real programs. In the modules of Python's library, seven
    in ten chunks of four characters are among the 4,096 chunks before them; here, fewer are.
    """
    rng = random.Random(size)
    parts: list[str] = []
    length = 0
    while length < size:
        names: dict[str, str] = {}
        part = _NAME.sub(partial(_renamed, names, rng), text)
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size]


def _renamed(names: dict[str, str], rng: random.Random, found: re.Match[str]) -> str:
    name = found.group()
    if name in _KEPT:
        return name
    if name not in names:
        number = str(rng.randrange(10 ** len(name)))
        names[name] = number if name.isdigit() else "".join(rng.choices(_SYLLABLES, k=rng.randint(1, 5)))
    return names[name]


PROSE: Final = """The order of the two calls matters: first the forecast for Köln (today, 3 °C), then the flight. If
it's below 0 °C — and only then — the user wants "the later one", i.e. the 18:40. Let me see what a < b && b > c means:

1. `get_weather(city="Köln", days=3)` returns a list; its first entry [0] is today.
2. The price is in €, so 129,00 € is about $140 (rate: 1.085).
3. 如果下雨，我们就坐火车去。 That is what the note says.

| train | leaves | price |
|-------|-------:|------:|
| ICE 5 |  18:40 |  59 € |

```python
if forecast[0]["low"] < 0:
    book("ICE 5", seats=2)
```

So: no rain, hence the flight. Naïve, perhaps, but that's what they've asked for!

"""

RECORDS: Final[list[Any]] = [
    {
        "id": 4711 + i,
        "name": f"{name} {i}",
        "tags": ["neu", 'so-called "best"', "北京"][: i % 3 + 1],
        "price": 12.5 * (i + 1),
        "sold": i % 2 == 0,
        "place": {"shelf": [i, -i], "room": None, "size": {"w": 80, "h": 1.25}},
    }
    for i, name in enumerate(["Bücherregal", "Lamp (small)", "Stuhl, rot", "C:\\Kabel", "tea <green>", "Eßtisch"] * 5)
]

_RECORD: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "price": {"type": "number"},
        "sold": {"type": "boolean"},
        "place": {
            "type": "object",
            "properties": {
                "shelf": {"type": "array", "items": {"type": "integer"}},
                "room": {"type": ["string", "null"]},
                "size": {"type": "object", "properties": {"w": {"type": "number"}, "h": {"type": "number"}}},
            },
        },
    },
}

NUMBERS: Final[dict[str, Any]] = {
    f"x{i}": [i, -i * 7919, i / 8, i * 1e20, -0.001 * i, 12345678901234567890 + i][i % 6] for i in range(200)
}


def tool(name: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """An OpenAI tool dict."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": f"Tool {name}.", "parameters": parameters}}


_STRING: Final = {"type": "string"}

TOOLS: Final[list[dict[str, Any]]] = [
    tool("write_file", path=_STRING, text=_STRING),
    tool("get_weather", city=_STRING, days={"type": "integer"}, unit={"enum": ["celsius", "fahrenheit"]}),
    tool("add_rows", table=_STRING, rows={"type": "array", "items": _RECORD}, note=_STRING),
    tool("plot", first=_STRING, **{k: {"type": "number"} for k in NUMBERS}, last=_STRING),
]
"""The four tools of a request."""

HUNDRED_TOOLS: Final = [
    *TOOLS,
    *(tool(f"service_{i}", query=_STRING, limit={"type": "integer"}, filters=_RECORD) for i in range(96)),
]
