"""Checks the files of deploy/ against the schemas of those who read them: `python -m tools.schemas FOLDER`.

FOLDER holds the schemas, which are not part of this repository (a few MB, each under its project's name):

- `swagger.json` of kubernetes/kubernetes, api/openapi-spec (or of kubernetes-client/python, scripts)
- `monitoring.coreos.com_servicemonitors.yaml` and `…_podmonitors.yaml` of
  prometheus-operator/prometheus-operator, example/prometheus-operator-crd
- `sparkoperator.k8s.io_sparkapplications.yaml` of kubeflow/spark-operator, config/crd/bases
- `jsonschema.json` of databricks/cli, bundle/schema

Kubernetes' objects are those that Helm makes of the chart (`make chart`), and are checked strictly: a field
that a schema does not know is an error. Prints a line for each object; exit code 1 where one is wrong or has
no schema.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = ("databricks.yml", "resources/job.yml")
# Python's patterns have no classes of Unicode.
CLASSES = {r"\\p{L}": "a-zA-Z", r"\\p{N}": "0-9"}
Tree = dict[str, Any]


def main(folder: Path) -> int:
    """Check everything; return the exit code."""
    known = {**core_kinds(folder / "swagger.json"), **custom_kinds(folder)}
    wrong = 0
    for where, tree in objects():
        schema = known.get((str(tree["apiVersion"]), str(tree["kind"])))
        wrong += report(
            f"{where} {tree['kind']}", ["no schema"] if schema is None else problems(schema, tree)
        )
    bundle = bundle_schema(folder / "jsonschema.json")
    for name in BUNDLE:
        tree = yaml.safe_load((ROOT / "deploy" / "databricks" / name).read_text(encoding="utf-8"))
        wrong += report(f"databricks {name}", problems(bundle, tree))
    return int(wrong > 0)


def objects() -> Iterator[tuple[str, Tree]]:
    """Yield (file, object) of the manifests."""
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml")):
        trees = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        yield from ((path.name, tree) for tree in trees)


def core_kinds(path: Path) -> dict[tuple[str, str], Tree]:
    """Return (apiVersion, kind) -> closed schema of Kubernetes' own kinds."""
    definitions = json.loads(path.read_text(encoding="utf-8"))["definitions"]
    for definition in definitions.values():
        close(definition)
    found = {}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            version = "/".join(filter(None, (kind["group"], kind["version"])))
            found[version, kind["kind"]] = {"$ref": f"#/definitions/{name}", "definitions": definitions}
    return found


def custom_kinds(folder: Path) -> dict[tuple[str, str], Tree]:
    """Return (apiVersion, kind) -> closed schema of the custom resources in `folder`."""
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        spec = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            close(schema)
            # A cluster knows what metadata holds; a custom resource's schema does not say it again.
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def close(schema: object) -> None:
    """Let a schema refuse fields that it does not name, at every depth."""
    if not isinstance(schema, dict):
        return
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not is_open:
        schema["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        schema.pop("type", None)
    for part in (
        *schema.get("properties", {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ):
        close(part)


def bundle_schema(path: Path) -> Tree:
    """Return the schema of an asset bundle, with patterns that Python reads."""
    text = path.read_text(encoding="utf-8")
    for theirs, ours in CLASSES.items():
        text = text.replace(theirs, ours)
    schema: Tree = json.loads(text)
    return schema


def problems(schema: Tree, tree: Tree) -> list[str]:
    """Return what is wrong with an object: where, and why."""
    errors = jsonschema.Draft7Validator(schema).iter_errors(tree)
    return [f"{'.'.join(map(str, error.path))}: {error.message[:200]}" for error in errors]


def report(what: str, found: list[str]) -> bool:
    """Print an object's line; return whether it is wrong."""
    print(f"{what}: {'; '.join(found) or 'valid'}")
    return bool(found)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.match(r"[^-]", sys.argv[1]):  # noqa: PLR2004 - the program and its argument
        sys.exit((__doc__ or "").partition("\n")[0])
    sys.exit(main(Path(sys.argv[1])))
