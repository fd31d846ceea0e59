"""A request that has been checked: its prompt, its grammar, and what parsers and engines are told of it."""

import logging
from typing import Any

import msgspec

from ..engines import Request
from ..errors import ConstraintError
from ..events import Stage
from ..grammar import Constraint, ToolStrictLevel, constrain
from ..parser import Parser
from .checks import BadRequest
from .job import Job, stage_of
from .prompts import Prompts
from .settings import Settings

log = logging.getLogger("unspool.server")


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
        return Parser(
            settings.dialect,
            tools=self.job.tools,
            tool_choice=self.job.tool_choice,
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


def prepare(job: Job, settings: Settings, prompts: Prompts | None, tokenizer: Any = None) -> Prepared:
    """Render the prompt and derive the grammar.

    Args:
        job: what is asked for.
        settings: what holds.
        prompts: the model's chat template.
        tokenizer: the engine's, which tells the grammar what special tokens there are.

    Raises:
        BadRequest: the template refuses, or nothing can satisfy what is asked for.
    """
    prompt = None if prompts is None else prompts.render(job)
    stage = stage_of(job, settings.dialect) if prompt is None else None

    def constrained(level: ToolStrictLevel) -> Constraint | None:
        return constrain(
            settings.dialect,
            job.callable,
            job.tool_choice,
            job.parallel,
            stage=stage,
            prompt=prompt,
            response_format=job.response_format,
            strict_level=level,
            tokenizer=tokenizer,
        )

    try:
        try:
            constraint = constrained(settings.strict_level)
        except ConstraintError as error:
            if settings.strict_level is ToolStrictLevel.OFF:
                raise
            constraint = constrained(ToolStrictLevel.OFF)  # what the request itself asks for has to be kept
            log.warning("calls are not constrained: %s", error)
    except ConstraintError as error:
        field, _, message = str(error).partition(": ")
        raise BadRequest(field, message) from None
    return Prepared(job, prompt, stage, constraint)
