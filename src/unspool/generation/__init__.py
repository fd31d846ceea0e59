"""Running requests: an engine's output through the parser into the bytes of an answer. No HTTP here.

A `Run` answers one request; it has a `Choice` for each of its outputs and, where the answer is streamed, an `Outbox`
between the engine and the client. `Service` is what all requests share: engine, places, counts, threads. Requests come
from `unspool.request`; `unspool.server` connects all of it to HTTP.
"""
