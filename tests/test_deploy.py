"""The files in `deploy/`: the container is built and run without docker, and the unit is verified without systemd."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from unspool.cli import parsers

from .loopback import told
from .server.processes import Process

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
RECORDING = Path("examples/recordings/weather.jsonl")
"""The model of these tests: the image has none."""
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.M)


COMMAND: list[str] = json.loads(instructions("ENTRYPOINT")[-1]) + json.loads(instructions("CMD")[-1])
CHECK: list[str] = json.loads(DOCKERFILE.split("HEALTHCHECK", 1)[1].split("CMD ", 1)[1].splitlines()[0])


def test_the_container_copies_what_exists_and_runs_without_rights() -> None:
    copied = [line.split()[:-1] for line in instructions("COPY") if not line.startswith("--from")]
    assert [path for paths in copied for path in paths if not (ROOT / path).exists()] == []
    assert int(instructions("USER")[-1]) > 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = re.findall(r"\.\[(\w+)\]", DOCKERFILE)
    assert set(extras) <= project["project"]["optional-dependencies"].keys()
    assert {"README.md", "LICENSE", "pyproject.toml", "src"} <= {path for paths in copied for path in paths}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of the build stage, made from only the files that it copies."""
    source, made = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("opt") / "unspool"
    build = DOCKERFILE.split("\nFROM ")[1]
    for paths, to in re.findall(r"^COPY (.*) (\S+)$", build, re.M):
        for path in paths.split():
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, source / to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / path, source / to)
    (run,) = re.findall(r"^RUN python (.*)$", build, re.M)
    line = f"{shlex.quote(sys.executable)} {run.replace('/opt/unspool', shlex.quote(str(made)))}"
    subprocess.run(["sh", "-c", line], cwd=source, check=True)
    return made


@pytest.mark.processes
def test_the_containers_command_serves_and_its_health_check_sees_it(built: Path, tmp_path: Path) -> None:
    source = next(line.split()[0] for line in instructions("COPY") if line.endswith("/etc/unspool/unspool.toml"))
    line = [word.replace("/etc/unspool/unspool.toml", str(ROOT / source)) for word in COMMAND]
    assert CHECK[0] == "python"
    assert line[0] == "unspool"
    line[0] = str(built / "bin" / line[0])
    line += ["--engine", f"replay:{ROOT / RECORDING}"]
    with Process(command=line, cwd=tmp_path) as server:
        check = [str(built / "bin" / "python"), *(word.replace("8192", str(server.port)) for word in CHECK[1:])]
        assert subprocess.run(check, capture_output=True).returncode == 0
    assert any(line["logger"] == "unspool.access" and line["path"] == "/health" for line in server.logged())
    assert subprocess.run(check, capture_output=True).returncode != 0


@pytest.fixture
def image(tmp_path: Path) -> Iterator[list[str]]:
    """A command that runs in a container of the image.

    The image is built on a Debian with its Python that is made here, because the base in the file is at a registry.
    """
    base, certificates, pip = tmp_path / "base", "/etc/ssl/certs", tmp_path / "pip.conf"
    pip.write_text(f"[global]\ncert = {certificates}/ca-certificates.crt\n", encoding="utf-8")
    buildah = ["buildah", "--root", f"{tmp_path}/root", "--runroot", f"{tmp_path}/run", "--storage-driver", "vfs"]

    def ran(*line: str) -> str:
        return subprocess.run(line, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    ran("debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "trixie", str(base))
    (base / "usr/bin/python").symlink_to("python3")
    container = ran(*buildah, "from", "scratch")
    ran(*buildah, "add", container, f"{base}/")
    (name,) = {re.split(" as ", named, flags=re.I)[0] for named in instructions("FROM")}
    ran(*buildah, "commit", container, f"docker.io/library/{name}")
    mounts = ["--volume", f"{pip}:/etc/pip.conf:ro", "--volume", f"{certificates}:{certificates}:ro"]
    made = [*buildah, "bud", "--isolation", "chroot", "--pull-never", "--format", "docker", *mounts]
    ran(*made, "--file", str(DEPLOY / "Dockerfile"), "--tag", "unspool", ".")
    recordings = ["--volume", f"{(ROOT / RECORDING).parent}:/recordings:ro"]
    container = ran(*buildah, "from", "--pull-never", "localhost/unspool")
    yield [*buildah, "run", "--isolation", "chroot", *recordings, container, "--"]
    shutil.rmtree(tmp_path)  # a gigabyte


@pytest.mark.image
def test_the_image_is_built_and_serves_as_a_user_without_rights(image: list[str]) -> None:
    words = [*COMMAND, "--engine", f"replay:/recordings/{RECORDING.name}"]
    with Process(command=[*image, *words]) as server:
        check = [word.replace("8192", str(server.port)) for word in CHECK]
        assert subprocess.run([*image, *check]).returncode == 0
        wrote = subprocess.run([*image, "sh", "-c", "id -u; touch /etc/x"], capture_output=True, text=True)
        assert (wrote.stdout, wrote.returncode) == (instructions("USER")[-1] + "\n", 1)
        asked = {"messages": [{"role": "user", "content": "Hello!"}]}
        answer = told(f"http://127.0.0.1:{server.port}/v1/chat/completions", asked)
        assert answer["choices"][0]["message"]["content"].startswith("Hello!")
    assert subprocess.run([*image, *check], stderr=subprocess.DEVNULL).returncode != 0


def test_the_unit_starts_a_command_that_there_is_and_waits_longer_than_the_server_drains() -> None:
    unit = (DEPLOY / "unspool.service").read_text(encoding="utf-8")
    words = shlex.split(re.findall(r"^ExecStart=(.*)$", unit, re.M)[0])
    assert words[1:] == json.loads(instructions("ENTRYPOINT")[-1])[1:]
    config = tomllib.loads((DEPLOY / "unspool.toml").read_text(encoding="utf-8"))
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.M)[0]) > config["limits"]["drain"] + 5


def composed(*files: str) -> dict[str, Any]:
    """The services of compose files, of which later ones override fields of earlier ones."""
    found: dict[str, Any] = {}
    for file in files:
        for name, service in yaml.safe_load((DEPLOY / file).read_text(encoding="utf-8"))["services"].items():
            found[name] = {**found.get(name, {}), **service}
    return found


OF_COMPOSE = pytest.mark.parametrize(
    "files", [["compose.yaml"], ["compose.yaml", "compose.vllm.yaml"]], ids=["llama.cpp", "vLLM"]
)


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
@OF_COMPOSE
def test_docker_compose_reads_the_files_as_these_tests_do(files: list[str]) -> None:
    named = [word for file in files for word in ("-f", str(DEPLOY / file))]
    ran = subprocess.run(["docker-compose", *named, "config"], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = yaml.safe_load(ran.stdout)["services"]
    for name, service in composed(*files).items():
        for field in ("image", "depends_on", "restart", "stop_grace_period"):
            assert found[name].get(field) == service.get(field)
    assert found["unspool"]["command"] == composed(*files)["unspool"]["command"]
    assert found["unspool"]["build"]["context"] == str(DEPLOY.parent)
    assert "$" not in ran.stdout


@OF_COMPOSE
def test_the_containers_of_compose_find_each_other(files: list[str]) -> None:
    services = composed(*files)
    unspool, engine = services["unspool"], services["engine"]
    assert (DEPLOY / unspool["build"]["context"] / unspool["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    words = json.loads(instructions("ENTRYPOINT")[-1])[1:] + unspool["command"]
    options = parsers()[0].parse_args(words)
    (url,) = options.engine
    at = dict(pairwise(engine["command"]))
    assert "--model" in at or engine["command"][0].startswith("${MODEL:-"), "`vllm serve` takes the model in front"
    assert (urlsplit(url).hostname, str(urlsplit(url).port)) == ("engine", at["--port"])
    assert (options.host, at["--host"]) == ("0.0.0.0", "0.0.0.0"), "others reach them"
    assert f"http://127.0.0.1:{at['--port']}/health" in engine["healthcheck"]["test"]
    assert unspool["ports"] == [f"127.0.0.1:{options.port}:{instructions('EXPOSE')[-1]}"], "not from other machines"
    assert "ports" not in engine
    assert unspool["depends_on"] == {"engine": {"condition": "service_healthy"}}
    config = tomllib.loads((DEPLOY / "unspool.toml").read_text(encoding="utf-8"))
    assert int(unspool["stop_grace_period"].removesuffix("s")) > config["limits"]["drain"] + 5
    assert "unspool" in options.allowed_host


@pytest.mark.processes
def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    ran = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "unspool.service").read_text(encoding="utf-8")
    (tmp_path / "unspool.service").write_text(unit.replace("/opt/unspool/bin/unspool", shutil.which("true") or ""))
    line = ["systemd-analyze", "verify", "--recursive-errors=no", str(tmp_path / "unspool.service")]
    ran = subprocess.run(line, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
