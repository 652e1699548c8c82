"""What the image is made of, as a CycloneDX document: the Python packages and what they brought along, Python, and
Debian's packages.

    python -I docker/sbom.py > sbom.cdx.json

Run by the Python whose packages are meant. It needs the standard library only and writes the same bytes for the same
image: no time of day, and a serial number made of the content.
"""

import importlib.metadata
import json
import platform
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

Component = dict[str, Any]

_PRODUCT: Final = "discretion"
_DPKG: Final = Path("/var/lib/dpkg/status")
_RELEASE: Final = Path("/etc/os-release")


def document() -> dict[str, Any]:
    parts = sorted([*python_packages(), interpreter(), *debian_packages(_DPKG, release())], key=lambda it: it["purl"])
    product = next((part for part in parts if part["name"] == _PRODUCT), None)
    made: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
    }
    if product is not None:
        made["metadata"] = {"component": product | {"type": "application"}}
    made["components"] = [part for part in parts if part is not product]
    return made | {"serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))}"}


def python_packages() -> Iterator[Component]:
    for found in importlib.metadata.distributions():
        name, version = found.metadata["Name"], found.version
        made = part(name, version, f"pkg:pypi/{normal(name)}@{quote(version)}") | licence(found)
        if inner := list(brought_along(found)):
            made["components"] = inner
        yield made


def part(name: str, version: str, purl: str, kind: str = "library") -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def licence(found: importlib.metadata.Distribution) -> Component:
    """An SPDX expression if the package gives one, else the name it gives in its classifiers."""
    if "License-Expression" in found.metadata:
        return {"licenses": [{"expression": found.metadata["License-Expression"]}]}
    named = [
        line.rpartition(" :: ")[2] for line in found.metadata.get_all("Classifier", []) if line.startswith("License ::")
    ]
    return {"licenses": [{"license": {"name": name}} for name in named]} if named else {}


def brought_along(found: importlib.metadata.Distribution) -> Iterator[Component]:
    """What a wheel says it was built from, such as crates and shared libraries (PEP 770)."""
    told: list[Component] = []
    for file in found.files or ():
        if ".dist-info/sboms/" in file.as_posix() and file.suffix == ".json":
            inside = json.loads(Path(str(file.locate())).read_text(encoding="utf-8"))
            for each in inside.get("components", []):
                made = {name: each[name] for name in ("type", "name", "version", "purl") if name in each}
                if made not in told:
                    told.append(made)
                    yield made


def interpreter() -> Component:
    version = platform.python_version()
    return part("python", version, f"pkg:generic/python@{version}", "platform")


def release() -> str:
    lines = dict(line.split("=", 1) for line in _RELEASE.read_text(encoding="utf-8").splitlines() if "=" in line)
    return lines.get("VERSION_CODENAME", "unknown").strip('"')


def debian_packages(status: Path, codename: str) -> Iterator[Component]:
    paragraphs = status.read_text(encoding="utf-8").split("\n\n") if status.exists() else []
    for paragraph in paragraphs:
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            where = f"arch={fields['Architecture']}&distro={codename}"
            yield part(name, version, f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?{where}")


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
