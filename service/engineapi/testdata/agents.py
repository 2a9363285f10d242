"""mini-swe-agent over wolffia docker, with a model that is deterministic, and llm-sandbox over the API. Argument: an image."""

import pathlib
import sys
import tempfile

import docker
import minisweagent
import yaml
from llm_sandbox import SandboxSession
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.docker import DockerEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

image = sys.argv[1]
environment = DockerEnvironment(image=image, cwd="/testbed", env={"K": "V"}, interpreter=["sh", "-c"])
result = environment.execute({"command": "pwd; echo $K; echo data >f; exit 3"})
assert (result["output"], result["returncode"]) == ("/testbed\nV\n", 3), result
model = DeterministicModel(outputs=[
    make_output("look", [{"command": "cat f"}]),
    make_output("end", [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat f"}]),
])
config = yaml.safe_load((pathlib.Path(minisweagent.__file__).parent / "config/default.yaml").read_text())["agent"]
end = DefaultAgent(model, environment, **config).run("Read f.")
assert end == {"exit_status": "Submitted", "submission": "data\n"}, end
environment.cleanup()

with tempfile.NamedTemporaryFile("w") as file:
    file.write("copied\n")
    file.flush()
    with SandboxSession(client=docker.from_env(), image=image, lang="python", skip_environment_setup=True, keep_template=True, workdir="/sandbox") as session:
        session.copy_to_runtime(file.name, "/sandbox/f")
        got = session.execute_command("cat /sandbox/f")
        assert (got.exit_code, got.stdout) == (0, "copied\n"), got
print("ended")
