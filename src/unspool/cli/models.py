"""The command ``models``: the GGUF files that are on this machine, and how each is read."""

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import GgufError, TemplateError
from .common import needing, table, write, write_json

if TYPE_CHECKING:
    from ..checkpoints.gguf import Gguf

_COLUMNS = ("name", "family", "size", "context", "dialect", "proven")


def models_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--json", action="store_true", help="print the list as JSON")


def run_models(options: argparse.Namespace) -> int:
    with needing("server"):
        from ..engines.stores import stored
    found = [_described(one.name, one.path) for one in stored()]
    if options.json:
        write_json(found)
    elif found:
        write(table([_COLUMNS, *([str(one[column]) for column in _COLUMNS] for one in found)]))
    else:
        print("unspool models: there is no GGUF in the stores of Ollama, LM Studio and Hugging Face", file=sys.stderr)
    return 0


def _described(name: str, path: Path) -> dict[str, Any]:
    """A model, and the dialect that its chat template proves."""
    from ..checkpoints.gguf import read_gguf
    from ..engines.local.fitting import check_model, parts

    line: dict[str, Any] = dict.fromkeys(_COLUMNS, "") | {"name": name, "path": str(path)}
    try:
        gguf = read_gguf(path, vocabulary=True)
        line |= {"family": gguf.architecture, "size": _size(gguf.parameters), "context": gguf.context or ""}
        check_model(gguf)
        line["size"] = _size(sum(read_gguf(part).parameters for part in parts(gguf)))
        line |= _read(name, gguf)
    except OSError as error:
        line["proven"] = f"no: {error.strerror}"
    except (GgufError, TemplateError) as error:
        line["proven"] = f"no: {str(error).removeprefix(f'{path}: ')}"
    return line


def _read(name: str, gguf: "Gguf") -> dict[str, str]:
    if importlib.util.find_spec("jinja2") is None:
        return {"proven": "no: it needs jinja2"}
    from ..errors import UnknownDialect
    from ..request.tokenizer import gguf_tokenizer
    from .proof import with_tools

    tokenizer = gguf_tokenizer(gguf)
    with contextlib.ExitStack() as within:
        asked, added = with_tools(tokenizer.tool_template, tokenizer.special, within)
        try:
            choice = asked.choose(name.partition(":")[2])
        except UnknownDialect:
            return {"proven": "no"}
    return {"dialect": choice.dialect.name, "proven": "its template writes no tools" if added else "yes"}


def _size(parameters: int) -> str:
    """A number of weights, such as 135M or 7.6B."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= unit:
            number = parameters / unit
            return f"{number:.1f}{letter}" if number < 10 and letter == "B" else f"{number:.0f}{letter}"
    return str(parameters)
