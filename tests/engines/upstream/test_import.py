"""The engine adds no dependency for those who do not use it."""

import subprocess
import sys

CODE = """
import sys
sys.modules["aiohttp"] = None  # as where it is not installed
import unspool.engines.upstream
unspool.engines.upstream.Upstream("http://localhost:8000")
print(sorted({"tokenizers", "numpy", "starlette", "llguidance"} & set(sys.modules)))
"""


def test_the_engine_is_imported_and_made_without_an_http_client() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_http_client_is_imported_before_requests_wait_for_it() -> None:
    made = "from unspool.engines.upstream import Upstream; Upstream('http://localhost')"
    done = subprocess.run(
        [sys.executable, "-c", f"{made}; import sys; print('aiohttp' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"
