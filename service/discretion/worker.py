"""Runs trainings: claims one, lets a child process learn it, keeps the lease, and sees to it that it ends.

The child alone opens patients' data. It dies with its worker (PR_SET_PDEATHSIG), says nothing on any stream, and ends
with a number; whatever went wrong in it, the world learns one code. It writes what it draws through a journal of
transactions of its own, so a run that was killed goes on from there and nothing is drawn twice for one charge.

Neither a result nor a failure appears when it is ready, which would tell how long the data took, but at the next time
of a public schedule (`requests.usual_seconds`); the worker takes no other training before that. Progress is the
schedule's too.

The process that claims is forked from, so it runs no threads and holds no connection while it forks.
"""

import contextlib
import json
import logging
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from types import FrameType
from typing import Final, NoReturn

import numpy as np
import sqlalchemy as sa

from discretion import (
    audit,
    catalogue,
    database,
    datasets,
    endings,
    errors,
    evaluations,
    heads,
    ledger,
    memory,
    premises,
    processes,
    processors,
    requests,
    runs,
    shelves,
    signing,
    summing,
    trainings,
)
from discretion.catalogue import Dataset
from discretion.journals import Journal
from discretion.learning import learners
from discretion.learning.curator import Curator
from discretion.learning.policy import Policy
from discretion.learning.report import Report
from discretion.privacy.rho import Rho
from discretion.processors import Slot
from discretion.runs import Claim
from discretion.settings import Settings

_log = logging.getLogger(__name__)

_ACTOR: Final = "worker"
_AWAY: Final = 1.0  # seconds between looks for a database that does not answer
_IDLE: Final = 0.25  # seconds between looks at the queue
_LOOK: Final = 0.05  # seconds between looks at the child
_PATIENCE: Final = 7.0  # seconds a child has to finish the draw it is in when it is told to stop
_UNFIT: Final = 10.0  # seconds before a worker looks again at a training that it could not carry out
_PAUSE: Final = 10.0  # seconds until anybody tries again what broke off and lasts; each time twice as long
_LONGEST_PAUSE: Final = 600.0
_UNSAID: Final = (
    "The check of the cluster came to no end; look whether its scheduler or a machine hangs: discretion cluster check"
)


class Worker:
    def __init__(self, found: Settings) -> None:
        self._settings = found
        shelves.opened(found).close()  # what cannot be meant is refused before anybody waits for this worker
        self._slot = processors.take(memory.processors(found), found.processors_file)
        summing.settle(found)
        self._engine = database.engine(found.database_url)
        self._lease = timedelta(seconds=found.lease_seconds)
        self._stopping = False
        self._unfit: dict[str, float] = {}  # trainings that this worker cannot carry out, and until when not to try

    def run(self) -> None:
        """Until told to stop; a damaged ledger is one more reason."""
        for wanted in (signal.SIGTERM, signal.SIGINT):
            signal.signal(wanted, self._stop)
        self._await_database()
        _log.info("Waiting for trainings.")
        while not self._stopping:
            held = None
            try:
                held = self._claim()
                if held is not None:
                    self._attend(held)
            except sa.exc.OperationalError:  # what was held is claimed again when its lease has run out
                _log.warning("The database does not answer; trying again.")
            if held is None:
                time.sleep(_IDLE)
        self._engine.dispose()

    def _await_database(self) -> None:
        """It may start later than we do, or be migrated by somebody else; what does not add up is not waited for."""
        said = ""
        while not self._stopping:
            try:
                database.check(self._engine)
                with database.snapshot(self._engine) as connection:
                    ledger.verify_all(connection)
                return
            except (errors.DatabaseUnreachable, errors.NotMigrated, sa.exc.OperationalError) as away:
                if isinstance(away, errors.NotMigrated) and self._settings.migrates:
                    raise
                words = str(away) if isinstance(away, errors.Refusal) else "The database does not answer."
                if words != said:
                    _log.warning("%s", words)
                said = words
            time.sleep(_AWAY)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        _stop_between_draws(number, frame)  # for a child that is told before it has a handler of its own

    def _claim(self) -> Claim | None:
        with database.snapshot(self._engine) as connection:
            if not runs.waiting(connection, at=database.clock(connection)):
                return None
        self._unfit = {training: until for training, until in self._unfit.items() if until > time.monotonic()}
        only = None
        if self._settings.cluster is not None and (only := self._suited()) is None:
            return None
        try:
            with database.transaction(self._engine) as connection:
                held = runs.claim(
                    connection,
                    actor=_ACTOR,
                    at=database.clock(connection),
                    lease=self._lease,
                    fit=self._check_fit,
                    without=self._unfit,
                    only=only,
                )
        except errors.Refusal as refusal:
            _log.error("A training is left waiting: %s", refusal)
            with database.transaction(self._engine) as connection:
                runs.count_wait(connection, self._unfit, at=database.clock(connection))
            return None
        return held if held is None or held.exhausted or self._told(held) else None

    def _suited(self) -> str | None:
        """The training whose turn it is, if the cluster can make its sums. That takes seconds and threads, so it is
        asked before the transaction, in another process. What is charged already is tried: or it would never end."""
        with database.snapshot(self._engine) as connection:
            found = runs.upcoming(connection, at=database.clock(connection), without=self._unfit)
            if found is None or found.state != runs.QUEUED:
                return None if found is None else str(found.id)
            dataset = catalogue.stored(connection, found.dataset)
        self._engine.dispose()
        check = partial(summing.check, self._settings, dataset, found.request)
        words = processes.apart(check, summing.patience(), _UNSAID)
        if words is None:
            return str(found.id)
        _log.error("A training is left waiting: %s", words)
        self._unfit[found.id] = time.monotonic() + _UNFIT
        return None

    def _told(self, held: Claim) -> bool:
        """That it was charged is put where no restore can take it back, before a patient's row is opened; else it is
        an attempt that has broken off."""
        try:
            with database.snapshot(self._engine) as connection:
                population, key = catalogue.stored(connection, held.dataset).population, signing.current(self._settings)
                heads.export(connection, self._settings.heads, population, key, at=datetime.now(UTC))
        except errors.Refusal as refusal:
            _log.error("A training is left waiting: %s", refusal)
            with contextlib.suppress(errors.LeaseLost), database.transaction(self._engine) as connection:
                at, pause = database.clock(connection), _pause_after(held.attempts)
                runs.let_go(connection, held, at=at, told=False, pause=pause)
            return False
        return True

    def _check_fit(self, training: str, dataset: Dataset, request: str) -> None:
        """What this worker lacks is found out before anything is charged: the key, the data, a request it can read."""
        self._unfit[training] = time.monotonic() + _UNFIT
        signing.current(self._settings)
        heads.check(self._settings.heads)
        heads.refuse_rolled_back(self._engine, self._settings.heads)
        with contextlib.closing(shelves.opened(self._settings)) as shelf:
            place = shelf.place(str(dataset.folder))
            datasets.units(place)
            datasets.check_blocks(place, dataset.schema)
        memory.check(requests.asked(dataset, json.loads(request), ready=False), self._settings)
        del self._unfit[training]

    def _attend(self, held: Claim) -> None:
        """From the claim to the end of the child, and to the record of it if the child could not write one."""
        _log.info("Training %s begins.", held.training)
        now = time.monotonic()
        try:
            with database.snapshot(self._engine) as connection:
                _, asked, _ = runs.work(connection, held)
            usual = requests.usual_seconds(asked)
        except errors.Refusal:  # of a request of another version, whose schedule is not known: any public one does
            if not held.exhausted:
                raise
            usual = _LONGEST_PAUSE
        # A run that goes on keeps the beat of the first one, but does not pause again for as long as it was away.
        begun = now - held.elapsed % usual
        if held.exhausted:
            with contextlib.suppress(errors.LeaseLost):
                self._fail(held, usual, begun)
            return
        self._engine.dispose()  # a forked child must not inherit a connection
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            _child(self._settings, self._slot, held, begun, parent)
        try:
            ended = self._watch(child, held, usual)
            _end(child)
            if words := endings.words(ended):
                _log.warning("Training %s breaks off because %s.", held.training, words)
            if ended == endings.UNUSABLE:  # which the child must not say; somebody has to mend it
                fault = premises.fault(self._settings, "work")
                _log.error("Training %s breaks off because of a setting: %s", held.training, fault)
            if endings.is_final(ended):
                self._fail(held, usual, begun)
            elif ended == endings.STOPPED or endings.is_tried_again(ended):
                pause = _pause_after(held.attempts) if endings.lasts(ended) else timedelta(0)
                with database.transaction(self._engine) as connection:
                    at = database.clock(connection)
                    runs.let_go(connection, held, at=at, told=ended == endings.STOPPED, pause=pause)
        except errors.LeaseLost:
            _log.info("Training %s was cancelled or taken over.", held.training)
        finally:
            _end(child)
        _log.info("Training %s is left.", held.training)

    def _watch(self, child: int, held: Claim, usual: float) -> int:
        """Keep the lease, at public ticks, while the child works."""
        shown = _Shown(held, usual)
        told, kept = None, time.monotonic()
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                ended = os.waitstatus_to_exitcode(status)
                if ended == endings.LOST:
                    # It found out when it next wrote something. The world hears at the next tick, as if it had not.
                    time.sleep(max(0.0, kept + self._tick(usual) - time.monotonic()))
                return ended
            now = time.monotonic()
            if self._stopping and told is None:
                told = now
                os.kill(child, signal.SIGTERM)
            if told is not None and now - told > _PATIENCE:
                return endings.STOPPED  # and killed: if it was drawing, that draw is lost and so is the training
            if now - kept >= self._tick(usual):
                kept = now
                self._keep(held, shown)
            time.sleep(_LOOK)

    def _tick(self, usual: float) -> float:
        return min(usual / 8, self._lease.total_seconds() / 3)

    def _keep(self, held: Claim, shown: "_Shown") -> None:
        with contextlib.suppress(sa.exc.OperationalError), database.transaction(self._engine) as connection:
            runs.keep(connection, held, at=database.clock(connection), lease=self._lease, done=shown.done)

    def _fail(self, held: Claim, usual: float, begun: float) -> None:
        """A failure appears at a time of the schedule too."""
        shown, kept = _Shown(held, usual), time.monotonic()
        end = begun + requests.due(usual, kept - begun)
        while (left := end - time.monotonic()) > 0 and not self._stopping:
            time.sleep(min(left, _LOOK))
            if time.monotonic() - kept >= self._tick(usual):
                kept = time.monotonic()
                self._keep(held, shown)
        if self._stopping:  # the next run fails in the same way, at its time
            with database.transaction(self._engine) as connection:
                runs.let_go(connection, held, at=database.clock(connection), told=True)
            return
        self._record_failure(held)

    def _record_failure(self, held: Claim) -> None:
        with database.transaction(self._engine) as connection:
            runs.fail(connection, held)
        _log.warning("Training %s failed.", held.training)


class _Shown:
    """How many stages are shown as done: as many as the schedule has for the time that went by.

    Those that really are done would tell how long each took, and that depends on the data.
    """

    def __init__(self, held: Claim, usual: float) -> None:
        self._held, self._usual = held, usual
        self._began = time.monotonic() - held.elapsed

    @property
    def done(self) -> int:
        stages = self._held.stages
        return min(stages - 1, int(stages * (time.monotonic() - self._began) / self._usual))


def _pause_after(attempts: int) -> timedelta:
    """Somebody has to notice and to mend it: ten attempts take forty minutes. After the last it has failed, and nothing
    is waited for."""
    if attempts >= runs.MOST_ATTEMPTS:
        return timedelta(0)
    return timedelta(seconds=min(_PAUSE * 2 ** (attempts - 1), _LONGEST_PAUSE))


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# --- the child ---------------------------------------------------------------------------------------------------


def _child(found: Settings, slot: Slot, held: Claim, begun: float, parent: int) -> NoReturn:
    """Everything that touches a patient's row happens below, and nothing but a number comes out."""
    ended = endings.FAILED
    try:
        processes.die_with_parent(parent)
        _silence()
        processes.fence(memory.limit(found))  # other trainings on this machine rely on it
        memory.reuse()
        processors.confine(slot)
        signal.signal(signal.SIGTERM, _stop_between_draws)
        _learn(found, held, begun)
        ended = endings.RELEASED
    except BaseException as trouble:
        ended = endings.of(trouble)
    finally:
        os._exit(ended)


def _silence() -> None:
    """A library's complaint about a record must not reach a log."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    logging.disable()


_told_to_stop = False


def _stop_between_draws(number: int, frame: FrameType | None) -> None:
    global _told_to_stop
    _told_to_stop = True


def _pause() -> None:
    if _told_to_stop:
        raise endings.Stop


def _learn(found: Settings, held: Claim, begun: float) -> None:
    engine = database.engine(found.database_url)
    with database.snapshot(engine) as connection:
        dataset, asked, paid = runs.work(connection, held)
        judged = None if asked.judged is None else evaluations.judged(connection, asked)
        patients = None if asked.judged is None else evaluations.patients(connection, dataset, asked)
    place = shelves.opened(found).place(str(dataset.folder))
    room, whole = memory.room(asked, most=memory.limit(found)), memory.keeps_blocks(asked)
    trajectories = asked.read(datasets.load(place, asked.schema, room=room, whole=whole))
    key = signing.current(found)
    made: Policy | Report
    with np.errstate(all="ignore"), summing.of(found, dataset, asked) as totals:
        curator = Curator(trajectories, Rho(paid.rho).exact, Journal(engine, held, found.heads, _pause), totals)
        if judged is not None and patients is not None:
            made = evaluations.judge(curator, asked, judged, patients, held.training)
            certificate = evaluations.certify(made, asked, curator.log, paid, key)
        else:
            learned = learners.learn(curator, asked.privacy, asked.parameters)
            made, certificate = trainings.certify(learned, asked, curator.log, paid, key)
    _sleep_until(begun + requests.due(requests.usual_seconds(asked), time.monotonic() - begun))
    with database.transaction(engine) as connection:
        if signing.publish(connection, key, at=datetime.now(UTC)):
            audit.published(connection, key.kid)
        runs.release(connection, held, made, certificate, at=datetime.now(UTC))


def _sleep_until(end: float) -> None:
    """Told to stop, it leaves at once: everything is drawn, and the next run computes the same again."""
    while (left := end - time.monotonic()) > 0:
        if _told_to_stop:
            raise endings.Stop
        time.sleep(min(left, _LOOK))
