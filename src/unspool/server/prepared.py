"""A request that has been checked: its prompt, its grammar, and what parsers and engines are told of it."""

import logging
from hashlib import sha256
from typing import Any, Final

import msgspec

from ..dialect.file import Dialect
from ..engines import Request
from ..engines.kept import Kept
from ..engines.threads import Awaited
from ..errors import ConstraintError
from ..events import Stage
from ..grammar import Constraint, ToolStrictLevel, bounds, constrain
from ..parser import Parser
from ..stage import detect_stage
from .checks import BadRequest
from .job import Job, stage_of
from .prompts import Prompts
from .settings import Settings

log = logging.getLogger("unspool.server")
_KEPT: Final = 64
"""How many grammars are kept."""
_KEPT_BYTES: Final = 64 * 1024 * 1024


class Prepared(msgspec.Struct, frozen=True):
    """A request that can run.

    Attributes:
        job: what it asks for.
        prompt: rendered, where there is a chat template.
        stage: where the output begins, where that is known without a prompt.
        constraint: what may be generated.
    """

    job: Job
    prompt: str | None = None
    stage: Stage | None = None
    constraint: Constraint | None = None

    def parser(self, settings: Settings, tokenizer: Any = None) -> Parser:
        """What reads one output.

        Args:
            settings: what holds.
            tokenizer: the engine's.
        """
        asked = self.job if self.job.tools or self.job.tool_choice == "none" else settings
        return Parser(
            settings.dialect,
            tools=asked.tools,
            tool_choice=asked.tool_choice,
            stage=self.stage,
            prompt=self.prompt,
            policy=settings.policy,
            tokenizer=tokenizer,
        )

    def request(self, settings: Settings, id: str, index: int) -> Request:
        """What the engine is asked for one choice."""
        job = self.job
        sampling = job.sampling
        if index and sampling.seed is not None:  # choices with one seed would be the same
            sampling = msgspec.structs.replace(sampling, seed=sampling.seed + index)
        return Request(
            id=id,
            model=settings.model,
            prompt=self.prompt,
            messages=job.messages,
            tools=job.tools,
            tool_choice=job.tool_choice,
            stage=self.stage,
            choice=index,
            sampling=sampling,
            max_tokens=job.max_tokens,
            constraint=self.constraint,
        )


class Constraints:
    """Derives the grammars of requests, and keeps them for requests with the same tools.

    Args:
        settings: what holds.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: Kept[Constraint] = Kept(_KEPT, _KEPT_BYTES)

    def derive(
        self, job: Job, stage: Stage | None, prompt: str | None, tokenizer: Any, awaited: Awaited
    ) -> Constraint | None:
        """The grammar of a request, if it needs one.

        Args:
            job: what is asked for.
            stage: where the output begins, where the request tells that.
            prompt: whose tail tells it otherwise.
            tokenizer: the engine's, which tells what special tokens there are.
            awaited: whether anybody waits for it.

        Raises:
            ConstraintError: nothing can satisfy what is asked for.
            Abandoned: nobody waits any more.
        """
        settings = self._settings
        if not job.callable and job.response_format is None and job.tool_choice in ("auto", "none"):
            return None
        where = stage if stage is not None or prompt is None else detect_stage(settings.dialect, prompt)
        told = [job.callable, job.tool_choice, job.parallel, stage, where, job.response_format]
        try:
            text = msgspec.json.encode(told)
        except UnicodeEncodeError:  # lone surrogates, which schemas must not have
            text = b""
        if where is Stage.TOOL_CALL:  # whether a grammar can go on there, the prompt decides
            text = b""
        key = sha256(text).digest()
        found = self._kept.get(key) if text else None
        if found is None:
            with bounds.awaited(awaited.check):
                try:
                    found = self._derive(job, stage, prompt, tokenizer, settings.strict_level)
                except ConstraintError as error:
                    if settings.strict_level is ToolStrictLevel.OFF:
                        raise
                    # What the request itself asks for has to be kept; the server's own level, as far as it can be.
                    found = self._derive(job, stage, prompt, tokenizer, ToolStrictLevel.OFF)
                    log.warning("calls are not constrained: %s", error)
            if found is not None and text:
                self._kept.put(key, found, 16 * len(text))
        return found

    def _derive(
        self, job: Job, stage: Stage | None, prompt: str | None, tokenizer: Any, level: ToolStrictLevel
    ) -> Constraint | None:
        return constrain(
            self._settings.dialect,
            job.callable,
            job.tool_choice,
            job.parallel,
            stage=stage,
            prompt=prompt,
            response_format=job.response_format,
            strict_level=level,
            tokenizer=tokenizer,
        )


def prepare(
    job: Job,
    settings: Settings,
    prompts: Prompts | None,
    tokenizer: Any = None,
    constraints: Constraints | None = None,
    awaited: Awaited | None = None,
) -> Prepared:
    """Render the prompt and derive the grammar.

    Args:
        job: what is asked for.
        settings: what holds.
        prompts: the model's chat template.
        tokenizer: the engine's, which tells the grammar what special tokens there are.
        constraints: derives grammars.
        awaited: whether anybody waits for it.

    Raises:
        BadRequest: the template refuses, or nothing can satisfy what is asked for.
        Abandoned: nobody waits any more.
    """
    awaited = awaited or Awaited()
    prompt = None if prompts is None else prompts.render(job)
    awaited.check()
    stage = stage_of(job, settings.dialect) if prompt is None else None
    # A prompt leaves open whether the model thinks where it begins with content; who asked for no thinking does not.
    begins = Stage.CONTENT if job.thinking is False and _may_skip(settings.dialect, prompt) else stage
    try:
        constraint = (constraints or Constraints(settings)).derive(job, begins, prompt, tokenizer, awaited)
    except ConstraintError as error:
        field, _, message = str(error).partition(": ")
        raise BadRequest(field, message) from None
    return Prepared(job, prompt, stage, constraint)


def _may_skip(dialect: Dialect, prompt: str | None) -> bool:
    """Whether an output behind this prompt begins where calls may begin, as there is nothing left of reasoning."""
    return prompt is not None and not dialect.framed and detect_stage(dialect, prompt) is Stage.CONTENT
