"""A sampling loop that cannot write an invalid call: the dialect's own grammar masks each step.

    pip install '.[server]'
    python examples/constrained.py

The logits are random, so only the grammar makes the result valid. Replace them with your model's,
and the tokenizer too.
"""

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import unspool
from unspool.grammar import Llguidance

TOKENIZER = Path(__file__).parent / "tokenizer" / "tokenizer.json"
PARAMETERS = {
    "type": "object",
    "properties": {
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    },
    "required": ["unit", "days"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]


def main(seed: int = 0) -> None:
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    constraint = unspool.constrain(
        "hermes", TOOLS, tool_choice="required", parallel_tool_calls=False, stage="content", tokenizer=tokenizer
    )
    assert constraint is not None
    matcher = Llguidance(tokenizer).matcher(constraint)
    random = np.random.default_rng(seed)

    ids: list[int] = []
    while not matcher.is_done():
        mask = matcher.mask()
        logits = random.normal(size=mask.size)
        token = int(np.argmax(np.where(mask, logits, -np.inf)))
        matcher.accept(token)
        ids.append(token)

    output = tokenizer.decode(ids, skip_special_tokens=False)
    print(output)
    call = unspool.parse(output, "hermes", tools=TOOLS).tool_calls[0]
    print(call.status, call.arguments_dict())


if __name__ == "__main__":
    main()
