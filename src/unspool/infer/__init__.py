"""Infers a dialect from a chat template, and proves it: what the template renders, the dialect reads back.

`histories` contains the conversations to render; `rendering` renders them in a separate process. `asking`
finds out which form of history the template accepts, `cutting` finds its turns, `draft` derives the keys of a dialect
file from them, and `proof` reads back what the template writes. `inference` tries what `draft` derives, and
`choosing` proves given dialects and chooses one.
"""

from ..chat_templates.worker import Limits
from ..errors import TemplateError
from .inference import Inference, infer_dialect
from .proof import Case

__all__ = ["Case", "Inference", "Limits", "TemplateError", "infer_dialect"]
