"""How a training's process may end, and what the operator is told."""

import signal
import subprocess
import sys

import pytest
import sqlalchemy as sa

from discretion import endings, errors

CANARY = "lactate-of-Mrs-Canary-17.25"


class TestOf:
    @pytest.mark.parametrize(
        ("trouble", "words"),
        [
            (sa.exc.OperationalError(CANARY, {}, Exception(CANARY)), "the database does not answer"),
            (errors.StorageFailed(CANARY), "the store does not answer"),
            (errors.NotStored(CANARY), "the store does not answer"),
            (errors.StoreUnavailable(CANARY), "the store does not answer"),
            (errors.HeadsUnavailable(CANARY), "DISCRETION_HEADS"),
            (errors.ClusterUnavailable(CANARY), "the cluster does not answer"),
            (errors.ClusterRefused(CANARY), "do not accept each other's certificates"),
            (errors.ClusterFull(CANARY), "a machine of the cluster has too little memory"),
            (errors.ClusterUnfit(CANARY), "not what it was"),
        ],
    )
    def test_what_may_be_over_the_next_time_is_named_and_tried_again(self, trouble: Exception, words: str) -> None:
        ended = endings.of(trouble)
        assert words in str(endings.words(ended))
        assert endings.is_tried_again(ended)
        assert not endings.is_final(ended)

    @pytest.mark.parametrize(
        "kind",
        [errors.InvalidSetting, errors.NotStored, errors.ClusterRefused, errors.ClusterFull, errors.ClusterUnfit],
    )
    def test_what_others_have_to_change_first_is_not_tried_again_at_once(self, kind: type[Exception]) -> None:
        assert endings.lasts(endings.of(kind(CANARY)))
        assert not endings.lasts(endings.of(errors.ClusterUnavailable(CANARY)))

    @pytest.mark.parametrize("trouble", [MemoryError(CANARY), RuntimeError("can't start new thread")])
    def test_what_would_be_the_same_is_named_and_final(self, trouble: Exception) -> None:
        ended = endings.of(trouble)
        assert "too little memory here" in str(endings.words(ended))
        assert endings.is_final(ended)
        assert not endings.is_tried_again(ended)

    def test_a_thread_that_finds_no_room_for_its_stack_is_want_of_memory(self) -> None:
        """In the words that this Python has for it."""
        lines = ["import resource, threading", "from discretion import endings, errors"]
        lines += ["resource.setrlimit(resource.RLIMIT_DATA, (1, 1))"]
        lines += ["try: threading.Thread(target=print).start()"]
        lines += ["except RuntimeError as trouble: print(endings.words(endings.of(trouble)))"]
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
        assert done.stdout == "there is too little memory here\n", done.stderr

    @pytest.mark.parametrize("kind", [ValueError, OSError, RuntimeError, errors.DrawInterrupted, errors.InvalidState])
    def test_everything_else_is_one_number_without_words(self, kind: type[Exception]) -> None:
        ended = endings.of(kind(CANARY))
        assert (ended, endings.words(ended), endings.is_final(ended)) == (endings.FAILED, None, True)

    @pytest.mark.parametrize("trouble", [endings.Stop(), errors.LeaseLost()])
    def test_who_was_told_or_lost_its_lease_has_nothing_to_say(self, trouble: BaseException) -> None:
        ended = endings.of(trouble)
        assert (endings.words(ended), endings.is_final(ended), endings.is_tried_again(ended)) == (None, False, False)


class TestWords:
    def test_of_a_process_that_was_killed_name_memory_and_its_settings(self) -> None:
        said = str(endings.words(-signal.SIGKILL))
        assert "killed, as the kernel does where memory runs out" in said
        assert "DISCRETION_TRAINING_MEGABYTES" in said
        assert endings.is_tried_again(-signal.SIGKILL)

    @pytest.mark.parametrize("crashed", [signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS])
    def test_of_a_crash_there_are_none_for_a_record_may_bring_it_about(self, crashed: signal.Signals) -> None:
        assert endings.words(-crashed) is None
        assert endings.is_tried_again(-crashed)
