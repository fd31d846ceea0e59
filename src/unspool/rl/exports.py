"""Writes rollouts in the shapes that trainers take, as JSON, JSON lines or an Arrow stream.

===========  =======================================================================================================
``trl``      what TRL's ``rollout_func`` returns: ``prompt_ids``, ``completion_ids``, ``logprobs``, ``env_mask``
``verl``     verl's ``AgentLoopOutput``, one for each row
``prime-rl`` prime-rl's ``TrainingSample``, one for each row
``nemo-rl``  NeMo RL's ``DatumSpec``, one for each row; tokens that are not learnt stand in messages of ``user``
``skyrl``    SkyRL's ``GeneratorOutput``, with ``is_last_step``
===========  =======================================================================================================

A row without anything to learn has no place there, nor has, unless asked for, one that was discarded; ``json`` has all.
A rollout whose engine reported too little to learn anything from it is refused: `ValueError`. So are rows of several
models, whose tokens mean different things; see `Rollout.of_model`.
These shapes have a number for every token: that of a token that is not learnt is 0 and, since it is masked, not used.
"""

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby, zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from .rollouts import Role, Rollout, Row

ENCODINGS: Final = ("json", "jsonl", "arrow")
_LEARNT: Final[tuple[Role, ...]] = ("agent", "auxiliary")


def to_trl(rollouts: Iterable[Rollout], roles: Sequence[Role] = _LEARNT) -> dict[str, list[Any]]:
    """What TRL's ``rollout_func`` returns. ``rollout``, ``reward`` and ``role`` reach the reward functions.

    Args:
        rollouts: the rollouts.
        roles: the roles of the rows to take.
    """
    rows = list(_rows(rollouts, roles))
    cut = [_DividedRow.of(row) for _, row in rows]
    return {
        "prompt_ids": [one.prompt for one in cut],
        "completion_ids": [one.output for one in cut],
        "logprobs": [one.logprobs for one in cut],
        "env_mask": [one.mask for one in cut],
        "rollout": [rollout.id for rollout, _ in rows],
        "reward": [rollout.reward for rollout, _ in rows],
        "role": [row.role for _, row in rows],
    }


def to_verl(rollouts: Iterable[Rollout], roles: Sequence[Role] = _LEARNT) -> list[dict[str, Any]]:
    """The fields of verl's ``AgentLoopOutput``; the arguments are as for `to_trl`."""
    return [
        {
            "prompt_ids": cut.prompt,
            "response_ids": cut.output,
            "response_mask": cut.mask,
            "response_logprobs": cut.logprobs,
            "reward_score": rollout.reward,
            "num_turns": 1 + 2 * len(row.calls),
            "metrics": {},
            "extra_fields": {
                "rollout": rollout.id,
                "role": row.role,
                "calls": row.calls,
                "weight_versions": row.weight_versions,
                "finish_reason": row.finish_reason,
            },
        }
        for rollout, row in _rows(rollouts, roles)
        for cut in (_DividedRow.of(row),)
    ]


def to_prime_rl(
    rollouts: Iterable[Rollout], roles: Sequence[Role] = _LEARNT, env_name: str = "unspool"
) -> list[dict[str, Any]]:
    """The fields of prime-rl's ``TrainingSample``; the arguments are as for `to_trl`.

    Args:
        rollouts, roles: see `to_trl`.
        env_name: the name of the environment.

    Raises:
        ValueError: the engine chose a temperature itself, so that nobody knows it.
    """
    found = []
    for rollout, row in _rows(rollouts, roles):
        calls = {call.id: call for call in rollout.calls}
        temperatures = [1.0] * len(row.input_ids)
        for id in row.calls:
            call, start = calls[id], len(calls[id].prompt_ids)
            temperature = call.sampling.get("temperature")
            end = start + len(call.output_ids)
            if temperature is None and any(row.loss_mask[start:end]):
                raise ValueError(f"{rollout.id}: the temperature of call {id} was left to the engine; set it")
            temperatures[start:end] = [1.0 if temperature is None else float(temperature)] * (end - start)
        found.append(
            {
                "token_ids": row.input_ids,
                "mask": [bool(learnt) for learnt in row.loss_mask],
                "logprobs": _known(row),
                "temperatures": temperatures,
                "env_name": env_name,
            }
        )
    return found


def to_nemo_rl(rollouts: Iterable[Rollout], roles: Sequence[Role] = _LEARNT) -> list[dict[str, Any]]:
    """The fields of NeMo RL's ``DatumSpec``; the arguments are as for `to_trl`."""
    found: list[dict[str, Any]] = []
    for rollout, row in _rows(rollouts, roles):
        log, at, known = [], 0, _known(row)
        for learnt, run in groupby(row.loss_mask):
            end = at + len(list(run))
            message = {"role": "assistant" if learnt else "user", "content": "", "token_ids": row.input_ids[at:end]}
            log.append({**message, "generation_logprobs": known[at:end]} if learnt else message)
            at = end
        extra = {"rollout": rollout.id, "role": row.role, "reward": rollout.reward}
        found.append(
            {
                "message_log": log,
                "length": len(row.input_ids),
                "extra_env_info": extra,
                "loss_multiplier": 1.0,
                "idx": len(found),
            }
        )
    return found


@dataclass(frozen=True)
class TrajectoryID:
    """SkyRL's ``TrajectoryID``: what a trajectory is about, and the number of the attempt."""

    instance_id: str
    repetition_id: int

    def to_string(self) -> str:
        """Both, as SkyRL joins them."""
        return f"{self.instance_id}_{self.repetition_id}"


def to_skyrl(rollouts: Iterable[Rollout], roles: Sequence[Role] = _LEARNT) -> dict[str, list[Any]]:
    """SkyRL's ``GeneratorOutput`` for its step-wise training; the arguments are as for `to_trl`.

    The rows of a rollout are the steps of one trajectory. Rollouts with the same ``instance_id`` in their metadata are
    repetitions, whose rewards SkyRL compares; without that, each is an instance of its own.
    """
    rows: list[tuple[Rollout, Row]] = []
    owners: list[TrajectoryID] = []
    counts: defaultdict[str, count[int]] = defaultdict(count)
    for rollout in rollouts:
        found = list(_rows([rollout], roles))
        if found:
            instance = str(rollout.metadata.get("instance_id", rollout.id))
            owners += [TrajectoryID(instance, next(counts[instance]))] * len(found)
            rows += found
    cut = [_DividedRow.of(row) for _, row in rows]
    return {
        "prompt_token_ids": [one.prompt for one in cut],
        "response_ids": [one.output for one in cut],
        "rewards": [rollout.reward for rollout, _ in rows],
        "loss_masks": [one.mask for one in cut],
        "stop_reasons": [row.finish_reason for _, row in rows],
        "rollout_logprobs": [one.logprobs for one in cut],
        "trajectory_ids": owners,
        "is_last_step": [id != following for id, following in zip_longest(owners, owners[1:])],
    }


def to_table(rollouts: Iterable[Rollout], roles: Sequence[Role] | None = None) -> Any:
    """All rows as a `pyarrow.Table`, with ``rollout`` and ``reward``; for Ray Data, Parquet, or an Arrow stream.

    Args:
        rollouts: the rollouts.
        roles: the roles of the rows to take; by default all.
    """
    import pyarrow as pa

    schema = pa.schema(
        [
            ("rollout", pa.string()),
            ("reward", pa.float64()),
            ("input_ids", pa.list_(pa.int64())),
            ("loss_mask", pa.list_(pa.int8())),
            ("logprobs", pa.list_(pa.float64())),
            ("kinds", pa.list_(pa.dictionary(pa.int8(), pa.string()))),
            ("calls", pa.list_(pa.string())),
            ("role", pa.string()),
            ("model", pa.string()),
            ("prompt_length", pa.int64()),
            ("logprobs_kind", pa.string()),
            ("finish_reason", pa.string()),
            ("temperature", pa.float64()),
            ("weight_versions", pa.list_(pa.string())),
            ("exact", pa.bool_()),
            ("problems", pa.list_(pa.string())),
        ]
    )
    return pa.Table.from_pylist(list(_flat(rollouts, roles)), schema)


_SHAPES: Final[Mapping[str, Callable[[Iterable[Rollout]], Any]]] = {
    "trl": to_trl,
    "verl": to_verl,
    "prime-rl": to_prime_rl,
    "nemo-rl": to_nemo_rl,
    "skyrl": to_skyrl,
}
FORMATS: Final = ("json", *_SHAPES)


def written(rollouts: Sequence[Rollout], form: str = "json", encoding: str = "json") -> tuple[bytes, str]:
    """Write rollouts in one of `FORMATS` and `ENCODINGS`, and return the bytes and their media type. As lines and in
    Arrow, ``json`` has the rows alone. `ValueError` if the form needs something that a rollout does not have;
    `ImportError` if Arrow is not installed."""
    whole: Any = rollouts[0] if len(rollouts) == 1 else list(rollouts)
    shaped = whole if form == "json" else msgspec.to_builtins(_SHAPES[form](rollouts))
    if encoding == "json":
        return msgspec.json.encode(shaped), "application/json"
    rows = _flat(rollouts, None) if form == "json" else shaped
    if isinstance(rows, dict):
        rows = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    if encoding == "jsonl":
        return b"".join(msgspec.json.encode(row) + b"\n" for row in rows), "application/jsonl"
    import pyarrow as pa

    table = to_table(rollouts) if form == "json" else pa.Table.from_pylist(rows)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue(), "application/vnd.apache.arrow.stream"


def _rows(rollouts: Iterable[Rollout], roles: Sequence[Role]) -> "Iterable[tuple[Rollout, Row]]":
    models: set[str] = set()
    for rollout in rollouts:
        rows = [row for row in rollout.rows if row.role in roles]
        learnt = [row for row in rows if any(row.loss_mask)]
        problems = dict.fromkeys(p for one in (rollout, *(rows or rollout.calls)) for p in one.problems)
        if problems and not learnt and (rows or not rollout.rows):
            raise ValueError(f"{rollout.id}: there is nothing to learn: {'; '.join(problems)}")
        models |= {row.model for row in learnt if row.model}
        if len(models) > 1:
            raise ValueError(f"{rollout.id}: there are rows of several models; choose one: {', '.join(sorted(models))}")
        yield from ((rollout, row) for row in learnt)


class _DividedRow(NamedTuple):
    """A row, divided where its prompt ends: the tokens before and after, and what is known of those after."""

    prompt: list[int]
    output: list[int]
    mask: list[int]
    logprobs: list[float]

    @classmethod
    def of(cls, row: Row) -> "_DividedRow":
        at = row.prompt_length
        return cls(row.input_ids[:at], row.input_ids[at:], row.loss_mask[at:], _known(row)[at:])


def _known(row: Row) -> list[float]:
    """The log-probabilities, with 0 for tokens that have none."""
    return [0.0 if p is None else p for p in row.logprobs]


def _flat(rollouts: Iterable[Rollout], roles: Sequence[Role] | None) -> Iterator[dict[str, Any]]:
    """The rows, each with the id and the reward of its rollout."""
    for rollout in rollouts:
        for row in rollout.rows:
            if roles is None or row.role in roles:
                yield {"rollout": rollout.id, "reward": rollout.reward, **msgspec.to_builtins(row)}
