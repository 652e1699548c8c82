"""What the tests of the API share: building it anew for each of them would take longer than all of them."""

from collections.abc import Iterator

import pytest

from tests import services
from tests.api import hospital as hospitals
from tests.conftest import new_url
from tests.services import Service


@pytest.fixture(scope="session")
def hospital(service: Service) -> hospitals.Hospital:
    return hospitals.build(service)


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def unattended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker, where a training stays queued."""
    folder = tmp_path_factory.mktemp("unattended")
    with services.serve(folder, new_url(request, folder), requests_per_second=100_000, workers=0) as running:
        yield running


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that takes little and waits for nobody."""
    folder = tmp_path_factory.mktemp("small")
    sizes = {"max_body_megabytes": 1, "max_upload_megabytes": 1, "stall_seconds": 1}
    with services.serve(folder, None, None, workers=0, metrics_token=hospitals.METRICS_TOKEN, **sizes) as running:
        yield running
