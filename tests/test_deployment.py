"""What is deployed, as far as it can be seen without a container engine; `make test-deployment` runs it."""

import contextlib
import importlib.util
import json
import os
import re
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cryptography import x509

import discretion
from discretion import sealing, settings, signatures

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
CLUSTER = ("cluster-authority", "cluster-certificate", "cluster-key")
SECRETS = (
    "database-password",
    "database-url",
    "metrics-token",
    "signing-key",
    "store-key",
    "tls-certificate",
    "tls-key",
    *CLUSTER,
)


def pinned(lock: Path) -> dict[str, set[str]]:
    """The hashes of each package, under its name and version."""
    text = lock.read_text(encoding="utf-8")
    entries = re.findall(r"^([\w.\[\]-]+==[^ ;\\]+)[^\\\n]*\\\n((?: +--hash=\S+(?: \\)?\n)+)", text, re.MULTILINE)
    return {name: set(re.findall(r"--hash=(\S+)", hashes)) for name, hashes in entries}


def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", DOCKER / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestLock:
    def test_of_the_image_pins_what_the_tests_run_with(self):
        tested, shipped = pinned(ROOT / "requirements.lock"), pinned(DOCKER / "requirements.lock")
        assert len(shipped) > 30
        assert {name for name in shipped if shipped[name] != tested.get(name)} == set()

    def test_of_the_image_has_no_tools_of_developers(self):
        shipped = {name.partition("==")[0] for name in pinned(DOCKER / "requirements.lock")}
        assert not shipped & {"pytest", "mypy", "ruff", "playwright", "uv", "pandas"}


class TestImages:
    @pytest.mark.parametrize("file", ["Dockerfile", "proxy/Dockerfile"])
    def test_are_labelled_with_this_version_and_are_not_root(self, file):
        text = (DOCKER / file).read_text(encoding="utf-8")
        assert f'org.opencontainers.image.version="{discretion.__version__}"' in text
        assert 'org.opencontainers.image.licenses="Apache-2.0"' in text
        assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", text, re.MULTILINE)
        assert "@sha256" not in text


class TestSlim:
    def test_takes_out_what_nothing_imports_and_nothing_else(self, tmp_path):
        left = ["pyarrow/lib.so", "pyarrow/libarrow_python.so.2100", "dask/core.py", "numpy/testing/__init__.py"]
        out = ["pyarrow/libarrow_flight.so", "pyarrow/include/a.txt", "dask/array/core.py", "numpy/tests/test_a.py"]
        out += ["numpy/core/a.h", "numpy/random/a.pyx", "pyarrow/libarrow_python.so", "pygments/lexers/python.py"]
        for place in left + out:
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / place).touch()
        subprocess.run([DOCKER / "slim", tmp_path], check=True)
        assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == sorted(left)

    def test_is_what_the_image_is_built_with(self):
        assert "docker/slim" in (DOCKER / "Dockerfile").read_text(encoding="utf-8")
        assert "!docker/slim" in (ROOT / ".dockerignore").read_text(encoding="utf-8")


class TestSbom:
    def test_is_a_valid_document_with_everything_installed(self):
        done = subprocess.run(
            [sys.executable, "-I", str(DOCKER / "sbom.py")], capture_output=True, text=True, check=True
        )
        # Three seconds' worth of grammars, which not every process that collects this file shall read.
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(done.stdout) is None
        made = json.loads(done.stdout)
        assert made["metadata"]["component"]["name"] == "discretion"
        found = {part["purl"].partition("@")[0] for part in made["components"]}
        assert {"pkg:pypi/numpy", "pkg:pypi/pyarrow", "pkg:generic/python"} <= found

    def test_is_the_same_each_time(self):
        assert sbom().document() == sbom().document()

    def test_names_installed_packages_of_debian_and_no_others(self, tmp_path):
        status = tmp_path / "status"
        status.write_text(
            "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u1\n"
            "Description: x\n Version: not this one\n\n"
            "Package: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1\n"
        )
        (found,) = sbom().debian_packages(status, "bookworm")
        assert found["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1?arch=amd64&distro=bookworm"


class TestMakeSecrets:
    def make(self, folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
        command = [str(DOCKER / "make-secrets"), "--folder", str(folder), *names]
        return subprocess.run(command, capture_output=True, text=True, umask=0)

    def test_makes_what_the_settings_and_a_server_take(self, tmp_path):
        assert self.make(tmp_path / "made", "discretion.test", "10.1.2.3").returncode == 0
        text = {name: (tmp_path / "made" / name).read_text() for name in SECRETS}
        found = settings.read(
            {
                f"DISCRETION_{name.upper().replace('-', '_')}_FILE": str(tmp_path / "made" / name)
                for name in SECRETS[1:4]
            }
        )
        assert found.database_url == f"postgresql://discretion:{text['database-password'].strip()}@postgres/discretion"
        assert found.signing_key is not None
        assert signatures.SigningKey.from_pem(found.signing_key.encode()).kid
        assert found.metrics_token is not None
        assert len(sealing.master_keys(tmp_path / "made" / "store-key")) == 1
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "made" / "tls-certificate", tmp_path / "made" / "tls-key")
        certificate = x509.load_pem_x509_certificate(text["tls-certificate"].encode())
        given = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert given.get_values_for_type(x509.DNSName) == ["discretion.test"]
        assert [str(each) for each in given.get_values_for_type(x509.IPAddress)] == ["10.1.2.3"]

    def test_machines_of_a_cluster_accept_each_other_by_what_it_makes(self, tmp_path):
        self.make(tmp_path)
        authority, certificate, key = (tmp_path / name for name in CLUSTER)
        ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.check_hostname = False
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        for context in (ours, theirs):
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(authority)
            context.load_cert_chain(certificate, key)
        sides = [ours.wrap_bio(back, there), theirs.wrap_bio(there, back, server_side=True)]
        for _ in range(3):
            for side in sides:
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        assert [side.version() for side in sides] == ["TLSv1.3"] * 2

    def test_opens_the_files_to_containers_and_the_folder_to_nobody(self, tmp_path):
        self.make(tmp_path / "made")
        assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
        assert sorted(os.listdir(tmp_path / "made")) == sorted(SECRETS)
        assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").iterdir()} == {0o444}

    def test_replaces_nothing(self, tmp_path):
        self.make(tmp_path)
        before = {name: (tmp_path / name).read_text() for name in SECRETS}
        (tmp_path / "metrics-token").unlink()
        assert self.make(tmp_path).returncode == 0
        after = {name: (tmp_path / name).read_text() for name in SECRETS}
        assert {name for name in SECRETS if before[name] != after[name]} == {"metrics-token"}

    def test_says_no_secret(self, tmp_path):
        done = self.make(tmp_path)
        for name in SECRETS:
            assert (tmp_path / name).read_text().strip() not in done.stdout + done.stderr

    def test_leaves_a_hospitals_own_certificate_alone(self, tmp_path):
        for name in ("tls-certificate", "tls-key"):
            (tmp_path / name).write_text("theirs")
        assert self.make(tmp_path, "other.test").returncode == 1
        assert self.make(tmp_path).returncode == 0
        assert (tmp_path / "tls-certificate").read_text() == (tmp_path / "tls-key").read_text() == "theirs"

    def test_refuses_half_of_a_certificate_and_names_that_are_none(self, tmp_path):
        assert self.make(tmp_path / "b", "a b/CN=x").returncode == 1
        (tmp_path / "tls-key").write_text("theirs")
        done = self.make(tmp_path)
        assert done.returncode == 1
        assert "belong together" in done.stderr


class TestCompose:
    def test_mounts_exactly_the_secrets_that_are_made(self):
        text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
        assert set(re.findall(r"file: \$\{SECRETS:-\./secrets\}/(\S+)", text)) == set(SECRETS)
