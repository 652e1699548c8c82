"""The Python client against a real service: it says what the API says, and raises what the API refuses."""

import contextlib
import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from discretion import errors
from discretion.client import Client, Policy, Refused
from discretion.privacy.rho import Rho
from tests import services

ROWS = services.csv(50)


@pytest.fixture
def people(service: services.Service):
    """A client for each role, and the analyst's key."""
    made = {role: service.key(role) for role in ("custodian", "analyst", "auditor")}
    clients = {role: Client(service.url, key.token) for role, key in made.items()}
    clients["admin"] = Client(service.url, service.token)
    yield clients, made["analyst"].id
    for client in clients.values():
        client.close()


def ready(people, rho: str = "2") -> str:
    """A dataset of fifty patients with a budget of 2, of which the analyst may use some."""
    clients, key = people
    dataset = clients["custodian"].add_dataset("icu", budget={"rho": "2"}, **services.TABULAR)["id"]
    clients["custodian"].upload(dataset, [ROWS], media_type="text/csv")
    clients["custodian"].add_grant(dataset, key, rho)
    return dataset


@contextlib.contextmanager
def never_asked() -> Iterator[Client]:
    """A client that has nobody to talk to, and would say so at once."""
    with Client("http://127.0.0.1:9", "token", patience=0) as client:
        yield client


class TestImport:
    def test_the_package_alone_brings_no_http_client(self):
        program = "import sys, discretion; light = 'httpx' not in sys.modules; print(light, discretion.Client.__name__)"
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert done.stdout.split() == ["True", "Client"]


class TestJourney:
    def test_from_an_upload_to_a_verified_policy_and_one_derived_from_it(self, people):
        clients, _ = people
        analyst, auditor = clients["analyst"], clients["auditor"]
        dataset = ready(people)
        assert analyst.plan(dataset, **services.APVI)["rho"] == "0.5"
        training = analyst.train(dataset, **services.APVI, wait=False)["id"]
        *seen, ended = analyst.watch(training)
        assert ended["state"] == "released"
        assert all(event["state"] in ("queued", "running") for event in seen)
        assert analyst.training(training).items() >= ended.items()

        derived = analyst.derive(training, {"c1": 0, "c2": 0})["id"]
        assert {found["id"] for found in analyst.policies()} == {ended["policy"], derived}
        assert analyst.budget(dataset).charged == Decimal("0.5")
        for name, further in ((ended["policy"], "0.5"), (derived, "0")):
            policy = auditor.policy(name)
            assert policy.verify().payload["privacy"]["further_rho"] == further
            decided = analyst.decide(name, step=2, state=1)
            assert decided["action"] == json.loads(policy.text)["decisions"][1][1]
            assert decided == dataclasses.asdict(policy.decide(step=2, state=1))
        ledger = auditor.ledger(dataset)
        assert [row["kind"] for row in ledger["rows"]] == ["open", "reserve", "charge"]
        assert ledger["intact"]

    def test_train_and_evaluate_wait_for_what_was_paid_for(self, people, tmp_path):
        clients, _ = people
        analyst, dataset = clients["analyst"], ready(people)
        policy = analyst.train(dataset, rho="0.5", algorithm="dp-apvi", parameters={"c2": 0}, half="first")
        assert policy.decide(step=1, state=0).action in (0, 1)
        assert analyst.plan_evaluation(policy.id, rho="0.25", half="second")["patients"] == "other half"
        report = analyst.evaluate(policy.id, rho="0.25", half="second")
        assert report.low <= report.value <= report.high
        assert report.verify().charged_rho == Rho.parse("0.25")
        assert analyst.budget(dataset).left == Decimal("1.25")
        assert Policy.load(policy.save(tmp_path / "kept")) == policy
        assert {path.name for path in (tmp_path / "kept").iterdir()} == {"policy.json", "certificate.json", "keys.json"}
        assert analyst.rehearse(dataset, rho="0.5", twin=2)["twin"] == 2

    def test_public_keys_need_no_token(self, service):
        with Client(service.url) as nobody:
            assert json.loads(nobody.certificate_keys())["keys"]


class TestUpload:
    @pytest.mark.parametrize("ending", [".csv", ".ndjson", ".parquet"])
    def test_a_files_ending_says_what_it_is(self, people, tmp_path, ending):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        path = tmp_path / f"rows{ending}"
        path.write_bytes(_as(ending))
        assert clients["custodian"].upload(dataset, path) == {"units": 50, "trajectories": 50, "transitions": 150}
        assert clients["custodian"].dataset(dataset)["state"] == "ready"

    def test_chunks_are_streamed_as_they_come(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        chunks = (ROWS[start : start + 100] for start in range(0, len(ROWS), 100))
        assert clients["custodian"].upload(dataset, chunks, media_type="text/csv")["units"] == 50

    def test_a_bad_row_is_refused_with_its_place(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        rows = b"unit,step,state,action,reward\na,1,99,0,0\na,3,0,0,0\n"
        with pytest.raises(Refused) as refused:
            clients["custodian"].upload(dataset, [rows], media_type="text/csv")
        assert (refused.value.status, refused.value.code) == (422, "invalid_upload")
        assert refused.value.problem["problems"][0]["column"] == "state"
        first, second = str(refused.value).splitlines()[1:]
        assert first == "  row 1, column state: The value is not from 0 to 3; if yours count from 1, subtract 1."
        assert second == "  row 2, column step: The steps of a trajectory count up by one."

    def test_a_bad_row_is_told_under_the_tables_own_names(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        rows = {"Fall": ["a", "b"], "Stunde": [0, 0], "Grad": [None, 9], "action": [0, 1], "reward": [0.0, 0.0]}
        with pytest.raises(Refused) as refused:
            clients["custodian"].upload(dataset, rows, {"unit": "Fall", "step": "Stunde", "state": "Grad"})
        first, second = str(refused.value).splitlines()[1:]
        assert first.startswith("  row 1, column Grad (state): A value is missing; give what is not known a state of")
        assert second.startswith("  row 2, column Grad (state): The value is not from 0 to 3;")
        assert [each["column"] for each in refused.value.problem["problems"]] == ["state", "state"]

    def test_the_same_mistake_in_every_row_is_told_once(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        rows = "unit,step,state,action,reward\n" + "".join(f"p{unit},1,4,{unit % 3},0\n" for unit in range(30))
        with pytest.raises(Refused) as refused:
            clients["custodian"].upload(dataset, [rows.encode()], media_type="text/csv")
        first, second = str(refused.value).splitlines()[1:]
        assert first.startswith("  rows 1, 2, 3, 4, ")
        assert first.endswith("column state: The value is not from 0 to 3; if yours count from 1, subtract 1.")
        assert (
            second
            == "  rows 3, 6, 9, 12, 15, column action: The value is not from 0 to 1; if yours count from 1, subtract 1."
        )

    def test_a_file_of_no_known_kind_is_refused_before_anything_is_sent(self, tmp_path):
        path = tmp_path / "rows.xlsx"
        path.write_bytes(ROWS)
        with never_asked() as client, pytest.raises(errors.InvalidSource, match=r"\.csv, \.ndjson, \.parquet"):
            client.upload("ds_1", path)

    def test_a_frame_arrives_under_the_services_names(self, people):
        clients, _ = people
        custodian = clients["custodian"]
        dataset = custodian.add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        table = pyarrow.csv.read_csv(io.BytesIO(ROWS)).rename_columns(["stay", "hour", "cluster", "dose", "gain"])
        columns = {"unit": "stay", "step": "hour", "state": "cluster", "action": "dose", "reward": "gain"}
        assert custodian.upload(dataset, table, columns) == {"units": 50, "trajectories": 50, "transitions": 150}

    def test_what_cannot_be_meant_leaves_the_dataset_empty(self, people):
        clients, _ = people
        custodian = clients["custodian"]
        dataset = custodian.add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        table = pyarrow.csv.read_csv(io.BytesIO(ROWS))
        with pytest.raises(errors.InvalidSource, match="no column 'cluster'; it has unit, step"):
            custodian.upload(dataset, table, {"state": "cluster"})
        late = pyarrow.concat_tables([table] * 500).set_column(1, "step", pyarrow.array([1, 2, 3] * 24999 + [1, 2, 2]))
        with pytest.raises(errors.InvalidSource, match="Row 75000: 'step'"):  # in the second slice, half-way
            custodian.upload(dataset, late, {"unit": None})
        services.wait_until(lambda: custodian.upload(dataset, table)["units"] == 50)


def _as(ending: str) -> bytes:
    if ending == ".csv":
        return ROWS
    table = pyarrow.csv.read_csv(io.BytesIO(ROWS))
    if ending == ".ndjson":
        return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    pyarrow.parquet.write_table(table, made := io.BytesIO())
    return made.getvalue()


class TestLists:
    def test_go_on_over_every_page(self, people):
        clients, _ = people
        names = [f"population {number:03d}" for number in range(103)]  # a page has a hundred
        for name in names:
            clients["custodian"].add_population(name, {"rho": "1"})
        assert sorted(found["name"] for found in clients["custodian"].populations()) == names

    def test_name_what_was_made(self, people):
        clients, key = people
        dataset = ready(people)
        assert [found["id"] for found in clients["custodian"].datasets()] == [dataset]
        assert [grant["key"] for grant in clients["custodian"].grants(dataset)] == [key]
        assert key in [found["id"] for found in list(clients["admin"].keys())]


class TestOffices:
    """What an administrator, a custodian and an auditor need no curl for."""

    def test_a_budget_is_changed_and_the_auditor_sees_why(self, people):
        clients, _ = people
        dataset = ready(people)
        population = clients["custodian"].dataset(dataset)["population"]
        assert clients["custodian"].change_budget(population, "2.5", "another year of data")["total"] == "2.5"
        auditor = clients["auditor"]
        assert "another year of data" in [row["reason"] for row in auditor.ledger(dataset)["rows"]]
        assert population in [found["population"] for found in auditor.ledgers()]
        assert "signature" in json.loads(auditor.ledger_head(dataset))

    def test_a_revoked_key_opens_nothing_and_stands_in_the_audit_log(self, people, service):
        clients, _ = people
        gone = clients["admin"].add_key("gone", "analyst")
        clients["admin"].revoke_key(gone["id"])
        with Client(service.url, gone["token"]) as nobody, pytest.raises(Refused, match="401"):
            list(nobody.datasets())
        done = [(entry["action"], entry["object"]) for entry in clients["auditor"].audit()]
        assert ("key.revoke", gone["id"]) in done


class TestTrain:
    def test_the_same_idempotency_key_is_the_same_training(self, people):
        clients, _ = people
        dataset = ready(people)
        first, again = (
            clients["analyst"].train(dataset, **services.APVI, wait=False, key="mine")["id"] for _ in range(2)
        )
        assert first == again

    def test_each_call_without_one_is_a_training_of_its_own(self, people):
        clients, _ = people
        dataset = ready(people)
        first, other = (clients["analyst"].train(dataset, **services.APVI, wait=False)["id"] for _ in range(2))
        assert first != other
        assert {first, other} == {found["id"] for found in clients["analyst"].trainings()}

    @pytest.mark.parametrize("privacy", [{}, {"rho": "1", "privacy": {"rho": "1"}}])
    def test_what_it_may_cost_is_said_once(self, privacy):
        with never_asked() as client, pytest.raises(errors.InvalidPrivacy):
            client.train("ds_1", **privacy)


class TestRefused:
    def test_carries_status_code_and_detail_and_what_remains(self, people):
        clients, _ = people
        dataset = ready(people, "1")
        with pytest.raises(Refused) as refused:
            clients["analyst"].train(dataset, rho="1.5")
        assert (refused.value.status, refused.value.code) == (402, "grant_exhausted")
        assert refused.value.problem["remaining"] == "1"
        assert "1 left" in refused.value.detail
        assert str(refused.value) == f"402 grant_exhausted: {refused.value.detail}"

    def test_somebody_elses_dataset_is_not_found(self, people, service):
        dataset = ready(people)
        with Client(service.url, service.key("analyst").token) as stranger, pytest.raises(Refused) as refused:
            stranger.dataset(dataset)
        assert (refused.value.status, refused.value.code) == (404, "not_found")

    def test_a_stream_of_events_is_refused_like_anything_else(self, people):
        clients, _ = people
        with pytest.raises(Refused) as refused:
            next(clients["analyst"].watch("tr_0000000000000000000000"))
        assert (refused.value.status, refused.value.code) == (404, "not_found")
