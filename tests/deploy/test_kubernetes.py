"""The chart's manifests without a cluster: they fit each other and the code; pods may do only their work.

`deploy/kubernetes` holds what Helm makes of the chart (tests/deploy/test_chart.py holds one to the other).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rebalance_monitor.cli.main import run
from rebalance_monitor.config.load import load
from rebalance_monitor.dashboard.web.http.access import OPEN_PATHS
from tests.cluster.support.secured import Certificates

if TYPE_CHECKING:
    from rebalance_monitor.config.model import Settings

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
PLAIN = ("embedded", "spark")
PARTS = (*PLAIN, "spark-operator")
SECRETS = "/run/secrets/rebalance-monitor"


def objects(part: str) -> dict[str, dict[str, Any]]:
    """Kind -> object of one engine's manifests; of two objects of a kind the last."""
    text = (KUBERNETES / f"{part}.yaml").read_text(encoding="utf-8")
    return {tree["kind"]: tree for tree in yaml.safe_load_all(text)}


def configuration(part: str) -> str:
    found: str = objects(part)["ConfigMap"]["data"]["monitor.yaml"]
    return found


def settings_of(part: str, folder: Path) -> Settings:
    """The monitor's configuration in the manifests, with the secrets of docs/howto/kubernetes.md."""
    (secrets := folder / "secrets").mkdir()
    for name in ("jaas", "token"):
        (secrets / name).write_text('ScramLoginModule required username="u" password="p";')
    (secrets / "ca.pem").write_bytes(Certificates(folder / "made").authority.read_bytes())
    (config := folder / "monitor.yaml").write_text(configuration(part).replace(SECRETS, str(secrets)))
    return load(config)


@pytest.mark.parametrize("part", PARTS)
def test_the_monitors_own_configuration_is_valid_there(part: str, tmp_path: Path) -> None:
    settings = settings_of(part, tmp_path)
    # Below the volume that is mounted, so that the monitor makes it with a mode of its own.
    assert Path(str(settings.storage.path)).parent == Path("/data")
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - the pod's address, behind a token
    image = "".join(re.findall(r"image: (\S+)", (KUBERNETES / f"{part}.yaml").read_text()))
    assert (settings.engine, image.endswith("-spark")) in {("embedded", False), ("spark", True)}


@pytest.mark.parametrize("part", PLAIN)
def test_the_plain_monitor_is_one_pod_that_may_do_nothing_but_its_work(part: str) -> None:
    found = objects(part)
    spec = found["StatefulSet"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 1
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    for kind in ("StatefulSet", "PodDisruptionBudget", "ServiceMonitor"):
        assert found[kind]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert {probe for probe in container if probe.endswith("Probe")} == {
        "startupProbe",
        "livenessProbe",
        "readinessProbe",
    }
    names = {volume["name"] for volume in pod["volumes"]} | {"data"}
    assert {mount["name"] for mount in container["volumeMounts"]} == names


@pytest.mark.parametrize("part", PLAIN)
def test_probes_and_scrapes_of_the_plain_monitor_reach_the_page(part: str, tmp_path: Path) -> None:
    found, settings = objects(part), settings_of(part, tmp_path)
    ((container,),) = [found["StatefulSet"]["spec"]["template"]["spec"]["containers"]]
    (port,) = container["ports"]
    assert port["containerPort"] == settings.web.port
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        # Probes send no token, and name the pod's address.
        assert asked["path"] in OPEN_PATHS
        assert asked["port"] == port["name"]
    ((service,),) = [found["Service"]["spec"]["ports"]]
    assert service["targetPort"] == port["name"]
    ((scraped,),) = [found["ServiceMonitor"]["spec"]["endpoints"]]
    assert scraped["port"] == service["name"]
    assert found["NetworkPolicy"]["spec"]["ingress"] == [{"ports": [{"port": port["name"]}]}]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/data", SECRETS, "/etc/rebalance-monitor", "/tmp"} == mounts  # noqa: S108 - a path in the pod


def service_links(service: dict[str, Any]) -> dict[str, str]:
    """What Kubernetes sets in the pods of a Service's namespace, as for links of Docker."""
    name = service["metadata"]["name"].upper().replace("-", "_")
    found = {f"{name}_SERVICE_HOST": "10.0.0.9"}
    for port in service["spec"]["ports"]:
        number, address = str(port["port"]), f"tcp://10.0.0.9:{port['port']}"
        link = f"{name}_PORT_{number}_TCP"
        found |= {f"{name}_SERVICE_PORT": number, f"{name}_SERVICE_PORT_{port['name'].upper()}": number}
        found |= {f"{name}_PORT": address, link: address, f"{link}_PROTO": "tcp", f"{link}_PORT": number}
        found[f"{link}_ADDR"] = "10.0.0.9"
    return found


@pytest.mark.parametrize("part", PARTS)
def test_what_kubernetes_says_of_the_monitors_own_service_is_no_setting(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_of(part, tmp_path)
    for name, value in service_links(objects("spark")["Service"]).items():
        assert name.startswith("REBALANCE_MONITOR_")
        monkeypatch.setenv(name, value)
    assert run(["config", "check", "--config", str(tmp_path / "monitor.yaml")]) == 0


def test_a_pod_that_waits_for_the_offsets_topic_is_given_an_hour() -> None:
    ((container,),) = [objects("spark")["StatefulSet"]["spec"]["template"]["spec"]["containers"]]
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 3_600


def test_the_spark_application_mounts_what_it_reads() -> None:
    spec = objects("spark-operator")["SparkApplication"]["spec"]
    assert spec["sparkConf"]["spark.sql.streaming.kafka.useDeprecatedOffsetFetching"] == "true"
    volumes = {volume["name"] for volume in spec["volumes"]}
    for role in ("driver", "executor"):
        assert {mount["name"] for mount in spec[role]["volumeMounts"]} <= volumes


def test_executors_get_the_certificate_that_their_clients_ask_for_and_no_other_secret() -> None:
    spec = objects("spark-operator")["SparkApplication"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounted = {mount["name"]: mount["mountPath"] for mount in spec["executor"]["volumeMounts"]}
    secrets = {name: volumes[name]["secret"] for name in mounted if "secret" in volumes[name]}
    assert {name: [item["key"] for item in one["items"]] for name, one in secrets.items()} == {
        "certificates": ["ca.pem"]
    }
    kafka = yaml.safe_load(configuration("spark-operator"))["kafka"]
    assert kafka["ssl.truststore.location"] == mounted["certificates"] + "/ca.pem"


def test_the_spark_applications_pods_may_do_no_more_than_the_plain_driver() -> None:
    plain = objects("spark")["StatefulSet"]["spec"]["template"]["spec"]
    ((container,),) = [plain["containers"]]
    spec = objects("spark-operator")["SparkApplication"]["spec"]
    # A volume that does not belong to this group is nobody's but root's.
    assert plain["securityContext"]["fsGroup"] == plain["securityContext"]["runAsUser"]
    for role in ("driver", "executor"):
        assert spec[role]["podSecurityContext"] == plain["securityContext"]
        assert spec[role]["securityContext"] == container["securityContext"]
        writable = {m["mountPath"] for m in spec[role]["volumeMounts"] if not m.get("readOnly")}
        assert writable == {"/data", "/tmp"}  # noqa: S108 - paths in the pod
    text = (KUBERNETES / "spark-operator.yaml").read_text()
    accounts = [tree for tree in yaml.safe_load_all(text) if tree["kind"] == "ServiceAccount"]
    assert [account["metadata"]["name"] for account in accounts] == [
        spec[role]["serviceAccount"] for role in ("driver", "executor")
    ]
    # Only the driver asks Kubernetes for anything.
    assert [account.get("automountServiceAccountToken", True) for account in accounts] == [True, False]


def test_the_spark_application_runs_the_images_spark_and_is_scraped(tmp_path: Path) -> None:
    found, settings = objects("spark-operator"), settings_of("spark-operator", tmp_path)
    spec = found["SparkApplication"]["spec"]
    pinned = re.search(r"^pyspark==(\S+)", (ROOT / "requirements" / "demo.txt").read_text(), re.MULTILINE)
    assert pinned
    assert spec["sparkVersion"] == pinned[1]
    (port,) = spec["driver"]["ports"]
    assert port["containerPort"] == settings.web.port
    monitor = found["PodMonitor"]["spec"]
    assert [endpoint["port"] for endpoint in monitor["podMetricsEndpoints"]] == [port["name"]]
    # The rules name the scrape job.
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert {"targetLabel": "job", "replacement": "rebalance-monitor"} in endpoint["relabelings"]
    name = found["SparkApplication"]["metadata"]["name"]
    assert monitor["selector"]["matchLabels"]["sparkoperator.k8s.io/app-name"] == name
    main = spec["mainApplicationFile"].removeprefix("local://")
    assert Path(main).name in found["ConfigMap"]["data"]
    assert str(Path(main).parent) in {mount["mountPath"] for mount in spec["driver"]["volumeMounts"]}
    assert spec["driver"]["serviceAccount"] in {who["name"] for who in found["RoleBinding"]["subjects"]}


def test_the_spark_applications_driver_is_probed_as_the_plain_one_and_its_executors_go_one_by_one() -> None:
    found = objects("spark-operator")
    ((plain,),) = [objects("spark")["StatefulSet"]["spec"]["template"]["spec"]["containers"]]
    spec = found["SparkApplication"]["spec"]
    ((probed,),) = [spec["driver"]["template"]["spec"]["containers"]]
    (port,) = spec["driver"]["ports"]
    # The operator hands the template to Spark under this name of a container.
    assert probed.pop("name") == "spark-kubernetes-driver"
    by_number = {
        name: {**plain[name], "httpGet": {**plain[name]["httpGet"], "port": port["containerPort"]}}
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert probed == by_number
    budget = found["PodDisruptionBudget"]["spec"]
    assert 0 < budget["minAvailable"] < spec["executor"]["instances"]
    name = found["SparkApplication"]["metadata"]["name"]
    labels = {"spark-role": "executor", "sparkoperator.k8s.io/app-name": name}
    assert budget["selector"]["matchLabels"] == labels
