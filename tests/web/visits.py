"""Somebody who uses the dashboard, and what their browser noticed meanwhile."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from tests.services import Client

# What the service answers is the page's to tell; the browser repeats every refusal in its console.
_RENEWED = "net::ERR_NETWORK_CHANGED"  # an interface of this machine came or went, and the browser asks again
_ANSWERED = re.compile(r"Failed to load resource: (the server responded with a status of|net::ERR_)")
_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""

# A limit for a machine that is busy with other things, and no wait.
_PATIENCE = 30_000
expect.set_options(timeout=_PATIENCE)


@dataclass
class Visit:
    context: BrowserContext
    page: Page
    url: str
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, context: BrowserContext, url: str) -> "Visit":
        context.set_default_timeout(_PATIENCE)
        context.add_init_script(_VIOLATIONS)
        made = cls(context, context.new_page(), url)
        made.page.on("request", made._asked)
        made.page.on("console", made._said)
        made.page.on("pageerror", lambda error: made.complaints.append(f"uncaught: {error}"))
        return made

    def _asked(self, request: Request) -> None:
        self.requests.append(request)
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and not request.url.startswith(f"{self.url}/"):
            self.complaints.append(f"a request left the service: {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning") or _RENEWED in message.text:
            return
        asset = "/assets/" in message.location.get("url", "")
        if asset or not _ANSWERED.match(message.text):
            self.complaints.append(f"{message.type}: {message.text}")

    def sign_in(self, client: Client | str, address: str = "") -> "Visit":
        """With a token, as a person does; then to a page."""
        self.page.goto(f"{self.url}/#/{address}")
        self.page.get_by_label("Your token").fill(client if isinstance(client, str) else client.token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()
        self.settle()
        return self

    def go(self, address: str) -> "Visit":
        self.page.evaluate("address => { location.hash = address }", f"#/{address}")
        self.settle()
        return self

    def settle(self) -> None:
        """Until the page and what it fetches for itself are shown."""
        expect(self.page.locator("#main")).not_to_have_attribute("aria-busy", "true")
        expect(self.page.locator("#main h1")).to_be_visible()
        expect(self.page.locator("#main [aria-busy=true]")).to_have_count(0)

    @property
    def heading(self) -> Locator:
        return self.page.locator("h1")

    def asked(self, prefix: str = "/v1/") -> list[str]:
        """The addresses that were asked for, without the service's own."""
        found = (request.url.removeprefix(self.url) for request in self.requests)
        return [address for address in found if address.startswith(prefix)]

    def noticed(self) -> list[str]:
        """Whatever must not happen on any page: errors, requests that leave, violations of the page's own policy."""
        return self.complaints + [f"against the policy: {found}" for found in self.page.evaluate("window.violations")]
