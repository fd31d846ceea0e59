"""Turns requests in the JSON of any protocol into a rendered prompt and the grammar of the output, without HTTP.

The main modules, each of which imports only those before it::

    fields          the JSON of a body, read field by field
    reasoning       sealed reasoning, summaries, budgets, which turns are kept
    settings        the settings of a server and its limits
    chat_request    the common form of requests in all protocols
    common          fields that several protocols share
    special_tokens  special tokens that a request's text spells
    prompts         the model's chat template
    continuation    prompts that repeat the model's turns exactly
    prepared        the request with its prompt and its grammar, ready for an engine
    protocols       one reader for each protocol, which also makes the writer of its answers

Whatever reads `Fields` raises `BadRequest` for a wrong one, and whatever takes an `Awaited` raises `Abandoned` as soon
as nobody waits. `unspool.generation` runs the result, and `unspool.wire` writes the answers.
"""
