"""Compose file and manifests of a fleet: valid, of commands and settings that there are, without privileges."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from daemon.cli import COMMANDS
from daemon.cli.fleet import ACTS
from daemon.config.settings import load
from daemon.fleet.serving import public_address
from tests.support.running import ROOT

FLEET = ROOT / "deploy" / "fleet"
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((FLEET / "kubernetes.yaml").read_text()))
COMPOSE: dict[str, Any] = yaml.safe_load((FLEET / "compose.yaml").read_text())
OURS = {name: one for name, one in COMPOSE["services"].items() if one["image"] == "dreamd-fleet"}


def pods() -> list[dict[str, Any]]:
    return [one["spec"]["template"]["spec"] for one in MANIFESTS if one["kind"] in ("Deployment", "Job")]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in MANIFESTS if one["kind"] == kind]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_kubernetes_takes_each_manifest(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_every_command_and_every_setting_is_one_that_there_is(tmp_path: Path) -> None:
    containers = [container for pod in pods() for container in pod["containers"]]
    assert {" ".join(one["args"]) for one in containers} == {"migrate", "fleet serve"}
    assert {one["command"] for one in OURS.values()} == {"migrate", "fleet serve"}
    assert {"migrate", "fleet"} <= set(COMMANDS)
    assert "serve" in ACTS
    [secret] = of_kind("Secret")
    for container in containers:
        own = {one["name"]: one.get("value", "1.2.3.4") for one in container.get("env", [])}
        config = load(None, {**secret["stringData"], **own, "HOME": str(tmp_path)})
        assert config.fleet.database.startswith("postgresql://")
    for one in OURS.values():
        own = {name: str(value) for name, value in one["environment"].items() if name.startswith("DREAMD_FLEET")}
        config = load(None, {**own, "HOME": str(tmp_path)})
        assert one["volumes"] == [f"objects:{config.fleet.objects}"]
        assert f" {config.fleet.objects}\n" in (ROOT / "deploy" / "Dockerfile").read_text()  # its user's own


def test_ports_that_are_probed_are_those_that_are_listened_at(tmp_path: Path) -> None:
    for manifest in of_kind("Deployment"):
        [container] = manifest["spec"]["template"]["spec"]["containers"]
        own = {one["name"]: one.get("value", "1.2.3.4") for one in container["env"]}
        fleet = load(None, {**own, "HOME": str(tmp_path)}).fleet
        assert [one["containerPort"] for one in container["ports"]] == [fleet.port]
        assert container["readinessProbe"]["httpGet"]["port"] == "http"


def test_nothing_runs_with_more_rights_than_it_needs() -> None:
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
    for one in OURS.values():
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))


def test_a_process_that_listens_everywhere_is_asked_by_its_machines_name() -> None:
    assert public_address("http://0.0.0.0:7351", "worker-1") == "http://worker-1:7351"
    assert public_address("http://[::]:7351", "worker-1") == "http://worker-1:7351"
    assert public_address("http://10.0.0.7:7351", "worker-1") == "http://10.0.0.7:7351"
