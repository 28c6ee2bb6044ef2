"""Writes a software bill of materials (CycloneDX 1.5, JSON) of what a build installs: `make sbom`.

The hash-pinned requirements are the source, so it says what is installed, not what would fit. The argument
is another requirements file than that of a production install. The same input gives the same bytes: no
time and no random serial number stand in it.
"""

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "demo.txt"
TARGET = ROOT / "build" / "sbom.json"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)([^\\]*)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
NAME = "rebalance-monitor"


def components(text: str) -> list[dict[str, object]]:
    """Return one component per pinned requirement, by name; raises ValueError for one without a hash."""
    found = []
    for entry in re.split(r"\n(?=\S)", text):
        match = PINNED.match(entry)
        if match is None:
            continue
        name, pinned, marker = re.sub(r"[-_.]+", "-", match[1]).lower(), match[2], match[3].strip("; ")
        hashes = [{"alg": "SHA-256", "content": digest} for digest in HASH.findall(entry)]
        if not hashes:
            raise ValueError(f"{name} is not pinned by a hash")
        purl = f"pkg:pypi/{name}@{pinned}"
        component: dict[str, object] = {"type": "library", "bom-ref": purl, "name": name, "version": pinned}
        component |= {"purl": purl, "hashes": hashes}
        if marker:
            component["properties"] = [{"name": "python:marker", "value": marker}]
        found.append(component)
    return sorted(found, key=lambda component: str(component["bom-ref"]))


def document(text: str) -> dict[str, object]:
    """Return the bill of materials of one requirements file's text."""
    parts = components(text)
    own = f"pkg:pypi/{NAME}@{version(NAME)}"
    product = {"type": "application", "bom-ref": own, "name": NAME, "version": version(NAME), "purl": own}
    product_licence = {"licenses": [{"license": {"id": "Apache-2.0"}}]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**product, **product_licence}},
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def main(arguments: list[str]) -> int:
    """Write the document; the first argument is another requirements file."""
    source = Path(arguments[0]) if arguments else REQUIREMENTS
    found = document(source.read_text(encoding="utf-8"))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {len(found['components'])} components")  # type: ignore[arg-type] # a list
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
