"""Parses texts with transformers' own parser in a child process, since a template's patterns may take any time.

It runs as a script and imports nothing from unspool. Standard input contains one JSON object: ``template``, ``tools``,
``texts`` (pairs of a prompt and an output), and the limits ``seconds`` (of processor time) and ``memory`` (bytes).
Standard output gets one JSON line for each text, with its ``message`` or the ``error``. Exit code 3: no such parser.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

MISSING = 3


def main() -> None:
    job: dict[str, Any] = json.load(sys.stdin)
    try:
        from transformers.utils.chat_parsing import parse_response
    except ImportError:
        raise SystemExit(MISSING) from None
    limit = runpy.run_path(str(Path(__file__).parents[1] / "chat_templates" / "limit.py"))["limit"]
    limit(RLIMIT_CPU=job["seconds"], RLIMIT_AS=job["memory"])
    for prompt, text in job["texts"]:
        answer: dict[str, Any]
        try:
            answer = {"message": parse_response(text, job["template"], prefix=prompt, tools=job["tools"])}
        except Exception as error:  # their parser raises any of these for a text that it cannot read
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
