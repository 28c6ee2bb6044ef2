"""What is generated of the Helm chart: the schema of its values, and manifests for clusters without Helm.

`make docs` writes `values.schema.json`: the part `config` is the monitor's own configuration, by its model,
so `helm install` refuses an unknown key. `make chart` (needs helm) writes `deploy/kubernetes/`: what `helm
template` makes of each file in `examples/`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from rebalance_monitor.config.model import Settings

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "rebalance-monitor"
MANIFESTS = ROOT / "deploy" / "kubernetes"
RELEASE = "rebalance-monitor"
# Helm's own default is that of its build; the newest of docs/howto/kubernetes.md's table.
KUBERNETES = "1.33.0"
Tree = dict[str, Any]

TEXT, FLAG, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 1}
ANYTHING, LIST = {"type": "object"}, {"type": "array"}


def closed(properties: Tree) -> Tree:
    """Return the schema of an object that has these fields and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def values_schema() -> str:
    """Return values.schema.json."""
    configuration = Settings.model_json_schema(ref_template="#/definitions/{model}")
    definitions = {name: loosened(part) for name, part in configuration.pop("$defs").items()}
    # The chart's own `engine` decides, and the image with it.
    del configuration["properties"]["engine"]
    kafka = definitions["Kafka"]
    kafka["required"] = ["bootstrap_servers"]
    kafka["properties"]["bootstrap_servers"] |= {"type": "string", "minLength": 1}
    pods = {"cores": COUNT, "memory": TEXT, "memoryOverhead": TEXT}
    image = {"repository": {**TEXT, "minLength": 1}, "tag": TEXT, "pullPolicy": TEXT}
    persistence = {"enabled": FLAG, "size": TEXT, "storageClass": TEXT, "existingClaim": TEXT}
    roles = {"driver": closed(pods), "executor": closed({"instances": COUNT, **pods})}
    values = closed(
        {
            "engine": {"enum": ["embedded", "spark", "spark-operator"]},
            "image": closed(image),
            "imagePullSecrets": LIST,
            "config": {**loosened(configuration), "required": ["kafka"]},
            "secret": TEXT,
            "executorSecretKeys": {**LIST, "items": TEXT},
            "persistence": closed(persistence),
            "resources": ANYTHING,
            "sparkOperator": closed({"sparkVersion": TEXT, **roles}),
            "monitor": closed({"enabled": FLAG, "interval": TEXT}),
            "networkPolicy": closed({"enabled": FLAG, "egress": LIST}),
            "podAnnotations": ANYTHING,
            "nodeSelector": ANYTHING,
            "tolerations": LIST,
            "affinity": ANYTHING,
            "env": LIST,
            # What Helm itself hands to every chart.
            "global": ANYTHING,
        }
    )
    draft = "http://json-schema.org/draft-07/schema#"
    return json.dumps({"$schema": draft, **values, "definitions": definitions}, indent=1) + "\n"


def loosened(schema: Tree) -> Tree:
    """Return a schema that knows keys, choices and bounds, and leaves the reading of scalars to the monitor.

    YAML reads `2026-11-25` or `500` as no text; the monitor takes it for one.
    """
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: loosened_part(name, part) for name, part in schema.items() if name not in {"title", "default"}
    }
    if kept.get("type") in ("string", "integer", "number"):
        for name in ("type", "pattern", "format", "writeOnly"):
            kept.pop(name, None)
    if {} in kept.get("anyOf", ()):
        del kept["anyOf"]
    return kept


def loosened_part(name: str, part: Any) -> Any:  # noqa: ANN401 - a JSON value
    """Return one keyword's value, loosened where it holds schemas."""
    if name == "properties":
        return {key: loosened(each) for key, each in part.items()}
    if isinstance(part, list):
        return [loosened(each) for each in part]
    return loosened(part)


def manifests(helm: str) -> dict[Path, str]:
    """Return file of deploy/kubernetes -> what Helm makes of the example of this name."""
    found = {}
    for example in sorted(CHART.glob("examples/*.yaml")):
        command = [helm, "template", RELEASE, str(CHART), "--kube-version", KUBERNETES]
        command += ["--namespace", RELEASE, "--values", str(example)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        head = f"# Written by `make chart` from the chart's examples/{example.name}.\n"
        found[MANIFESTS / example.name] = head + done.stdout
    return found


def main() -> int:
    """Write the manifests; exit code 3 without Helm."""
    helm = shutil.which("helm")
    if helm is None:
        print("helm is not on the PATH", file=sys.stderr)
        return 3
    for path, text in manifests(helm).items():
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
