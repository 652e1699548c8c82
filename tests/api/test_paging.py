"""Every list comes in pages."""

from typing import Any

import pytest

from tests import services
from tests.api.hospital import Hospital

BY_ID = {
    "/v1/populations": "custodian",
    "/v1/datasets": "custodian",
    "/v1/datasets/{dataset}/grants": "custodian",
    "/v1/trainings": "analyst",
    "/v1/policies": "analyst",
    "/v1/ledgers": "auditor",
    "/v1/keys": "admin",
}
BY_NUMBER = {"/v1/datasets/{dataset}/ledger": "custodian", "/v1/audit": "auditor"}
EVERY = BY_ID | BY_NUMBER


def name(item: dict[str, Any]) -> Any:
    return next(item[key] for key in ("id", "population", "sequence") if key in item)


@pytest.mark.parametrize("path", EVERY)
class TestPages:
    def test_one_after_the_other_they_are_the_whole_list(self, path: str, hospital: Hospital) -> None:
        client = hospital.of(EVERY[path])
        at = path.format_map(hospital.own.ids())
        whole = services.pages(client, at, limit=1000)
        assert len(whole) >= 2
        part = services.pages(client, at, limit=max(1, len(whole) // 3))
        assert part == whole
        assert len({name(item) for item in whole}) == len(whole)

    @pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1.5", "", "9" * 30])
    def test_a_limit_out_of_range_is_refused(self, limit: str, path: str, hospital: Hospital) -> None:
        at = path.format_map(hospital.own.ids())
        services.refused(hospital.of(EVERY[path]).get(f"{at}?limit={limit}"), 422, "invalid_request")


@pytest.mark.parametrize("path", BY_ID)
class TestPagesById:
    def test_a_page_that_never_was_is_refused(self, path: str, hospital: Hospital) -> None:
        client, at = hospital.of(BY_ID[path]), path.format_map(hospital.own.ids())
        services.refused(client.get(f"{at}?after=ds_0000000000000000000000"), 422, "invalid_page")
        for malformed in ("", "%00", "a%20b", "x" * 41, "%C3%A9"):
            services.refused(client.get(f"{at}?after={malformed}"), 422, "invalid_request")


@pytest.mark.parametrize("path", [path for path, role in BY_ID.items() if role in ("custodian", "analyst")])
class TestPagesOfOnesOwn:
    def test_somebody_elses_is_as_unknown_as_one_that_never_was(self, path: str, hospital: Hospital) -> None:
        kind = {"policies": "policy"}.get(path.rsplit("/", 1)[1], path.rsplit("/", 1)[1][:-1])
        client, at = hospital.of(BY_ID[path]), path.format_map(hospital.own.ids())
        answers = [client.get(f"{at}?after={one}") for one in (hospital.foreign.ids()[kind], "ds_" + "0" * 22)]
        services.refused(answers[0], 422, "invalid_page")
        assert answers[0].content == answers[1].content


@pytest.mark.parametrize("path", BY_NUMBER)
class TestPagesByNumber:
    def test_a_number_out_of_range_is_refused(self, path: str, hospital: Hospital) -> None:
        client, at = hospital.of(BY_NUMBER[path]), path.format_map(hospital.own.ids())
        for malformed in ("-1", "x", "", "1.5", str(2**31), "9" * 30):
            services.refused(client.get(f"{at}?after={malformed}"), 422, "invalid_request")

    def test_after_the_last_there_is_nothing(self, path: str, hospital: Hospital) -> None:
        at = path.format_map(hospital.own.ids())
        page = hospital.of(BY_NUMBER[path]).get(f"{at}?after={2**31 - 1}").json()
        assert (page.get("items", page.get("rows")), page["next"]) == ([], None)
