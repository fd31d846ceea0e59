"""The errors unspool raises for misuse. Model output never raises."""


class UnknownDialect(ValueError):
    """No dialect answers to this name; the message suggests the nearest ones."""


class DialectError(ValueError):
    """A dialect file is wrong, or a dialect cannot express what it was asked to write."""


class ConstraintError(ValueError):
    """A request asks for a constraint that cannot be made; names the field and what is allowed."""
