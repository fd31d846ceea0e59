"""Reads requests: from the JSON of any protocol to a rendered prompt and the grammar of the output, without HTTP.

The steps, each a module that imports only those before it::

    fields          the JSON of a body, read field by field
    reasoning       sealed reasoning, summaries, budgets, which turns are kept
    settings        the settings of a server and its limits
    chat_request    a request in the one form that every protocol is read into
    common          fields that several protocols share
    protocols       one reader for each protocol, beside the writer of its answers
    special_tokens  special tokens that a request's text spells
    prompts         the model's chat template
    continuation    turns of the model that are in prompts as it wrote them
    prepared        the request with its prompt and its grammar, ready for an engine

`unspool.generation` runs the result, and `unspool.wire` writes the answers.
"""
