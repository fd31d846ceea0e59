"""Runs requests: from an engine's output, through the parser, to the bytes of an answer, without HTTP.

A `Run` answers one request. It has a `ChoiceReader` for each output and, if the answer is streamed, an `Outbox` between
the engine and the client. `Service` contains what all requests share: engine, places, counts, threads. Requests come
from `unspool.request`; `unspool.server` connects all of this to HTTP.
"""
