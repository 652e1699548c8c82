"""Every refusal of the product: one small class each, one plain sentence that says what to do next.

A refusal is decided from public quantities alone (the request, the schema, the number of units), so its
text may be shown to whoever asked. What goes wrong after patient data was opened is never a `Refusal`.
"""


class Refusal(Exception):
    """A request that cannot be carried out as asked; nothing was computed, drawn or charged."""

    code = "refused"


class InvalidRho(Refusal):
    code = "invalid_rho"


class InvalidPrivacy(Refusal):
    """An (ε, δ) or a pure ε that no ρ stands for."""

    code = "invalid_privacy"


class InvalidNoiseScale(Refusal):
    code = "invalid_noise_scale"


class UnknownMechanism(Refusal):
    code = "unknown_mechanism"


class InvalidSchema(Refusal):
    code = "invalid_schema"


class InvalidFeatures(Refusal):
    code = "invalid_features"


class InvalidParameter(Refusal):
    code = "invalid_parameter"


class ProblemTooLarge(Refusal):
    code = "problem_too_large"


class AllowanceExceeded(Refusal):
    code = "allowance_exceeded"


class InvalidPolicy(Refusal):
    code = "invalid_policy"


class InvalidState(Refusal):
    code = "invalid_state"


class RandomnessFailure(Exception):
    """The operating system's random source did not deliver: nothing may be released."""
