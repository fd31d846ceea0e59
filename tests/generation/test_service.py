"""Work of requests in threads."""

import asyncio
import threading
import time

from unspool.engines.threads import Awaited
from unspool.generation.service import _Lanes


async def test_where_all_work_is_slow_as_much_of_it_runs_at_once_as_else() -> None:
    lanes, running, met = _Lanes(2, "test"), set[int](), threading.Event()

    def work(awaited: Awaited) -> None:
        running.add(threading.get_ident())
        try:
            while not met.is_set():
                awaited.check()
                if len(running) == 4:  # two of each lane
                    met.set()
                time.sleep(0.01)
        finally:
            running.discard(threading.get_ident())

    await asyncio.wait_for(asyncio.gather(*(lanes.run(1, work) for _ in range(4))), 20)
    lanes.close()
