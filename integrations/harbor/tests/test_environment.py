"""An environment by its interface, and a whole trial by Harbor's own command line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
from harbor.models.trial.paths import TrialPaths

from wolffia_harbor import LABEL, WolffiaEnvironment

ALLOWED = NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["one.example"])
NONE = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)


DOCKERFILE = """FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
"""


def made(dir: Path, **about: object) -> WolffiaEnvironment:
    task(dir / "task")
    return WolffiaEnvironment(
        environment_dir=dir / "task" / "environment", environment_name="test", session_id="test__1__env",
        trial_paths=TrialPaths(trial_dir=dir / "trial"), task_env_config=EnvironmentConfig(),
        program=os.environ["HARBOR_WOLFFIA"], **about)


def task(dir: Path) -> None:
    files = {
        "task.toml": 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write hello to /app/answer.\n",
        "environment/Dockerfile": DOCKERFILE,
        "solution/solve.sh": "#!/bin/sh\nmkdir -p /app && echo hello >/app/answer\n",
        "tests/test.sh": "#!/bin/sh\ngrep -q hello /app/answer && echo 1 >/logs/verifier/reward.txt\n",
    }
    for name, text in files.items():
        (dir / name).parent.mkdir(parents=True, exist_ok=True)
        (dir / name).write_text(text)
        (dir / name).chmod(0o755)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, dir / "environment" / "busybox")


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[WolffiaEnvironment]:
    env = made(tmp_path, persistent_env={"A": "1"}, network_policy=NONE)
    await env.start(False)
    yield env
    await env.stop(True)


async def test_exec(env: WolffiaEnvironment) -> None:
    r = await env.exec("echo $A $B $(pwd); echo error >&2; exit 3", cwd="/tmp", env={"B": "2"})
    assert (r.stdout, r.stderr, r.return_code) == ("1 2 /tmp\n", "error\n", 3)
    assert (await env.exec("[[ -w /logs/agent ]]", user="root")).return_code == 0
    assert await env.is_dir("/logs/verifier") and not await env.is_file("/logs/verifier")
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        await env.exec("sleep 100", timeout_sec=1)


async def test_files(env: WolffiaEnvironment, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "link").symlink_to("run.sh")
    await env.upload_dir(tree, "/tests/deep")
    assert (await env.exec("/tests/deep/link && ls -A /tests/deep/empty")).stdout == "ran\n"
    await env.exec("mkfifo /tests/deep/pipe; ln -s /etc/passwd /tests/deep/empty/out", user="root")
    with pytest.raises(Exception, match="link to an absolute path"):
        await env.download_dir("/tests/deep", tmp_path / "hostile")
    await env.exec("rm /tests/deep/empty/out", user="root")
    await env.download_dir("/tests/deep", tmp_path / "back")
    assert sorted(p.name for p in (tmp_path / "back").iterdir()) == ["empty", "link", "run.sh"]
    assert os.access(tmp_path / "back" / "run.sh", os.X_OK)
    (tmp_path / "one").write_bytes(os.urandom(1 << 20))
    await env.upload_file(tmp_path / "one", "/solution/dir/two")
    await env.download_file("/solution/dir/two", tmp_path / "three")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "three").read_bytes()


async def test_network(env: WolffiaEnvironment, tmp_path: Path) -> None:
    """Each phase has its own names. A sandbox's DNS knows those that it may reach."""
    named = "nslookup -type=a one.example"
    assert "NXDOMAIN" in (await env.exec(named)).stdout
    await env.set_network_policy(ALLOWED)
    assert "NXDOMAIN" not in (await env.exec(named)).stdout
    await env.set_network_policy(NONE)
    assert "NXDOMAIN" in (await env.exec(named)).stdout
    with pytest.raises(ValueError, match="IPv4"):
        await env.set_network_policy(NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=["192.0.2.1"]))
    with pytest.raises(ValueError, match="public in one phase"):
        made(tmp_path, phase_network_policies=[NONE])


async def test_stop(tmp_path: Path) -> None:
    env = made(tmp_path)
    await env.start(False)
    assert env._client is not None
    listed = [i.sandbox_id for i in await env._client.list() if i.metadata.get(LABEL) == "test__1__env"]
    assert listed == [env.box.id]
    await env.stop(True)
    await env.stop(True)
    with pytest.raises(RuntimeError, match="not been started"):
        env.box


def test_trial(tmp_path: Path) -> None:
    """Harbor's agent oracle solves a task on its Dockerfile, and its verifier says so."""
    task(tmp_path / "task")
    r = subprocess.run(
        [sys.executable, "-m", "harbor.cli.main", "trial", "start", "-p", str(tmp_path / "task"), "--agent", "oracle",
         "--env", "wolffia_harbor:WolffiaEnvironment", "--environment-kwarg", "program=" + os.environ["HARBOR_WOLFFIA"],
         "--trials-dir", str(tmp_path / "trials")],
        capture_output=True, text=True, timeout=300)
    results = list((tmp_path / "trials").glob("*/result.json"))
    assert results, r.stdout + r.stderr
    result = json.loads(results[0].read_text())
    assert result["exception_info"] is None, result["exception_info"]
    assert result["verifier_result"]["rewards"] == {"reward": 1.0}
