"""Uploads that are too large, stall, vanish, or find the disk full: refused, and nothing of them is left."""

import resource
import socket
import time

import pytest

from tests import services, uploading
from tests.services import Client, Service
from tests.uploading import HEADER

ROW = b"patient-%d,1,0,0,0\n"
FIRST = HEADER + ROW % 1


@pytest.fixture
def custodian(small: Service) -> Client:
    return small.key("custodian")


@pytest.fixture
def empty(custodian: Client) -> str:
    return services.new_dataset(custodian)


def untouched(service: Service, custodian: Client, dataset: str, before: set[str]) -> None:
    """Nothing is left of an upload, soon, and the next one is taken as the first would have been."""
    services.wait_until(lambda: services.stored(service) == before)
    assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"

    def again() -> bool:
        return services.upload(custodian, dataset, FIRST).status_code == 201

    services.wait_until(again)
    assert custodian.get(f"/v1/datasets/{dataset}").json()["units"] == 1


class TestTooLarge:
    def test_by_its_announced_length(self, small: Service, custodian: Client, empty: str) -> None:
        before = services.stored(small)
        data = HEADER + b"".join(ROW % number for number in range(60_000))
        assert len(data) > 2**20
        services.refused(services.upload(custodian, empty, data), 413, "upload_too_large")
        untouched(small, custodian, empty, before)

    @pytest.mark.parametrize("media_type", uploading.TYPES)
    def test_by_what_comes(self, media_type: str, small: Service, custodian: Client, empty: str) -> None:
        before = services.stored(small)
        rows = [{"unit": f"patient-{n}", "step": 1, "state": 0, "action": 0, "reward": 0} for n in range(60_000)]
        data = uploading.written(rows, media_type)
        if media_type == uploading.PARQUET:
            data += b"\0" * 2**20
        pieces = iter([data[start : start + 2**16] for start in range(0, len(data), 2**16)])
        answer = services.upload(custodian, empty, pieces, media_type)
        services.refused(answer, 413, "upload_too_large")
        untouched(small, custodian, empty, before)

    def test_just_below_is_taken(self, custodian: Client, empty: str) -> None:
        rows = b"".join(ROW % number for number in range(40_000))
        assert len(HEADER + rows) < 2**20
        assert services.upload(custodian, empty, HEADER + rows).json()["units"] == 40_000


class TestASender:
    def test_that_stalls_is_given_up(self, small: Service, custodian: Client, empty: str) -> None:
        before = services.stored(small)
        with services.sending(small, custodian, empty, FIRST) as connection:
            answer = b""
            while b'"code":' not in answer and (more := connection.recv(2**16)):  # the head may come by itself
                answer += more
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"upload_interrupted"' in answer
        untouched(small, custodian, empty, before)

    def test_that_goes_on_slowly_is_not(self, small: Service, custodian: Client, empty: str) -> None:
        """It takes longer than a stall may, and never pauses as long."""
        rows = b"".join(ROW % number for number in range(2, 8))
        announced = len(FIRST + rows)
        with services.sending(small, custodian, empty, FIRST, announced) as connection:
            for start in range(0, len(rows), 20):
                time.sleep(0.25)
                connection.sendall(rows[start : start + 20])
            assert connection.recv(2**16).startswith(b"HTTP/1.1 201 ")
        assert custodian.get(f"/v1/datasets/{empty}").json()["units"] == 7

    def test_that_vanishes_leaves_nothing(self, small: Service, custodian: Client, empty: str) -> None:
        before = services.stored(small)
        with services.sending(small, custodian, empty, FIRST):
            pass
        untouched(small, custodian, empty, before)

    def test_that_is_cut_off_leaves_nothing(self, small: Service, custodian: Client, empty: str) -> None:
        before = services.stored(small)
        with services.sending(small, custodian, empty, FIRST) as connection:
            # Closed with a reset, as a machine that was switched off would be.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        untouched(small, custodian, empty, before)

    def test_whose_dataset_is_retired_meanwhile_is_refused(self, small: Service, custodian: Client, empty: str) -> None:
        before = services.stored(small)
        rest = ROW % 2
        with services.sending(small, custodian, empty, FIRST, len(FIRST + rest)) as connection:
            assert custodian.delete(f"/v1/datasets/{empty}").json()["state"] == "retired"
            connection.sendall(rest)
            answer = connection.recv(2**16)
        assert answer.startswith(b"HTTP/1.1 409 ")
        services.wait_until(lambda: services.stored(small) == before)
        assert custodian.get(f"/v1/datasets/{empty}").json()["state"] == "retired"


class TestAFullDisk:
    @pytest.mark.parametrize("media_type", uploading.TYPES)
    def test_refuses_the_upload_and_keeps_nothing(
        self, media_type: str, small: Service, custodian: Client, empty: str
    ) -> None:
        """No file may grow past a limit, which the rows do before anything is written to the database."""
        before = services.stored(small)
        rows = [{"unit": f"patient-{n}", "step": 1, "state": 0, "action": 0, "reward": 0} for n in range(8_000)]
        data = uploading.written(rows, media_type)
        assert len(data) < 2**20
        whole = resource.prlimit(small.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(small.process.pid, resource.RLIMIT_FSIZE, (2**17, whole[1]))
        try:
            answer = services.upload(custodian, empty, data, media_type)
        finally:
            resource.prlimit(small.process.pid, resource.RLIMIT_FSIZE, whole)
        services.refused(answer, 507, "storage_failed")
        untouched(small, custodian, empty, before)

    def test_refuses_to_be_ready(self, small: Service) -> None:
        whole = resource.prlimit(small.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(small.process.pid, resource.RLIMIT_FSIZE, (0, whole[1]))
        try:
            answer = small.client(None).get("/readyz")
        finally:
            resource.prlimit(small.process.pid, resource.RLIMIT_FSIZE, whole)
        assert answer.status_code == 503
        assert answer.json()["store"] is False
