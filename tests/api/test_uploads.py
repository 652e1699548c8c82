"""Uploads: three formats, all or nothing, once."""

import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests import services, uploading
from tests.api.hospital import Hospital
from tests.services import Client, Service
from tests.uploading import CSV, HEADER, NDJSON, PARQUET, TYPES

ROWS: list[uploading.Row] = [
    {"unit": f"p{unit}", "step": step, "state": step, "action": unit % 2, "reward": 0.5}
    for unit in range(10)
    for step in range(1, 1 + unit % 2 + 1)
]


@pytest.fixture
def custodian(hospital: Hospital) -> Client:
    return hospital.custodian


class TestAnUpload:
    @pytest.mark.parametrize("media_type", TYPES)
    def test_is_taken_in_each_format(self, media_type: str, custodian: Client) -> None:
        dataset = services.new_dataset(custodian)
        answer = services.upload(custodian, dataset, uploading.written(ROWS, media_type), media_type)
        assert answer.status_code == 201, answer.text
        assert answer.json() == {"units": 10, "trajectories": 10, "transitions": len(ROWS)}
        found = custodian.get(f"/v1/datasets/{dataset}").json()
        assert (found["state"], found["units"]) == ("ready", 10)

    def test_may_have_every_optional_column(self, custodian: Client) -> None:
        dataset = services.new_dataset(custodian, max_trajectories_per_unit=2)
        rows = [row | {"next_state": row["step"] + 1, "terminated": False, "trajectory": "a"} for row in ROWS]
        rows.append(rows[-1] | {"step": 1, "state": 1, "next_state": 0, "trajectory": "b"})
        answer = services.upload(custodian, dataset, uploading.as_csv(rows))
        assert answer.json() == {"units": 10, "trajectories": 11, "transitions": len(rows)}

    def test_may_name_its_character_set(self, custodian: Client) -> None:
        dataset = services.new_dataset(custodian)
        answer = services.upload(custodian, dataset, uploading.as_csv(ROWS), "Text/CSV; charset=utf-8")
        assert answer.status_code == 201

    def test_of_vector_states_has_their_columns(self, custodian: Client) -> None:
        dataset = services.new_dataset(custodian, schema=services.VECTOR)
        answer = services.upload(custodian, dataset, services.csv(5, schema=services.VECTOR))
        assert answer.json() == {"units": 5, "trajectories": 5, "transitions": 15}

    def test_shows_its_trajectories_and_transitions_to_nobody_else(self, hospital: Hospital) -> None:
        for client in (hospital.custodian, hospital.analyst, hospital.admin):
            found = client.get(f"/v1/datasets/{hospital.own.dataset}").json()
            assert found["units"] == 200
            assert not {"trajectories", "transitions"} & set(found)

    @pytest.mark.parametrize("kind", ["application/json", "text/plain", "", "application/octet-stream"])
    def test_of_another_type_is_refused(self, kind: str, custodian: Client) -> None:
        dataset = services.new_dataset(custodian)
        services.refused(services.upload(custodian, dataset, uploading.as_csv(ROWS), kind), 422, "invalid_request")
        assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"

    def test_with_outcomes_says_so_in_the_public_schema_and_auto_goes_by_it(self, hospital: Hospital) -> None:
        custodian, analyst = hospital.custodian, hospital.analyst
        dataset = services.new_dataset(custodian)
        assert "outcome" not in custodian.get(f"/v1/datasets/{dataset}").json()["reward"]
        rows = ["unit,step,state,action,outcome", *(f"p{unit},1,0,0,{unit % 2}" for unit in range(40))]
        assert services.upload(custodian, dataset, "\n".join(rows).encode()).status_code == 201
        services.grant(custodian, dataset, analyst)
        assert analyst.get(f"/v1/datasets/{dataset}").json()["reward"]["outcome"] is True
        asked = {"dataset": dataset, "algorithm": "auto", "privacy": {"rho": "0.5"}}
        plan = analyst.post("/v1/plans", json=asked).json()
        assert plan["algorithm"] == "dp-pae"
        assert "outcome" in plan["chosen"]["reason"]

    def test_of_a_dataset_declared_to_have_outcomes_must_have_them(self, custodian: Client) -> None:
        declared = services.TABULAR | {"reward": {"low": 0, "high": 1, "outcome": True}}
        dataset = services.new_dataset(custodian, schema=declared)
        answer = services.upload(custodian, dataset, services.csv(4))
        assert answer.status_code == 422
        assert "outcome" in [problem["column"] for problem in answer.json()["problems"]]


class TestASecondUpload:
    def test_is_refused(self, hospital: Hospital) -> None:
        before = services.stored(hospital.service)
        answer = services.upload(hospital.custodian, hospital.own.dataset, uploading.as_csv(ROWS))
        services.refused(answer, 409, "dataset_not_empty")
        assert hospital.custodian.get(f"/v1/datasets/{hospital.own.dataset}").json()["units"] == 200
        assert services.stored(hospital.service) == before

    def test_while_the_first_is_under_way_is_refused(self, hospital: Hospital) -> None:
        """The first one's last bytes come only when the second has been answered."""
        custodian = hospital.custodian
        dataset, answered, begun = services.new_dataset(custodian), threading.Event(), threading.Event()
        second = hospital.service.client(custodian.token)

        def slowly() -> Iterator[bytes]:
            yield HEADER
            begun.set()
            assert answered.wait(60)
            yield b"a,1,0,0,0\n"

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(services.upload, custodian, dataset, slowly())
            try:
                assert begun.wait(60)
                services.wait_until(lambda: any(".incoming-" in name for name in services.stored(hospital.service)))
                services.refused(services.upload(second, dataset, HEADER + b"b,1,0,0,0\n"), 409, "dataset_not_empty")
            finally:
                answered.set()
            assert first.result(60).status_code == 201
        assert custodian.get(f"/v1/datasets/{dataset}").json()["units"] == 1

    def test_at_the_same_moment_one_wins(self, hospital: Hospital) -> None:
        dataset = services.new_dataset(hospital.custodian)
        before = services.stored(hospital.service)
        clients = [hospital.service.client(hospital.custodian.token) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            sent = pool.map(lambda n: services.upload(clients[n], dataset, services.csv(10 + n)), range(4))
        answers = list(sent)
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
        won = next(answer.json()["units"] for answer in answers if answer.status_code == 201)
        assert hospital.custodian.get(f"/v1/datasets/{dataset}").json()["units"] == won
        assert len(services.stored(hospital.service) - before) == 1


BAD: dict[str, tuple[str, bytes, int, str]] = {
    "empty": (CSV, b"", 0, ""),
    "only a header": (CSV, HEADER, 0, ""),
    "truncated in a row": (CSV, HEADER + b"a,1,0,0,0.5\na,2,0", 2, ""),
    "latin-1": (CSV, HEADER + "é,1,0,0,0.5\n".encode("latin-1"), 1, ""),
    "utf-16": (CSV, (HEADER + b"a,1,0,0,0.5\n").decode().encode("utf-16"), 0, ""),
    "a NUL": (CSV, HEADER + b"a\x00,1,0,0,0.5\n", 1, ""),
    "text for a number": (CSV, HEADER + b"a,1,0,0,high\n", 1, "reward"),
    "mixed types": (CSV, HEADER + b"a,1,0,0,0.5\nb,1,x,0,0.5\n", 2, "state"),
    "not a number": (CSV, HEADER + b"a,1,0,0,NaN\n", 1, "reward"),
    "a duplicate step": (CSV, HEADER + b"a,1,0,0,0\na,1,0,0,0\n", 2, "unit"),
    "a gap": (CSV, HEADER + b"a,1,0,0,0\na,3,0,0,0\n", 2, "step"),
    "steps out of order": (CSV, HEADER + b"a,2,0,0,0\na,1,0,0,0\n", 1, "step"),
    "a unit in two places": (CSV, HEADER + b"a,1,0,0,0\nb,1,0,0,0\na,2,0,0,0\n", 3, "unit"),
    "past the horizon": (CSV, HEADER + b"".join(b"a,%d,0,0,0\n" % n for n in range(1, 5)), 4, "step"),
    "a state too high": (CSV, HEADER + b"a,1,4,0,0\n", 1, "state"),
    "a negative action": (CSV, HEADER + b"a,1,0,-1,0\n", 1, "action"),
    "a reward out of range": (CSV, HEADER + b"a,1,0,0,1.5\n", 1, "reward"),
    "an unknown column": (CSV, b"unit,step,state,action,reward,seed\na,1,0,0,0,1\n", 0, "seed"),
    "a missing column": (CSV, b"unit,step,state,action\na,1,0,0\n", 0, "reward"),
    "truncated JSON": (NDJSON, uploading.as_ndjson(ROWS)[:-9], len(ROWS), ""),
    "deep JSON": (NDJSON, b"[" * 100_000 + b"\n", 1, ""),
    "text in JSON": (NDJSON, uploading.as_ndjson([ROWS[0] | {"state": "0"}]), 1, "state"),
    "truncated Parquet": (PARQUET, uploading.as_parquet(ROWS)[:-9], 1, ""),
    "no Parquet": (PARQUET, uploading.as_csv(ROWS), 1, ""),
    "text in Parquet": (PARQUET, uploading.as_parquet([row | {"state": "0"} for row in ROWS]), 0, "state"),
}


class TestABadUpload:
    @pytest.fixture
    def empty(self, custodian: Client) -> str:
        return services.new_dataset(custodian)

    @pytest.mark.parametrize("case", BAD)
    def test_is_refused_by_row_and_column_and_leaves_nothing(self, case: str, small: Service) -> None:
        media_type, data, row, column = BAD[case]
        custodian = small.key("custodian")
        dataset, before = services.new_dataset(custodian), services.stored(small)
        problem = services.refused(services.upload(custodian, dataset, data, media_type), 422, "invalid_upload")
        found = [(one["row"], one["column"]) for one in problem["problems"]]
        assert (row, column) in found, problem
        assert found[0][0] == row
        assert services.stored(small) == before
        assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"
        assert services.upload(custodian, dataset, uploading.as_csv(ROWS)).status_code == 201

    def test_names_at_most_twenty_problems(self, custodian: Client, empty: str) -> None:
        rows = b"".join(b"u%d,1,9,0,0\n" % number for number in range(100))
        problem = services.refused(services.upload(custodian, empty, HEADER + rows), 422, "invalid_upload")
        assert [one["row"] for one in problem["problems"]] == list(range(1, 21))
        assert {one["column"] for one in problem["problems"]} == {"state"}
        assert custodian.get(f"/v1/datasets/{empty}").json()["state"] == "empty"

    def test_of_too_many_trajectories_for_a_unit_is_refused(self, custodian: Client, empty: str) -> None:
        data = b"unit,trajectory,step,state,action,reward\na,1,1,0,0,0\na,2,1,0,0,0\n"
        problem = services.refused(services.upload(custodian, empty, data), 422, "invalid_upload")
        assert problem["problems"][0]["row"] == 2

    def test_of_a_line_without_end_is_refused(self, custodian: Client, empty: str) -> None:
        data = HEADER + b"a" * (2**20 + 1) + b",1,0,0,0\n"
        problem = services.refused(services.upload(custodian, empty, data), 422, "invalid_upload")
        assert [one["row"] for one in problem["problems"]] == [1]


def bomb(**columns: Any) -> bytes:
    """A small file that would fill the memory."""
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), sink, compression="zstd", write_statistics=False)
    return sink.getvalue()


class TestAParquetBomb:
    def test_of_one_name_repeated_without_end_is_refused(self, small: Service) -> None:
        size = 100_000
        name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array(["n" * 1_000_000]))
        numbers = {key: np.zeros(size, int) for key in ("step", "state", "action", "reward")}
        data = bomb(unit=name, **numbers)
        assert len(data) < 2**20
        custodian = small.key("custodian")
        dataset, before = services.new_dataset(custodian), services.stored(small)
        services.refused(services.upload(custodian, dataset, data, PARQUET), 422, "invalid_upload")
        assert services.stored(small) == before

    def test_that_unpacks_to_more_than_a_gigabyte_is_refused(self, small: Service) -> None:
        size = 2**25
        zeros = np.zeros(size, int)
        columns = {key: pa.array(zeros) for key in ("step", "state", "action", "reward")}
        sink = io.BytesIO()
        table = pa.table({"unit": pa.DictionaryArray.from_arrays(pa.array(zeros, pa.int32()), ["a"])} | columns)
        pyarrow.parquet.write_table(
            table, sink, row_group_size=size, use_dictionary=False, compression="zstd", write_statistics=False
        )
        assert len(sink.getvalue()) < 2**20
        custodian = small.key("custodian")
        dataset = services.new_dataset(custodian)
        answer = services.upload(custodian, dataset, sink.getvalue(), PARQUET)
        services.refused(answer, 413, "upload_too_large")
        assert custodian.get(f"/v1/datasets/{dataset}").json()["state"] == "empty"
