"""What docker/check runs inside the containers, as text for `python -c`; each ends badly if something is wrong."""

# How a container of the API or of a worker is closed.
CONTAINED = """
import os, shutil, socket
said = dict(line.split(":", 1) for line in open("/proc/1/status") if ":" in line)
assert os.getuid() == 10001, "it runs as another user than 10001"
assert int(said["CapEff"], 16) == int(said["CapBnd"], 16) == 0, "it has capabilities: " + said["CapBnd"]
assert said["NoNewPrivs"].strip() == "1", "its programs may become somebody else"
for place in ("/probe", "/opt/discretion/probe", "/run/secrets/probe"):
    try:
        open(place, "w")
    except OSError:
        continue
    raise AssertionError(place + " can be written")
routes = [line.split() for line in open("/proc/net/route").readlines()[1:]]
assert not [route for route in routes if route[1] == "00000000"], "there is a route out"
for family, away in ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1")):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(3)
            probe.connect((away, 443))
    except OSError:
        continue
    raise AssertionError("it reaches " + away)
try:
    import pip
except ImportError:
    pass
else:
    raise AssertionError("pip is in the image")
for program in ("apt", "apt-get", "dpkg"):
    assert shutil.which(program) is None, program + " is in the image"
"""

# What a setting is in a container; nothing where it is not set.
SETTING = "import os; print(os.environ.get('%s', ''))"

# A certificate of its own that ended yesterday, and its key.
EXPIRED = """
import datetime
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=expired")
now = datetime.datetime.now(datetime.timezone.utc)
made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
made = made.not_valid_before(now - datetime.timedelta(2)).not_valid_after(now - datetime.timedelta(1))
pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
print(made.sign(key, hashes.SHA256()).public_bytes(pem).decode(), end="\\0")
print(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode())
"""

# How many parts the image lists.
PARTS = 'import json; found = json.load(open("/opt/discretion/sbom.cdx.json")); print(len(found["components"]))'

# Metrics need the token; whether this replica was asked for keys.
METRICS = """
import http.client
def ask(**headers):
    asked = http.client.HTTPConnection("127.0.0.1", 8000, timeout=10)
    asked.request("GET", "/metrics", headers=headers)
    answer = asked.getresponse()
    return answer.status, answer.read().decode()
token = open("/run/secrets/metrics-token").read().strip()
assert ask()[0] == 401, "metrics need no token"
status, text = ask(Authorization="Bearer " + token)
assert status == 200 and "discretion_ledger_intact 1" in text, (status, text)
print('route="/v1/keys"' in text)
"""

# SIGKILL to the processes of a command (the first %s); if the second is True, only to one that has a child, a training.
KILL = """
import os, signal
found = {}
for entry in os.listdir("/proc"):
    try:
        if entry.isdigit() and b"bin/discretion\\0%s" in open(f"/proc/{entry}/cmdline", "rb").read():
            found[int(entry)] = int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1])
    except OSError:
        pass
busy = [parent for parent in found.values() if parent in found]
for process in (busy if %s else [process for process, parent in found.items() if parent not in found]):
    os.kill(process, signal.SIGKILL)
    print("killed")
"""

# How many numbers of a training are drawn and recorded.
DRAWN = """
import sqlalchemy as sa
from discretion import database, settings, tables
engine = database.engine(settings.read().database_url)
with database.snapshot(engine) as connection:
    here = (tables.draws.c.training == %r) & tables.draws.c.recorded
    print(connection.execute(sa.select(sa.func.count()).select_from(tables.draws).where(here)).scalar_one())
"""
