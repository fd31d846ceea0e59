"""Serve a model from vLLM under OpenAI's, Anthropic's and AG-UI's protocols, with unspool reading its raw output.

    vllm serve Qwen/Qwen3-8B --port 8000          # without vLLM's own parsers
    python examples/before_vllm.py http://127.0.0.1:8000 path/to/Qwen3-8B

It does the same as `unspool serve --engine URL --tokenizer DIR`. Use it if you need your own code in between. SGLang
and FastDeploy work in the same way.
"""

import sys
from pathlib import Path

from tokenizers import Tokenizer

from unspool import choose_dialect
from unspool.engines.upstream import Upstream
from unspool.request.prompts import Prompts, read_tokenizer
from unspool.server import Settings, serve


def parts(url: str, folder: str) -> tuple[Settings, Upstream, Prompts]:
    checkpoint = read_tokenizer(folder)
    # The chat template proves which dialect reads the model's output. This raises an error if none does.
    choice = choose_dialect(checkpoint.tool_template or checkpoint.template)
    engine = Upstream(url, tokenizer=Tokenizer.from_file(str(Path(folder, "tokenizer.json"))))
    settings = Settings(model=Path(folder).name, dialect=choice.dialect, engine=url)
    return settings, engine, Prompts(checkpoint)


def main(url: str, folder: str) -> None:
    settings, engine, prompts = parts(url, folder)
    serve(settings, engine, port=8192, prompts=prompts)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:3])
