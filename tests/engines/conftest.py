"""Tests of engines may be coroutines: each must end in time, and leave no tasks behind."""

import asyncio
import inspect

import pytest

from .upstream.support import run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutines, in the event loop of the fixture ``runner`` if the test has one; pytest itself does not."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    runner = pyfuncitem.funcargs.get("runner")
    if isinstance(runner, asyncio.Runner):
        runner.run(test)
    else:
        run(test)
    return True
