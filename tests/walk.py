"""The pages about containers, followed to the letter: every command that they show, in their order, on a real engine.

    python3 -m tests.walk --lay-out FOLDER    this repository's files, as a reader has them, in a new FOLDER
    python3 -m tests.walk FOLDER              the walk in it

`make test-deployment` does both. It needs Python and a container engine alone, and ends badly at the first command that
does, or that prints something else than its page shows.
"""

import argparse
import codecs
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests import shown

ROOT = Path(__file__).parents[1]
PAGES = ("docker/README.md", "docs/cluster.md")
ALL = "docker/README.md"  # of the other page, what is for containers: the rest needs none, and runs with every test
LAID_OUT = (".dockerignore", "LICENSE", "README.md", "docker", "migrations", "pyproject.toml", "service")
STAND_IN = ROOT / "tests" / "standing"  # a `docker` for machines without one, if DC names what plays Compose there
REGISTRY = "no registry can be reached from where Compose is played; with Docker it is run"
WITHOUT_DOCKER = {"docker pull postgres:17": REGISTRY}

# What is called otherwise here, so that a deployment on this machine is left alone; and this machine is the host.
MOVED = (
    ("https://discretion.hospital.example", "https://localhost:$HTTPS_PORT"),
    ("discretion.hospital.example", "localhost"),
    ("--name discretion ", "--name discretion-test "),
    ("--volume discretion:", "--volume discretion-test:"),
    ("127.0.0.1:8000:8000", "127.0.0.1:18000:8000"),
    ("docker logs discretion", "docker logs discretion-test"),
    ("volume rm discretion_database discretion_data", "volume rm discretion-test_database discretion-test_data"),
    (":before", ":test-before"),
    ("key_…", "$FIRST"),
    ("/mnt/other", "$PWD/other"),
    ("sudo ", "$SUDO "),  # which is empty for root
)

# A reader begins with nothing: what has been started to build the images goes.
_BEGIN = """
docker compose --file docker/compose.yaml down --volumes
rm -rf docker/secrets
shopt -s expand_aliases
ready() {
  timeout 120 bash -c 'until curl --silent --fail --cacert docker/secrets/tls-certificate \\
    https://localhost:$HTTPS_PORT/readyz > /dev/null; do sleep 1; done'
}
signed() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 90 "$@"; }
wait_for() { timeout 120 bash -c "until $*; do sleep 1; done" > /dev/null 2>&1; }
"""
# Of the keys that were listed, the oldest.
_FIRST = """
dc exec -T api discretion keys list | grep --only-matching 'key_[A-Za-z0-9]*' > keys
read -r FIRST < keys
"""
# A custodian's patients, who are to be there to the end: ten of them, of a population of their own.
_PATIENTS = """
dc exec -T api discretion keys create --role custodian > custodian.token
custodian() {
  dc exec -T -e DISCRETION_URL=http://127.0.0.1:8000 -e DISCRETION_TOKEN="$(cat custodian.token)" api discretion "$@"
}
dc exec -T api tee /tmp/schema.json << 'END'
{"horizon": 2, "states": {"kind": "discrete", "count": 2}, "actions": {"count": 2}, "reward": {"low": 0, "high": 1}}
END
{ echo unit,step,state,action,reward; for unit in {0..9}; do echo p$unit,1,1,0,1; done; } |
  dc exec -T api tee /tmp/rows.csv > /dev/null
STAYS=$(custodian datasets create walk /tmp/schema.json --rho 1 --json | grep --only-matching 'ds_[A-Za-z0-9]*')
custodian upload $STAYS /tmp/rows.csv
"""
# By an authority, as a hospital has one: what the check is to trust is not the certificate itself.
_CERTIFICATE = """
signed -subj /CN=hospital -keyout authority-key -out authority.pem
signed -CA authority.pem -CAkey authority-key -subj /CN=new -keyout new-key.pem -out new-certificate.pem \\
  -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost
"""
_RENEWED = """
presented() { openssl s_client -connect localhost:$HTTPS_PORT < /dev/null 2> /dev/null | openssl x509; }
for _ in {1..60}; do if presented | cmp --silent - new-certificate.pem; then break; fi; sleep 1; done
presented | cmp - new-certificate.pem
"""
# The hospital's own PostgreSQL, of a second deployment: known by the name, and by the URL, that the page has.
_DATABASE = """
export COMPOSE_PROJECT_NAME=discretion-test-external HTTPS_PORT=18444 SUBNET=172.30.215.0/28 SECRETS=$PWD/external
export HEADS=$PWD/other/heads
docker/make-secrets --folder $SECRETS > /dev/null
signed -subj "/CN=authority" -keyout authority-key -out $SECRETS/database-authority
signed -CA $SECRETS/database-authority -CAkey authority-key -subj "/CN=database" -keyout database-key \\
  -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:db.hospital.example -out database-certificate
chmod u+w $SECRETS/database-url
cat > $SECRETS/database-url << 'END'
DATABASE_URL
END
docker compose --file docker/compose.yaml --file docker/external-database.yaml create
docker run --detach --name discretion-test-database --network discretion-test-external_database \\
  --network-alias db.hospital.example --user 999:999 --env POSTGRES_USER=discretion --env POSTGRES_DB=discretion \\
  --env POSTGRES_PASSWORD=PASSWORD postgres:17
wait_for docker exec discretion-test-database pg_isready --host 127.0.0.1 --username discretion
put() { docker exec --interactive discretion-test-database sh -c "umask 077; cat > \\$PGDATA/server.$1"; }
put key < database-key
put crt < database-certificate
for each in "ALTER SYSTEM SET ssl = on" "SELECT pg_reload_conf()"; do
  docker exec discretion-test-database psql --username discretion --command "$each"
done
"""
# What is put away there is on the other disk.
_GONE = """
docker compose --file docker/compose.yaml --file docker/external-database.yaml exec -T api touch /heads/put-away
ls other/heads/put-away
docker rm --force --volumes discretion-test-database
docker compose --file docker/compose.yaml --file docker/external-database.yaml down --volumes
export COMPOSE_PROJECT_NAME=$MAIN_COMPOSE_PROJECT_NAME HTTPS_PORT=$MAIN_HTTPS_PORT SUBNET=$MAIN_SUBNET
unset SECRETS HEADS
"""
_KEPT = """
ready
custodian budget $STAYS
dc exec -T api discretion doctor
"""

_CLEAN = """
docker rm --force --volumes discretion-test discretion-test-database
docker volume rm discretion-test
docker rmi discretion:test-before discretion-proxy:test-before
export COMPOSE_PROJECT_NAME=discretion-test-external SECRETS=$PWD/external
docker compose --file docker/compose.yaml --file docker/external-database.yaml down --volumes
"""

EXTERNAL = "docker compose --file docker/compose.yaml --file docker/external-database.yaml up --detach --wait"
# What the text around a command has its reader do, or bring along: before it, and after it, once.
BEFORE = {
    (ALL, "docker compose --file docker/compose.yaml build"): _BEGIN,
    (ALL, "dc exec api discretion keys revoke key_…"): _FIRST,
    (ALL, "chmod u+w docker/secrets/tls-certificate docker/secrets/tls-key"): _CERTIFICATE,
    (ALL, "{ openssl rand -hex 32; cat docker/secrets/store-key; } > docker/secrets/both"): _PATIENTS,
    (ALL, EXTERNAL): _DATABASE,
    (ALL, "docker build --file docker/Dockerfile --tag discretion ."): "ready",  # by the new password
    (ALL, "docker logs discretion"): "wait_for curl --fail http://127.0.0.1:18000/readyz",
    (ALL, "docker tag discretion:latest discretion:before"): _KEPT,
    ("docs/cluster.md", "docker/make-secrets"): "cat > docker/.env << 'END'\nCLUSTER_SETTINGS\nEND",
}
AFTER = {
    (ALL, EXTERNAL): _GONE,
    (ALL, "dc exec proxy nginx -s reload"): _RENEWED,
    (ALL, "docker logs discretion"): "docker rm --force discretion-test",
}
TYPED = re.compile(r"(?:Enter new password.*|Enter it again): $")  # answered as the page says


def walked(page: str) -> list[shown.Step]:
    """The steps of a page that the walk takes."""
    steps = shown.steps((ROOT / page).read_text(encoding="utf-8"))
    return [step for step in steps if page == ALL or step.code.startswith(("docker ", "docker/"))]


def script(moved: Sequence[tuple[str, str]] = MOVED) -> list[shown.Step]:
    """All of it, as it is done on this machine."""
    made, arranged = [], set()
    left_out = WITHOUT_DOCKER if os.environ.get("DC") else {}
    for page in PAGES:
        for step in walked(page):
            place = (page, step.code)
            if step.code in left_out:
                print(f"walk: not run: {step.code}: {left_out[step.code]}")
                continue
            first = place not in arranged
            arranged.add(place)
            if first and place in BEFORE:
                made.append(shown.Step(filled(BEFORE[place])))
            made.append(shown.Step(_moved(step.code, moved), step.shown, step.language))
            if first and place in AFTER:
                made.append(shown.Step(AFTER[place]))
    return made


def _moved(code: str, moved: Sequence[tuple[str, str]]) -> str:
    for there, here in moved:
        code = code.replace(there, here)
    return code


def filled(code: str) -> str:
    """With what pages show for a file: it is taken from there."""
    files = [block.text.strip() for page in PAGES for block in shown.blocks((ROOT / page).read_text(encoding="utf-8"))]
    for name, begin in (("DATABASE_URL", "postgresql://"), ("CLUSTER_SETTINGS", "COMPOSE_PROFILES=")):
        if name in code:
            (text,) = [text for text in files if text.startswith(begin)]
            code = code.replace(name, text)
    return code


def lay_out(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    theirs = shutil.ignore_patterns("__pycache__", "secrets", ".env")
    for name in LAID_OUT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=theirs)
        else:
            shutil.copy2(ROOT / name, folder / name)


class Reader:
    """Somebody at a terminal, who types the commands and reads what they print."""

    def __init__(self, folder: Path, steps: list[shown.Step]) -> None:
        self.folder, self.steps = folder, steps
        self.begun = time.monotonic()

    def walk(self) -> list[str]:
        """What is not as it is shown."""
        self.terminal, side = pty.openpty()
        termios.tcsetwinsize(side, (30, 100))
        command = ["bash", "-c", shown.script(self.steps)]
        shell = subprocess.Popen(
            command, stdin=side, stdout=side, stderr=side, cwd=self.folder, env=environment(), start_new_session=True
        )
        os.close(side)
        printed = "\n".join(self._lines())
        found = shown.outputs(printed)
        wrong = [] if shell.wait() == 0 else [f"{self.steps[len(found) - 1].code}\nends with {shell.returncode}"]
        for step, output in zip(self.steps, found, strict=False):
            if not shown.agrees(step, output) and not wrong:
                wrong.append(f"{step.code}\nis said to print\n{step.shown}\nand prints\n{output}")
        return wrong

    def _lines(self) -> Iterator[str]:
        """Each line, shown as it comes; commands with the seconds since the begin."""
        rest, at, text = "", 0, codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := self._read():
            rest = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", rest + text.decode(chunk)).replace("\r\n", "\n")
            *lines, rest = rest.split("\n")
            for line in lines:
                if line == shown.MARK:
                    print(f"walk: [{time.monotonic() - self.begun:.0f} s] {self.steps[at].code.strip()}", flush=True)
                    at += 1
                else:
                    print(f"      {line}", flush=True)
                yield line
            if TYPED.search(rest):
                os.write(self.terminal, (self.folder / "docker/secrets/database-password").read_bytes())
                yield rest
                rest = ""
        yield rest

    def _read(self) -> bytes:
        try:
            return os.read(self.terminal, 2**16)
        except OSError:  # the last who could write has gone
            return b""


def environment() -> dict[str, str]:
    """As the deployment has it, with plain output; where there is no Docker, with what stands in for it."""
    found = dict(os.environ) | {"TERM": "dumb", "COLUMNS": "100", "COMPOSE_ANSI": "never", "COMPOSE_PROGRESS": "plain"}
    found["SUDO"] = "sudo" if os.getuid() else ""
    found |= {f"MAIN_{name}": found[name] for name in ("COMPOSE_PROJECT_NAME", "HTTPS_PORT", "SUBNET")}
    if found.get("DC"):
        found["PATH"] = f"{STAND_IN}:{found['PATH']}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lay-out", action="store_true")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.lay_out:
        lay_out(folder)
        return
    try:
        wrong = Reader(folder, script()).walk()
    finally:
        subprocess.run(["bash", "-c", _CLEAN], cwd=folder, env=environment(), capture_output=True)
    sys.exit("walk: " + wrong[0] if wrong else 0)


if __name__ == "__main__":
    main()
