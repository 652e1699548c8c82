"""Small real trainings with their certificates, and the tools to forge them."""

import base64
import copy
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import rfc8785

from discretion import certificates, errors, signatures
from discretion.learning import apvi, evaluators, learners, vapvi
from discretion.learning import features as maps
from discretion.learning.curator import Concentrated, Curator, Pure, Share
from discretion.learning.policy import Policy
from discretion.learning.report import Report
from discretion.learning.schemas import Schema
from discretion.privacy import events
from discretion.privacy.rho import Rho
from tests import worlds
from tests.worlds import PLANE, World

KEY, ROGUE, STRANGER = (certificates.generate_key() for _ in range(3))
KEYS = json.dumps(certificates.jwks([KEY, ROGUE]))  # the rogue is listed: only what it says can give it away
RHO, EPSILON = Concentrated(Fraction(1, 2)), Pure(Fraction(3, 2))
HASH = "ab" * 32


@dataclass(frozen=True)
class Made:
    """What a training leaves behind."""

    policy: Policy
    schema: Schema
    units: int
    privacy: Share
    parameters: learners.Parameters
    log: tuple[events.Event, ...]
    origin: certificates.Origin | None = None

    def certify(self, **changes: Any) -> dict[str, Any]:
        row = certificates.LedgerRow("pop_1", 7, HASH, Rho.ceiling(events.compose(self.log)))
        policy: Policy = changes.pop("policy", self.policy)
        done, row, key = changes.pop("release_events", self.log), changes.pop("ledger", row), changes.pop("key", KEY)
        asked = certificates.Request(
            self.policy.algorithm,
            self.schema,
            policy.labels,
            self.units,
            self.privacy,
            self.parameters,
            changes.pop("derived_from", self.origin),
        )
        return certificates.certify(policy, replace(asked, **changes), done, row, key)

    @functools.cached_property
    def certificate(self) -> dict[str, Any]:
        return self.certify()

    @property
    def text(self) -> bytes:
        return self.policy.canonical()


def discrete() -> World:
    rng = np.random.default_rng(0)
    mdp = worlds.tabular_mdp(rng, horizon=3, states=4, actions=2)
    return worlds.sample(rng, mdp, units=60, reward=(-1.0, 3.0), per_unit=2)


def trained(world: World, privacy: Share, parameters: learners.Parameters, **named: Any) -> Made:
    curator = Curator(world.trajectories, Fraction(10))
    learned = replace(learners.learn(curator, privacy, parameters), **({"id": "pol_1"} | named))
    return Made(learned, world.schema, world.units, privacy, parameters, curator.log)


def derived() -> Made:
    world, drawn = discrete(), apvi.Parameters(shares=(2, 1, 1))
    curator = Curator(world.trajectories, Fraction(10))
    release = apvi.draw(curator, RHO, drawn)
    asked = apvi.Parameters(pessimism="hoeffding", reward=worlds.known(np.random.default_rng(1), world.schema, "next"))
    made = replace(apvi.derive(release, world.schema, asked), id="pol_2")
    return Made(made, world.schema, world.units, RHO, asked, curator.log, certificates.Origin("tr_1", drawn))


def regressed(features: maps.FeatureMap, **constants: Any) -> Made:
    world = discrete()
    if not isinstance(features, maps.Table):
        world = worlds.scattered(np.random.default_rng(2), world)
    return trained(world, RHO, vapvi.Parameters(features, **constants))


def phi() -> maps.Table:
    return worlds.signed_features(np.random.default_rng(3), 4, 2, 3)


CASES: dict[str, Callable[[], Made]] = {
    "gaussian": lambda: trained(discrete(), RHO, apvi.Parameters()),
    "laplace": lambda: trained(discrete(), EPSILON, apvi.Parameters(), labels=("wait", "treat")),
    "known reward": lambda: trained(
        discrete(),
        RHO,
        apvi.Parameters(reward=worlds.known(np.random.default_rng(1), discrete().schema, "step")),
        id=None,
    ),
    "derived": derived,
    "table": lambda: regressed(phi(), shares=(1, 1, 1, 4, 5)),
    "paper": lambda: regressed(phi(), calibration="paper"),
    "paper, counts": lambda: trained(discrete(), RHO, apvi.Parameters(calibration="paper")),
    "blocks": lambda: regressed(maps.Blocks(PLANE, 2, ("1", "y", "x")), d=1.5),
    "bins": lambda: regressed(maps.Bins.of(PLANE, 2, {"y": [2.0, 5.0], "x": [0.1]})),
    "split": lambda: regressed(phi(), variance="estimated", split=True, e=0.5),
}
EVERY = pytest.mark.parametrize("case", CASES)


@functools.cache
def made(case: str) -> Made:
    return CASES[case]()


@functools.cache
def judged() -> tuple[Report, str]:
    """A report on one of these policies, and its certificate."""
    world, policy = discrete(), made("gaussian").policy
    asked = evaluators.resolved(world.schema, world.units, RHO, evaluators.Parameters())
    curator = Curator(world.trajectories, Fraction(10))
    found = evaluators.evaluate(curator, RHO, asked, policy).document()
    written = Report({"id": policy.id, "sha256": policy.digest()}, "same", found, "ev_1")
    request = certificates.Request(written.algorithm, world.schema, None, world.units, RHO, asked)
    row = certificates.LedgerRow("pop_1", 8, HASH, Rho.ceiling(events.compose(curator.log)))
    return written, json.dumps(certificates.certify(written, request, curator.log, row, KEY))


def payload_of(certificate: dict[str, Any]) -> dict[str, Any]:
    return json.loads(base64.urlsafe_b64decode(certificate["payload"] + "=="))


def encoded(document: Any) -> str:
    raw = document if isinstance(document, bytes) else rfc8785.dumps(document)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(payload: bytes, **header: Any) -> dict[str, str]:
    """Signed by the rogue, whatever it says."""
    full = {"alg": "EdDSA", "kid": ROGUE.kid, "typ": signatures.TYPE} | header
    protected, body = encoded({key: value for key, value in full.items() if value is not None}), encoded(payload)
    return {
        "payload": body,
        "protected": protected,
        "signature": encoded(ROGUE.private.sign(f"{protected}.{body}".encode())),
    }


def forged(case: str, change: Callable[[dict[str, Any]], Any]) -> dict[str, str]:
    """The certificate with a changed payload and a valid signature of a listed key."""
    payload = copy.deepcopy(payload_of(made(case).certificate))
    change(payload)
    return signed(rfc8785.dumps(payload))


def verify(certificate: Any, case: str = "gaussian", keys: str = KEYS) -> certificates.Verified:
    return certificates.verify(made(case).text, json.dumps(certificate), keys)


def refusal(certificate: Any, case: str = "gaussian", keys: str = KEYS) -> str:
    with pytest.raises(errors.InvalidCertificate) as refused:
        verify(certificate, case, keys)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set what stands at all but the last of `path` to the last."""

    def change(payload: Any) -> None:
        for key in path[:-2]:
            payload = payload[key]
        payload[path[-2]] = path[-1]

    return change
