"""The bill of materials says exactly what the pinned requirements install."""

import re
from pathlib import Path

import pytest

from tools import sbom

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["embedded.txt", "demo.txt", "test.txt"])
def test_every_pinned_requirement_is_a_component_with_its_hashes(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    found = sbom.components(text)
    assert len(found) == len(re.findall(r"^\S+==", text, re.MULTILINE))
    assert sum(len(part["hashes"]) for part in found) == text.count("--hash=sha256:")  # type: ignore[arg-type]
    names = {part["name"] for part in found}
    assert {"pyarrow", "kafka-python"} <= names
    assert ("pyspark" in names) is (name != "embedded.txt")


def test_a_requirement_without_a_hash_is_refused() -> None:
    with pytest.raises(ValueError, match="left-pad is not pinned"):
        sbom.components("left-pad==1.0\n")


def test_the_document_refers_to_each_component_once() -> None:
    found = sbom.document(
        "a==1 \\\n    --hash=sha256:"
        + "0" * 64
        + "\nb==2 ; os_name == 'nt' \\\n    --hash=sha256:"
        + "1" * 64
    )
    refs = [part["bom-ref"] for part in found["components"]]  # type: ignore[attr-defined]
    assert refs == ["pkg:pypi/a@1", "pkg:pypi/b@2"]
    assert found["dependencies"][0]["dependsOn"] == refs  # type: ignore[index]
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
