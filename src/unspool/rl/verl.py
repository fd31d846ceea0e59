"""An agent loop for verl, for any dialect and any template, with the tokens as sampled. Needs verl 0.9 or newer.

verl finds it through the file that ``actor_rollout_ref.rollout.agent.agent_loop_config_path`` names::

    - name: unspool
      _target_: unspool.rl.verl.AgentLoop
      dialect: hermes

together with ``actor_rollout_ref.rollout.agent.default_agent_loop=unspool``, or a column ``agent_name``. It replaces
two parts of verl's own ``tool_agent``: the token builder, which is specific to model families, and the tool parser,
which has one pattern per format. Everything else is verl's: tools, limits, servers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, register
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser
from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder, MergeResult

from ..dialect.file import Dialect
from ..engines.token_kinds import SAMPLED, sampled_kinds
from .conversation import Conversation
from .rewards import format_score


class TokenBuilder(ContinuousTokenBuilder):  # type: ignore[misc]  # verl has no types
    """Keeps one trajectory's `Conversation`, with the interface of verl's builders.

    Args:
        tokenizer: verl's tokenizer.
        dialect, template: see `Conversation`.
        kinds: the kinds of tokens to learn; see `Conversation.mask`.
        chat_template_kwargs: further variables of the template."""

    def __init__(
        self,
        tokenizer: Any,
        dialect: str | Dialect,
        *,
        template: str | None = None,
        kinds: Iterable[str] = SAMPLED,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(tokenizer, chat_template_kwargs=dict(chat_template_kwargs or {}))
        self.conversation: Conversation | None = None  # the conversation; ``None`` before the first prompt
        self._dialect = dialect
        self._template = template
        self._kinds = sampled_kinds(kinds)

    @property
    def begun(self) -> Conversation:
        """The conversation; `ValueError` if it has no prompt yet."""
        if self.conversation is None:
            raise ValueError("conversation: has no prompt yet; build_initial_tokens begins it")
        return self.conversation

    def build_initial_tokens(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None, **media: Any
    ) -> list[int]:
        """The ids of the first prompt."""
        self.conversation = Conversation(
            self._dialect,
            self.tokenizer,
            template=self._template,
            messages=list(messages),
            tools=tools or None,
            variables=self.chat_template_kwargs,
        )
        return self.conversation.prompt()

    def merge_assistant_tokens(self, runtime_token_ids: list[int], assistant_token_ids: list[int]) -> MergeResult:
        """Append an answer to the ids."""
        self.begun.extend(assistant_token_ids)
        ids = [*runtime_token_ids, *assistant_token_ids]
        return MergeResult(token_ids=ids, appended_token_count=len(assistant_token_ids), kind="assistant")

    def merge_context_tokens(
        self,
        previous_messages: Sequence[Any],
        updated_messages: Sequence[Any],
        runtime_token_ids: list[int],
        *,
        tools: Sequence[Any] | None = None,
    ) -> MergeResult:
        """Append messages of tools or users to the ids, and the next answer's opening."""
        self._assert_append_only(list(previous_messages), list(updated_messages))
        added = self.begun.add(list(updated_messages[len(previous_messages) :]))
        ids = [*runtime_token_ids, *added]
        return MergeResult(token_ids=ids, appended_token_count=len(added), kind="context")

    def align_response_metadata(
        self,
        merge_result: MergeResult,
        response_mask: list[int],
        response_logprobs: list[float] | None = None,
        *,
        assistant_logprobs: list[float] | None = None,
    ) -> tuple[list[int], list[float] | None]:
        """The mask and the log-probabilities of the ids. The mask is 1 for an answer's tokens of the kinds to learn."""
        mask, logprobs = super().align_response_metadata(
            merge_result, response_mask, response_logprobs, assistant_logprobs=assistant_logprobs
        )
        count = merge_result.appended_token_count
        if merge_result.kind == "assistant" and count:
            mask[-count:] = self.begun.mask(self._kinds)[-count:].astype(int).tolist()
        return mask, logprobs


class _ConversationCalls(ToolParser):  # type: ignore[misc]
    """Returns the calls that the conversation found in its last answer."""

    def __init__(self, builder: TokenBuilder) -> None:
        super().__init__(builder.tokenizer)
        self._builder = builder

    async def extract_tool_calls(self, responses_ids: list[int], tools: Any = None) -> tuple[str, list[FunctionCall]]:
        turn = self._builder.begun.turns[-1]
        calls = [FunctionCall(name=c.name, arguments=c.arguments, tool_call_id=c.id) for c in turn.tool_calls]
        return turn.content, calls


@register("unspool")
class AgentLoop(ToolAgentLoop):  # type: ignore[misc]
    """verl's tool agent, based on a `Conversation`.

    The output's ``extra_fields`` contain ``calls`` (``turn``, ``name``, ``status``, ``known`` and ``attempt`` of each)
    and ``format_scores`` (one for each turn, see `unspool.rl.rewards.format_score`). verl passes them to rewards as
    ``tool_extra_fields``, and keeps them in the batch.

    Args:
        dialect, template: see `Conversation`.
        kinds: the kinds of tokens to learn.
        args, kwargs: the arguments that verl passes to agent loops.
    """

    def __init__(
        self,
        *args: Any,
        dialect: str | Dialect,
        template: str | None = None,
        kinds: Iterable[str] = SAMPLED,
        **kwargs: Any,
    ) -> None:
        # Without the model's type, verl makes its simplest builder, which is then replaced.
        super().__init__(*args, **{**kwargs, "hf_model_type": None})
        self.continuous_token_builder = TokenBuilder(
            self.tokenizer,
            dialect,
            template=template,
            kinds=kinds,
            chat_template_kwargs=self.apply_chat_template_kwargs,
        )
        self.tool_parser = _ConversationCalls(self.continuous_token_builder)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Answer and run calls until an answer has no calls, or one of verl's limits is reached."""
        output = await super().run(sampling_params, **kwargs)
        conversation = self.continuous_token_builder.begun
        fields = ("turn", "name", "status", "known", "attempt")
        output.extra_fields["calls"] = [{name: getattr(c, name) for name in fields} for c in conversation.calls]
        output.extra_fields["format_scores"] = [format_score(turn) for turn in conversation.turns]
        return output
