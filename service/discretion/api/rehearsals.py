"""Rehearsals on made-up twins, each in a process of its own: this one knows no seeded generator."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from discretion import errors, memory
from discretion.api import bodies, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.api.service import Service
from discretion.api.trainings import read_request
from discretion.learning import documents

room = Room("trainings")

_SECONDS: Final = 300.0  # of one rehearsal
_SOON: Final = 5  # seconds after which one that found another under way may be asked for again
_REFUSED: Final = 2


@room.route("POST", "/v1/rehearsals", "analyst", refusals=(404, 409, 429), response_model=schemas.Rehearsal)
def rehearse(body: bodies.NewRehearsal, caller: Caller, service: Running) -> Any:
    """The same training on a twin made from the public schema. Reads no patient's row, costs nothing."""
    with service.reading() as connection:
        dataset, asked = read_request(connection, caller, body)
    memory.check_rehearsing(asked, service.settings)
    said = asked.document()
    question = said | {"schema": documents.schema_document(asked.schema), "units": asked.units, "twin": body.twin}
    for key in ("half", "chosen"):
        question.pop(key, None)
    with _place(service, memory.rehearsing(asked)):
        return said | _played(question, memory.deriving_limit(service.settings)) | {"dataset": dataset.id}


@contextmanager
def _place(service: Service, wanted: int) -> Iterator[None]:
    """The only one, with so much memory that derivations have left; a thread that waits would be missing elsewhere."""
    if not service.rehearsing.acquire(blocking=False):
        raise errors.TooManyRequests(_SOON)
    try:
        with service.deriving.beside(wanted):
            yield
    finally:
        service.rehearsing.release()


def _played(question: dict[str, Any], most: int) -> Any:
    command = [sys.executable, "-m", "discretion.twin", str(os.getpid()), str(most)]
    asked = json.dumps(question).encode()
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise errors.RehearsalFailed("The rehearsal took too long; try fewer states, actions or features.") from None
    if done.returncode == _REFUSED:
        raise errors.RehearsalFailed(done.stderr.decode().strip())
    if done.returncode:
        raise errors.RehearsalFailed("The rehearsal could not be carried out; it may need more memory than there is.")
    return json.loads(done.stdout)
