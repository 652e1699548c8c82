"""Every refusal of the product: one small class each, one plain sentence that says what to do next.

A refusal is decided from public quantities alone (the request, the schema, the number of units), so its
text may be shown to whoever asked. What goes wrong after patient data was opened is never a `Refusal`.
"""

import errno
from collections.abc import Iterable
from dataclasses import dataclass


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


class InvalidCertificate(Refusal):
    """A certificate that does not hold, or one that would not and is therefore not signed."""

    code = "invalid_certificate"


class InvalidState(Refusal):
    code = "invalid_state"


class InvalidSetting(Refusal):
    code = "invalid_setting"


class HeadsUnavailable(InvalidSetting):
    """The folder of ledger heads cannot be written; another time it may be."""


class UnknownDatabase(Refusal):
    code = "unknown_database"


class NotMigrated(UnknownDatabase):
    """An older schema than this program's, or none."""


class DatabaseUnreachable(Refusal):
    code = "database_unreachable"


class NoSuchKey(Refusal):
    code = "no_such_key"


class NotFound(Refusal):
    """Missing, or somebody else's: who asks cannot tell which."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("There is nothing here, or it is not yours; check the id.")


class NoSuchPopulation(Refusal):
    code = "no_such_population"


class _Exhausted(Refusal):
    """Carries what remains, so that a request can be made smaller."""

    what = ""

    def __init__(self, remaining: object) -> None:
        super().__init__(f"The {self.what} has {remaining} left; ask for less, or have it raised.")
        self.remaining = remaining


class BudgetExhausted(_Exhausted):
    code = "budget_exhausted"
    what = "budget"


class GrantExhausted(_Exhausted):
    code = "grant_exhausted"
    what = "grant"


class BudgetInUse(Refusal):
    code = "budget_in_use"


class NotReserved(Refusal):
    code = "not_reserved"


@dataclass(frozen=True)
class Problem:
    """What is wrong with an upload, and where: data rows count from 1, and row 0 is the header or the file itself."""

    row: int
    column: str
    reason: str


class InvalidUpload(Refusal):
    """The one refusal that depends on patients' rows: `problems` are for the custodian's eyes only."""

    code = "invalid_upload"
    most = 20

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__("Nothing was stored: mend the rows that the problems name and send the whole upload again.")
        self.problems = tuple(sorted(problems, key=lambda problem: problem.row)[: self.most])


class InvalidSource(Refusal):
    """Rows that cannot be meant, seen by whoever holds them: nothing has been stored."""

    code = "invalid_source"


class UploadTooLarge(Refusal):
    code = "upload_too_large"


class StorageFailed(Refusal):
    """The disk did not do as it was told; nothing of what was being stored is left."""

    code = "storage_failed"


class NotStored(StorageFailed):
    """There is nothing in the place of what was asked for."""


class StoreUnavailable(StorageFailed):
    """The store does not answer, or refuses this service; another time it may not."""


class StoreRefuses(StoreUnavailable):
    """The store answers, and does not do what it is asked: for these credentials, or for nobody."""


class ClusterUnavailable(Refusal):
    """The cluster does not answer, or refuses this service; another time it may not."""

    code = "cluster_unavailable"


class ClusterRefused(ClusterUnavailable):
    """Its scheduler and this machine do not accept each other's certificates."""


class ClusterFull(ClusterUnavailable):
    """A machine of it has too little memory left for a share, as other trainings' sums may need theirs for a while."""


class ClusterUnfit(Refusal):
    """The cluster answers, and sums made there would not be what they must be."""

    code = "cluster_unfit"


class InvalidRequest(Refusal):
    """A body, a header or a query that cannot be read."""

    code = "invalid_request"


class BodyTooLarge(Refusal):
    code = "body_too_large"


class NoIdempotencyKey(Refusal):
    code = "no_idempotency_key"


class Unauthenticated(Refusal):
    code = "unauthenticated"


class ProviderUnavailable(Refusal):
    code = "provider_unavailable"

    def __init__(self, seconds: int) -> None:
        super().__init__(
            "The identity provider does not answer, so its tokens cannot be checked; try again in a moment."
        )
        self.seconds = seconds


class Forbidden(Refusal):
    code = "forbidden"


class ForeignRequest(Refusal):
    """A session's cookie came along, and nothing shows that the service's own page has asked."""

    code = "csrf"

    def __init__(self) -> None:
        super().__init__("With a session, only the service's own page may ask this; load it again and repeat.")


class TooManyRequests(Refusal):
    code = "too_many_requests"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"That is more than is allowed at once; try again in {seconds} s.")
        self.seconds = seconds


class RehearsalFailed(Refusal):
    code = "rehearsal_failed"


class IdempotencyConflict(Refusal):
    code = "idempotency_conflict"


class DatasetNotReady(Refusal):
    code = "dataset_not_ready"

    def __init__(self) -> None:
        super().__init__("This dataset holds no data to train on.")


class DatasetNotEmpty(Refusal):
    code = "dataset_not_empty"

    def __init__(self) -> None:
        super().__init__(
            "This dataset has its data, is being given it, or was retired; make a new dataset for other data."
        )


class GrantExists(Refusal):
    code = "grant_exists"


class NothingReleased(Refusal):
    code = "nothing_released"


class NotDerivable(Refusal):
    code = "not_derivable"


class InvalidPage(Refusal):
    code = "invalid_page"


class UploadInterrupted(Refusal):
    """Whoever sent the upload stopped sending."""

    code = "upload_interrupted"


class TrainingEnded(Refusal):
    code = "training_ended"


class InvalidBackup(Refusal):
    """A backup that is not whole, not what was written, or could not be made so."""

    code = "invalid_backup"


class NotEmpty(Refusal):
    """A restore would come on top of something."""

    code = "not_empty"


class WouldForget(Refusal):
    """A restore would undo what a signed head of a ledger says was charged."""

    code = "would_forget"


class LeaseLost(Exception):
    """A worker that is no longer in charge of its training."""


class DrawInterrupted(Exception):
    """A draw that was intended and never recorded: the training has failed, and is not drawn again."""


class LedgerDamaged(Exception):
    """The ledger does not add up: the service must not go on."""


class RandomnessFailure(Exception):
    """The operating system's random source did not deliver: nothing may be released."""


def is_of_memory(trouble: BaseException) -> bool:
    """Whether there was too little memory, also for the stack of a thread or for pages by themselves: Python says that
    in other words."""
    pages = isinstance(trouble, OSError) and trouble.errno == errno.ENOMEM
    return isinstance(trouble, MemoryError) or pages or trouble.args == ("can't start new thread",)
