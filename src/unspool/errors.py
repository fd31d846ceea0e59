"""The errors unspool raises for misuse. Model output never raises."""


class UnknownDialect(ValueError):
    """No dialect answers to this name; the message suggests the nearest ones."""


class DialectError(ValueError):
    """A dialect file is wrong, or a dialect cannot express what it was asked to write."""


class ConstraintError(ValueError):
    """A request asks for a constraint that cannot be made; names the field and what is allowed."""


class ToolsError(ConstraintError):
    """A request's tools, or the choice among them, are wrong; every reader of a request refuses them alike.

    Args:
        field: the field that is at fault, such as ``tools[1].function.name``.
        message: what is wrong with it, and what is allowed.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class TemplateError(ValueError):
    """A chat template cannot be run: it is not a template, met a limit, or tried what the sandbox refuses."""
