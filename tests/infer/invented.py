"""Chat templates of families that do not exist."""

_HEAD = """{{- bos_token }}{%- if tools %}<<tools>>{% for t in tools %}{{ t.function | tojson }}
{% endfor %}<</tools>>
{% endif %}"""

JSON_BLOCKS = (
    _HEAD
    + """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<~bot~>' }}
{%- if m.reasoning_content %}{{ '<ponder>\\n' + m.reasoning_content + '\\n</ponder>\\n' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}{{ '\\n<act>\\n{"tool": "' + c.function.name + '", "input": ' }}
{{- c.function.arguments | tojson }}{{ '}\\n</act>' }}{% endfor %}{{ '<~done~>\\n' }}
{%- else %}{{ '<~' + m.role + '~>' + m.content + '<~done~>\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<~bot~>{% endif %}"""
)
"""A JSON object in a tag for each call."""

TAGGED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '[[bot]]\\n' + (m.content or '') }}
{%- if m.tool_calls %}{{ '\\n<run>\\n' }}{% for c in m.tool_calls %}<do what="{{ c.function.name }}">
{% for k, v in c.function.arguments.items() %}<with key="{{ k }}">{{ v if v is string else v | tojson }}</with>
{% endfor %}</do>
{% endfor %}</run>{% endif %}{{ '[[over]]\\n' }}
{%- else %}{{ '[[' + m.role + ']]\\n' + m.content + '[[over]]\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '[[bot]]\\n' }}{% endif %}"""
"""Arguments in tags of their own, all calls in one block."""

PYTHONIC = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|me|>' + (m.content or '') }}
{%- if m.tool_calls %}{{ '<|code|>[' }}{% for c in m.tool_calls %}{{ c.function.name }}(
{%- for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %})
{{- ', ' if not loop.last }}{% endfor %}{{ ']<|/code|>' }}{% endif %}{{ '<|stop|>' }}
{%- else %}{{ '<|' + m.role + '|>' + m.content + '<|stop|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|me|>{% endif %}"""
"""A list of Python calls."""

WITH_IDS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<A>' + (m.content or '') }}
{%- if m.tool_calls %}{{ '<CALLS>[' }}{% for c in m.tool_calls %}{{ '{"id": "' + c.id + '", "name": "' }}
{{- c.function.name }}{{ '", "arguments": ' }}
{{- (c.function.arguments | tojson) if c.function.arguments is mapping else c.function.arguments }}{{ '}' }}
{{- ', ' if not loop.last }}{% endfor %}{{ ']</CALLS>' }}{% endif %}{{ eos_token }}
{%- elif m.role == 'tool' %}{{ '<RESULT id=' + m.tool_call_id + '>' + m.content + '</RESULT>' }}
{%- else %}{{ '<U>' + m.content }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<A>{% endif %}"""
"""A list of objects with ids, ended by the tokenizer's own token."""

SWITCHED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<bot>\\n<mull>' + (m.reasoning_content or '') }}
{{- '</mull>\\n\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '\\n<call>' + c.function.name + '<args>' }}
{{- c.function.arguments | tojson }}{{ '</call>' }}{% endfor %}{{ '<end>' }}
{%- else %}{{ '<' + m.role + '>\\n' + m.content + '<end>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<bot>\\n<mull>' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '</mull>\\n\\n' }}{% endif %}{% endif %}"""
"""Prompts open the reasoning, unless it is switched off."""

ONLY_CLOSED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<bot>' }}
{%- if m.reasoning_content %}{{ m.reasoning_content + '\\n</muse>\\n' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}{{ '<call name="' + c.function.name + '">' }}
{{- c.function.arguments | tojson }}{{ '</call>' }}{% endfor %}{{ '<end>' }}
{%- else %}{{ '<' + m.role + '>' + m.content + '<end>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<bot>I muse:\\n' }}{% endif %}"""
"""Histories only close the reasoning; prompts open it, in words."""

FRAMED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- if m.thinking %}{{ '<|from|>bot<|part|>mind<|text|>' + m.thinking + '<|fin|>' }}{% endif %}
{%- if m.content %}{{ '<|from|>bot<|part|>say<|text|>' + m.content + '<|fin|>' }}{% endif %}
{%- for c in m.tool_calls or [] %}{{ '<|from|>bot<|part|>use ' + c.function.name + '<|text|>' }}
{{- c.function.arguments | tojson }}{{ '<|fin|>' }}{% endfor %}
{%- else %}{{ '<|from|>' + m.role + '<|text|>' + m.content + '<|fin|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|from|>bot{% endif %}"""
"""Every part is a message with a header."""

TYPED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<bot>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '<use:' + c.function.name + '>' }}
{%- for k, v in c.function.arguments.items() %}{{ '<p n="' + k + '" string="' }}
{{- ('true' if v is string else 'false') + '">' }}
{{- v if v is string else v | tojson }}{{ '</p>' }}{% endfor %}{{ '</use>' }}{% endfor %}{{ '<end>' }}
{%- else %}{{ '<' + m.role + '>' + m.content + '<end>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<bot>{% endif %}"""
"""Markup says whether a value is a string."""

FENCED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '### Helper:\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '\\n```tool\\n' }}
{{- {'tool_name': c.function.name, 'params': c.function.arguments} | tojson }}{{ '\\n```' }}{% endfor %}
{{- '\\n<eot>\\n' }}
{%- else %}{{ '### ' + m.role + ':\\n' + m.content + '\\n<eot>\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '### Helper:\\n' }}{% endif %}"""
"""A fence for each call."""

ELEMENTS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- if m.reasoning_content %}{{ '<<bot:plan>>' + m.reasoning_content + '<</bot>>' }}{% endif %}
{%- if m.content %}{{ '<<bot:say>>' + m.content + '<</bot>>' }}{% endif %}
{%- for c in m.tool_calls or [] %}
{{- '<<bot:do ' + c.function.name + '>>' + (c.function.arguments | tojson) + '<</bot>>' }}{% endfor %}
{{- '<<over>>' }}
{%- else %}{{ '<<' + m.role + '>>' + m.content + '<</' + m.role + '>>' }}{% endif %}
{%- endfor %}"""
"""Every part is an element, and no prompt opens one."""

ATTRIBUTES = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<A>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}
{{- '<call id="' + c.id + '" fn="' + c.function.name + '">' + (c.function.arguments
    if c.function.arguments is string else c.function.arguments | tojson) + '</call>' }}{% endfor %}{{ eos_token }}
{%- elif m.role == 'tool' %}{{ '<R id="' + m.tool_call_id + '">' + m.content + '</R>' }}
{%- else %}{{ '<U>' + m.content }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<A>{% endif %}"""
"""Ids and names are attributes."""

SWITCHED_OFF = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '[assistant]\\n' }}{% if m.reasoning_content %}
{{- '<reflect>\\n' + m.reasoning_content + '\\n</reflect>\\n\\n' }}{% endif %}{{ m.content or '' }}
{%- for c in m.tool_calls or [] %}
{{- ('\\n' if (m.content or not loop.first) else '') + '<tool>'
    + ({'name': c.function.name, 'arguments': c.function.arguments} | tojson) + '</tool>' }}{% endfor %}{{ '[end]\\n' }}
{%- else %}{{ '[' + m.role + ']\\n' + m.content + '[end]\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '[assistant]\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<reflect>\\n\\n</reflect>\\n\\n' }}
{%- endif %}{% endif %}"""
"""Prompts close the reasoning if it is switched off."""

NUMBERED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<bot>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}
{{- '<|call|>' ~ c.function.name ~ '#' ~ loop.index0 ~ '<|args|>' ~ (c.function.arguments | tojson)
    ~ '<|/call|>' }}{% endfor %}{{ '<fin>' }}
{%- else %}{{ '<' + m.role + '>' + m.content + '<fin>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<bot>{% endif %}"""
"""Calls are numbered."""

NESTED = """{%- macro val(v) %}{% if v is mapping %}
{%- for k, x in v.items() %}<f n="{{ k }}">{{ val(x) }}</f>{% endfor %}
{%- elif v is string %}{{ v }}{% elif v is iterable %}{% for x in v %}<li>{{ val(x) }}</li>{% endfor %}
{%- else %}{{ v | tojson }}{% endif %}{% endmacro %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<bot>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}<use t="{{ c.function.name }}">
{%- for k, v in c.function.arguments.items() %}<f n="{{ k }}">{{ val(v) }}</f>{% endfor %}</use>
{%- endfor %}{{ '<fin>' }}
{%- else %}{{ '<' + m.role + '>' + m.content + '<fin>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<bot>{% endif %}"""
"""Lists and objects are markup too."""

STRICT = """{%- if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}
{%- set ns = namespace(last='') %}{%- for m in messages %}
{%- if m.role == ns.last %}{{ raise_exception('roles must alternate') }}{% endif %}{% set ns.last = m.role %}
{%- if m.role == 'assistant' %}{% if m.tool_calls and m.content %}
{{- raise_exception('content and calls cannot stand together') }}{% endif %}{{ '[A]' + (m.content or '') }}
{%- if m.tool_calls %}{{ '[CALLS]' }}{% for c in m.tool_calls %}{% if c.id | length < 9 %}
{{- raise_exception('id too short') }}{% endif %}
{{- c.function.name + '[ARGS]' + (c.function.arguments | tojson) + '[END]' }}{% endfor %}{% endif %}{{ '[EOT]' }}
{%- elif m.role == 'tool' %}{{ '[RESULT]' + m.content + '[/RESULT]' }}
{%- else %}{{ '[U]' + m.content + '[/U]' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}[A]{% endif %}"""
"""The template refuses much: a system prompt, two turns of one role, short ids, text beside calls."""

MARGINS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '[bot:]' }}{% if m.content %}{{ ' ' + m.content + '\\n' }}{% endif %}
{%- for c in m.tool_calls or [] %}{{ '<do>' + c.function.name }}
{%- for k, v in c.function.arguments.items() %}{{ '<arg ' + k + '>' }}
{%- if v is not string %}{{ v | tojson }}{% elif '<' in v or '\\n' in v %}{{ '<raw>' + v + '</raw>' }}
{%- else %}{{ v }}{% endif %}{{ '</arg>' }}{% endfor %}{{ '</do>' }}{% endfor %}{{ '<end>' }}
{%- else %}{{ '[' + m.role + ':] ' + m.content + '\\n<end>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}[bot:]{% endif %}"""
"""White space surrounds content, and values that would break the markup are wrapped."""

OBJECT_IN_OBJECT = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '[ASSISTANT]' + (m.content or '') }}
{%- if m.tool_calls %}{{ '[CALL_TOOLS][' }}{% for c in m.tool_calls %}{{ '{"type": "function", "id": "' + c.id }}
{{- '", "function": {"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}}' }}
{{- ', ' if not loop.last }}{% endfor %}{{ ']' }}{% endif %}{{ '[END_TURN]' }}
{%- else %}{{ '[USER]' + m.content + '[/USER]' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}[ASSISTANT]{% endif %}"""
"""A call's object is a member of another object."""

GLUED = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|me|>' + (m.content or '') }}
{%- if m.tool_calls %}[{% for c in m.tool_calls %}{{ c.function.name }}(
{%- for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %})
{{- ', ' if not loop.last }}{% endfor %}]{% endif %}{{ '<|stop|>' }}
{%- else %}{{ '<|' + m.role + '|>' + m.content + '<|stop|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|me|>{% endif %}"""
"""Only a bracket separates text and calls."""

RECIPIENTS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|head|>bot<|tail|>' }}
{%- if m.content %}{{ '##user:\\n' + m.content }}{% endif %}
{%- for c in m.tool_calls or [] %}{{ '##' + c.function.name + ':\\n' + (c.function.arguments | tojson) }}{% endfor %}
{{- '<|over|>' }}
{%- else %}{{ '<|head|>' + m.role + '<|tail|>' + m.content + '<|over|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|head|>bot<|tail|>##{% endif %}"""
"""Each part begins with its recipient; the prompt contains the first marker."""

GONE_ON_WITH = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<s>bot\\n' }}{% if loop.last %}{{ '<mull>\\n' }}{% endif %}{{ m.content or '' }}
{%- if m.tool_calls %}{{ '\\n<DO>[' }}
{%- for c in m.tool_calls %}{{ '{"name": "' + c.function.name + '", "arguments": ' }}
{{- c.function.arguments | tojson }}{{ '}' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']</DO>' }}{% endif %}
{{- '</s>\\n' }}
{%- else %}{{ '<s>' + m.role + '\\n' + m.content + '</s>\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<s>bot\\n<mull>\\n' }}{% endif %}
{#- what thinks ends in </mull> #}"""
"""The last turn is written as the beginning of an answer."""

SQUARE = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '[bot]' }}{% if m.thinking %}{{ '[think]' + m.thinking + '[/think]' }}{% endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}{{ '[call]' + c.function.name + '[with]' }}
{%- for k, v in c.function.arguments.items() %}
{{- '[' + k + ']' ~ (v if v is string else v | tojson) ~ '[/' + k + ']' }}{% endfor %}{{ '[/call]' }}{% endfor %}
{{- '[/bot]' }}
{%- else %}{{ '[' + m.role + ']' + m.content + '[/' + m.role + ']' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}[bot]{% endif %}"""
"""Tags in square brackets, as lists of JSON have."""

KNOWN = """{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '\\n<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' }}
{{- c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""A format that a shipped dialect reads."""

SILENT = """{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""The template writes no calls."""

ACTIONS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ 'AI:\\n' }}{% set said = m.content or '' %}
{%- if '[END MUSING]' in said %}{% set said = said.split('[END MUSING]')[-1] %}{% endif %}
{{- said + '\\n' if said }}
{%- for c in m.tool_calls or [] %}{{ 'Action: ' + c.function.name + '\\nAction Input: ' }}
{{- (c.function.arguments | tojson) + '\\n' }}{% endfor %}{{ '<END>\\n' }}
{%- else %}{{ m.role + ':\\n' + m.content + '\\n<END>\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ 'AI:\\n[MUSING]' }}{% endif %}"""
"""Calls in words, one of them after the name; prompts open a reasoning that no history keeps."""

FENCE_BEHIND_TEXT = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<turn>ai\\n' + (m.content or '') }}
{%- if m.tool_calls %}{{ '```run\\n' }}{% for c in m.tool_calls %}{{ c.function.name }}(
{%- for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %})
{{- '\\n' }}{% endfor %}{{ '```' }}{% endif %}{{ '</turn>\\n' }}
{%- else %}{{ '<turn>' + m.role + '\\n' + m.content + '</turn>\\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<turn>ai\\n' }}{% endif %}"""
"""A fence that comes right after text."""

LENTICULAR = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|assistant|>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '⟦' ~ c.function.name ~ '⟧' }}
{%- for k, v in c.function.arguments.items() %}
{{- '⟪' ~ k ~ '⟫' ~ (v if v is string else v | tojson) ~ '⟪/⟫' }}{% endfor %}{{ '⟦/⟧' }}{% endfor %}{{ '<|z|>' }}
{%- else %}{{ '<|' + m.role + '|>' + m.content + '<|z|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Brackets that no other family uses."""

KINDS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|assistant|>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '<use name="' ~ c.function.name ~ '">' }}
{%- for k, v in c.function.arguments.items() %}
{{- '<arg name="' ~ k ~ '" type="' ~ ('string' if v is string else 'json') ~ '">' }}
{{- (v if v is string else v | tojson) ~ '</arg>' }}{% endfor %}{{ '</use>' }}{% endfor %}{{ '<|z|>' }}
{%- else %}{{ '<|' + m.role + '|>' + m.content + '<|z|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
"""Markup has two words for types."""

WITHOUT_COMMAS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|me|>' + (m.content or '') }}
{%- if m.tool_calls %}{{ '<|code|>[' }}{% for c in m.tool_calls %}{{ c.function.name }}(
{%- for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %})
{{- ', ' if not loop.last }}{% endfor %}{{ ']<|/code|>' }}{% endif %}{{ '<|stop|>' }}
{%- else %}{{ '<|' + m.role + '|>' + m.content + '<|stop|>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|me|>{% endif %}"""
"""Python calls whose author forgot the separator of arguments."""

PADDED = """{% for m in messages %} {% set last = loop.last %} {% if m.role == 'assistant' %}
 <|Bot|> {% if m.tool_calls %}
{%- for c in m.tool_calls %} <|go|> {{ c.function.name }} {{ c.function.arguments | tojson }} <|/go|> {% endfor %}
{%- else %} {{ m.content }} {% if not last %} <|end|> {% endif %} {% endif %} {% else %} <|{{ m.role }}|>
{{- m.content }} {% if last %} <|Bot|> {% endif %} {% endif %} {% endfor %}"""
"""White space depends on a turn's place, and nothing ends the last one."""

FAMILIES = {
    "JSON in blocks": JSON_BLOCKS,
    "tagged arguments": TAGGED,
    "Python calls": PYTHONIC,
    "a list with ids": WITH_IDS,
    "a thinking switch": SWITCHED,
    "reasoning that only closes": ONLY_CLOSED,
    "frames": FRAMED,
    "typed markup": TYPED,
    "fences": FENCED,
    "elements": ELEMENTS,
    "attributes with ids": ATTRIBUTES,
    "thinking switched off": SWITCHED_OFF,
    "numbered calls": NUMBERED,
    "nested markup": NESTED,
    "a strict template": STRICT,
    "margins and wrapped values": MARGINS,
    "objects in objects": OBJECT_IN_OBJECT,
    "calls glued to text": GLUED,
    "recipients": RECIPIENTS,
    "a last turn to be gone on with": GONE_ON_WITH,
    "square brackets": SQUARE,
    "actions": ACTIONS,
    "a fence behind text": FENCE_BEHIND_TEXT,
    "lenticular brackets": LENTICULAR,
    "words for types": KINDS,
    "Python calls without commas": WITHOUT_COMMAS,
    "spaces by place": PADDED,
}

AMBIGUOUS = """{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<bot>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %} I call {{ c.function.name }} with
{%- for k, v in c.function.arguments.items() %} {{ k }} {{ v }}{% endfor %}{% endfor %}{{ '<end>' }}
{%- else %}{{ '<' + m.role + '>' + m.content + '<end>' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}<bot>{% endif %}"""
"""Nothing distinguishes a call from prose."""
