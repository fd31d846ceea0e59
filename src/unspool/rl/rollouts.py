"""The record of a session: its calls as a tree of tokens, and the rows that trainers take.

A call is one generation. Its prompt begins with the tokens of its parent, prompt and output, wherever they could be
kept; then only what it adds is recorded, so that a session of n turns takes memory linear in n.

A row is one path of such calls, from a prompt of its own to a call that no other continues. Each sampled token is
learnt in exactly one row: in the first that holds it, rows of agents first. Elsewhere it is context.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..engines.token_kinds import KINDS

SCHEMA_VERSION: Final = 1  # the version of the JSON of a `Rollout`. Readers refuse a newer one.
FORKS: Final = ("tools", "system", "rewritten", "template")
"""Why a call does not simply continue its parent: other tools, another system prompt, a history that was rewritten
after the parent's answer, or a chat template that writes the parent's tokens differently."""
Role = Literal["agent", "auxiliary", "discarded"]
ROLES: Final[tuple[Role, ...]] = ("agent", "auxiliary", "discarded")
"""Paths with tools; paths without any, such as titles and summaries, beside some with tools; and paths whose last
answer was aborted, or was passed over for another answer to the same prompt, or was replaced by a retry."""
RETRY: Final = "retry"  # the type of an edge to a call that this one was to replace
CONSTRAINED: Final = len(KINDS)
"""The code of the kind ``constrained``: a token that was the only one that the grammar allowed."""
_NAMES: Final = np.array([*KINDS, "constrained"])
BROKEN: Final = ("abort", "error")  # how a call ends that was broken off


class Call(msgspec.Struct, kw_only=True):
    """One generation.

    Attributes:
        id: its id.
        parent: the call that it continues; ``None`` if there is none.
        fork: one of `FORKS`; ``None`` if it simply continues its parent, or has none.
        answer: the id of the answer that the agent got.
        model: the name of the model, of those that the server has.
        edges: how the agent declares it to be related to others: a type of its own, and the id of a call (or what the
            agent gave, if no call of the session has it).
        prompt_ids: the tokens of the whole prompt, as the engine was sent them.
        output_ids: the tokens that were sampled, including one that ended the output.
        logprobs: the log-probability of each, as the engine reported it; ``None`` where it reported none.
        logprobs_kind: ``raw``: of the model's own distribution; ``processed``: after temperature and filters;
            ``constrained``: after a grammar as well; ``None``: there are none, or nobody knows.
        finish_reason: the engine's, or ``abort``, or ``error``.
        stop: the stop string that ended the output; ``None`` if none did.
        sampling: how tokens were chosen.
        requested: the same as the agent asked for it.
        weight_version: the version of the weights that sampled the last token, if the engine reports it.
        weight_versions: all versions, each with the half-open range of output tokens that it sampled.
        experts: the experts of each token and layer, in the engine's own encoding.
        tools: how many tools were declared.
        tool_calls: the name and the status of each call in the answer.
        exact: whether nothing in `problems` concerns the tokens.
        problems: what the engine did not report, or what went wrong in recording.
        started: the time, in seconds since 1970.
        seconds: how long it took.
    """

    id: str
    parent: str | None = None
    fork: str | None = None
    answer: str = ""
    model: str = ""
    edges: list[tuple[str, str]] = []
    prompt_ids: list[int]
    output_ids: list[int]
    logprobs: list[float | None]
    logprobs_kind: str | None = None
    finish_reason: str = ""
    stop: str | None = None
    sampling: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    weight_version: str | None = None
    weight_versions: list[tuple[str, int, int]] = []
    experts: str = ""
    tools: int = 0
    tool_calls: list[tuple[str, str]] = []
    exact: bool = True
    problems: list[str] = []
    started: float = 0.0
    seconds: float = 0.0


class Row(msgspec.Struct, kw_only=True):
    """A sequence to learn from. The lists have one entry for each token.

    Attributes:
        input_ids: the tokens.
        loss_mask: 1 for tokens to learn: sampled ones with a log-probability, each in one row only.
        logprobs: the log-probabilities of sampled tokens; ``None`` for all others, and where none was reported.
        kinds: one of `unspool.rl.KINDS`, or ``constrained``.
        calls: the ids of its calls, in order.
        role: one of `ROLES`.
        model: the model of its calls, whose tokens these are.
        prompt_length: the number of tokens before the first that was sampled.
        logprobs_kind: see `Call`; ``None`` if its calls differ.
        finish_reason: that of the last call.
        temperature: of the last call; ``None`` if it was left to the engine.
        weight_versions: the versions of the weights that sampled it, in order of their first token.
        exact, problems: see `Call`; of all its calls.
    """

    input_ids: list[int]
    loss_mask: list[int]
    logprobs: list[float | None]
    kinds: list[str]
    calls: list[str]
    role: Role
    model: str = ""
    prompt_length: int
    logprobs_kind: str | None = None
    finish_reason: str = ""
    temperature: float | None = None
    weight_versions: list[str] = []
    exact: bool = True
    problems: list[str] = []


class Rollout(msgspec.Struct, kw_only=True):
    """Everything that a session recorded.

    Attributes:
        schema_version: the version of this form.
        id: the session's id.
        status: ``open``, or ``finished``.
        reward: the reward; ``None`` if none was given, which is not 0.
        metadata: what the caller wants to know about it.
        exact: whether the engine reports all that training needs, and all calls are exact.
        problems: what is missing, or went wrong.
        calls: in the order in which they ended.
        rows: agents first, then auxiliary ones, then those that were discarded.
    """

    schema_version: int = SCHEMA_VERSION
    id: str
    status: str
    reward: float | None = None
    metadata: dict[str, Any] = {}
    exact: bool = True
    problems: list[str] = []
    calls: list[Call] = []
    rows: list[Row] = []

    def of_model(self, name: str) -> "Rollout":
        """The same, with the rows of one model alone: no other learns from these."""
        return msgspec.structs.replace(self, rows=[row for row in self.rows if row.model == name])


def read_rollout(data: bytes | str) -> Rollout:
    """Read the JSON of a rollout.

    Raises:
        ValueError: it is none, or was written by a newer unspool.
    """
    found = msgspec.json.decode(data, type=Rollout)
    if found.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"schema_version: {found.schema_version} is newer than {SCHEMA_VERSION}, the latest known here"
        )
    return found


class Link(msgspec.Struct, kw_only=True):
    """A call with what its prompt adds to its parent's tokens, or all of the prompt if it does not follow them. Codes
    are the kinds of tokens as indexes into `unspool.rl.KINDS`; see also `CONSTRAINED`."""

    call: Call
    follows: bool
    added: NDArray[np.int64]
    added_codes: NDArray[np.uint8]
    output_codes: NDArray[np.uint8]


def rows_of(links: Sequence[Link]) -> list[Row]:
    """The rows of a session's calls, which are listed with parents before children."""
    by_id = {link.call.id: link for link in links}
    followed = {link.call.parent for link in links if link.follows}
    ends = [link for link in links if link.call.id not in followed and link.call.output_ids]
    paths = [_path(link, by_id) for link in ends]
    with_tools = any(link.call.tools for link in links)
    passed_over = _passed_over(links)
    roles: list[Role] = []
    for path in paths:
        if path[-1].call.id in passed_over:
            roles.append("discarded")
        else:
            roles.append("agent" if not with_tools or any(link.call.tools for link in path) else "auxiliary")
    order = sorted(range(len(paths)), key=lambda i: ROLES.index(roles[i]))
    learnt: set[str] = set()
    return [_row(paths[i], roles[i], learnt) for i in order]


def _path(link: Link, by_id: Mapping[str, Link]) -> list[Link]:
    path = [link]
    while path[-1].follows and path[-1].call.parent is not None:
        path.append(by_id[path[-1].call.parent])
    return path[::-1]


def _passed_over(links: Iterable[Link]) -> set[str]:
    """The calls that nobody continued although they were aborted or retried, or another answer to the same prompt
    was."""
    continued = {link.call.parent for link in links}
    same: dict[Any, list[str]] = defaultdict(list)
    for link in links:
        same[link.call.model, link.call.parent, link.follows, link.added.tobytes()].append(link.call.id)
    found = {link.call.id for link in links if link.call.finish_reason in BROKEN}
    found |= {id for link in links for kind, id in link.call.edges if kind == RETRY}
    for ids in same.values():
        if any(id in continued for id in ids):
            found.update(ids)
    return found - continued


def _row(path: Sequence[Link], role: Role, learnt: set[str]) -> Row:
    ids, mask, logprobs, codes = [], [], [], []
    versions: dict[str, None] = {}
    problems: dict[str, None] = {}
    for link in path:
        call, added = link.call, len(link.added)
        known = np.array([np.nan if p is None else p for p in call.logprobs], np.float64)
        ids += [link.added, np.array(call.output_ids, np.int64)]
        logprobs += [np.full(added, np.nan), known]
        codes += [link.added_codes, link.output_codes]
        mask += [np.zeros(added, np.bool_), ~np.isnan(known) & (call.id not in learnt)]
        learnt.add(call.id)
        versions |= dict.fromkeys(version for version, _, _ in call.weight_versions)
        problems |= dict.fromkeys(call.problems)
    last = path[-1].call
    kinds = {link.call.logprobs_kind for link in path}
    every = np.concatenate(logprobs)
    return Row(
        input_ids=np.concatenate(ids).tolist(),
        loss_mask=np.concatenate(mask).astype(int).tolist(),
        logprobs=[None if np.isnan(p) else p for p in every.tolist()],
        kinds=_NAMES[np.concatenate(codes)].tolist(),
        calls=[link.call.id for link in path],
        role=role,
        model=last.model,
        prompt_length=len(path[0].added),
        logprobs_kind=kinds.pop() if len(kinds) == 1 else None,
        finish_reason=last.finish_reason,
        temperature=last.sampling.get("temperature"),
        weight_versions=list(versions),
        exact=all(link.call.exact for link in path),
        problems=list(problems),
    )
