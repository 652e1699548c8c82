"""A real policy and its certificate, from a real run: `python -m docs.building.sample` writes docs/samples.

The pages show these files. Run it again when a certificate gains a field; a test says so.
"""

import base64
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from discretion import embedded
from discretion.client import Client

SAMPLES: Final = Path(__file__).parents[1] / "samples"
_PATIENTS: Final = 600
_STEPS: Final = 3
_SCHEMA: Final[dict[str, Any]] = {
    "horizon": _STEPS,
    "states": {"kind": "discrete", "count": 3},
    "actions": {"count": 2, "labels": ["wait", "treat"]},
    "reward": {"low": 0, "high": 1},
}


def stays() -> dict[str, Any]:
    """Made-up patients: treating pays in the last state, waiting in the others."""
    draw = np.random.default_rng(1)
    state, action = draw.integers(3, size=_PATIENTS * _STEPS), draw.integers(2, size=_PATIENTS * _STEPS)
    unit, step = np.divmod(np.arange(_PATIENTS * _STEPS), _STEPS)
    reward = ((state == 2) == action).astype(float)
    return {"unit": unit, "step": step + 1, "state": state, "action": action, "reward": reward}


def papers(folder: Path) -> dict[str, str]:
    """What an auditor would take along from a service that was started for this."""
    with embedded.service(folder) as (url, token), Client(url, token, trust_env=False) as admin:
        made = {role: admin.add_key(role, role) for role in ("custodian", "analyst")}
        with Client(url, made["custodian"]["token"], trust_env=False) as custodian:
            dataset = custodian.add_dataset("icu-2026", budget={"rho": "1"}, **_SCHEMA)["id"]
            custodian.upload(dataset, stays())
            custodian.add_grant(dataset, made["analyst"]["id"], "1")
        with Client(url, made["analyst"]["token"], trust_env=False) as analyst:
            policy = analyst.train(dataset, rho="0.5")
    return {"policy": policy.text, "certificate": policy.certificate, "keys": policy.keys}


def payload(certificate: str) -> dict[str, Any]:
    """What a certificate says, without checking it."""
    encoded = json.loads(certificate)["payload"]
    return dict(json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = papers(Path(temporary))
    SAMPLES.mkdir(exist_ok=True)
    for name, text in found.items():
        (SAMPLES / f"{name}.json").write_text(text.rstrip() + "\n", encoding="utf-8")
