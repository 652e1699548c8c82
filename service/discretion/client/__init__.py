"""A client of the HTTP API in plain Python: one method for each thing to do, one exception for every refusal.

    with Client("http://127.0.0.1:8000", token) as custodian:
        stays = custodian.add_dataset("icu", budget={"rho": "2"}, **schema)["id"]
        custodian.upload(stays, frame, {"unit": "icustayid", "step": "bloc", "state": "cluster"})
        custodian.add_grant(stays, analyst_key, "1")

    with Client("http://127.0.0.1:8000", other_token) as analyst:
        print(analyst.plan(stays, rho="0.5")["epsilon"])
        policy = analyst.train(stays, rho="0.5")
        print(policy.decide(step=1, state=0).label, policy.verify().total_rho)

What was refused raises `Refused`, with the API's own `status`, `code` and `detail`; rows that cannot be meant raise
`errors.InvalidSource` here, before the service keeps anything of them.
"""

from discretion.client.calls import Document, Refused
from discretion.client.client import Client, Failed
from discretion.client.columns import Outcome
from discretion.client.results import Budget, Policy, Report

__all__ = ["Budget", "Client", "Document", "Failed", "Outcome", "Policy", "Refused", "Report"]
