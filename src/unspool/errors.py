"""The errors that unspool raises for misuse. Model output never raises."""


class UnknownDialect(ValueError):
    """There is no dialect of this name; the message suggests similar ones."""


class DialectError(ValueError):
    """A dialect file is wrong, or a dialect cannot express what it should write."""


class ConstraintError(ValueError):
    """A request asks for a constraint that cannot be made; names the field and what is allowed.

    Attributes:
        tool: the name of the tool whose parameters are refused; ``None`` if it is something else.
    """

    tool: str | None = None


class ToolsError(ConstraintError):
    """A request's tools or tool choice are wrong; every reader of requests refuses the same ones.

    Args:
        field: the wrong field, such as ``tools[1].function.name``.
        message: what is wrong with it, and what is allowed.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class TemplateError(ValueError):
    """A chat template cannot be run: it is invalid, exceeded a limit, or did what the sandbox refuses."""


class GgufError(TemplateError):
    """A file is not a GGUF, or its metadata are malformed."""
