"""Builds a template by E2B's SDK for Python, and uses it: build.py HOST:PORT KEY OTHER-KEY. An error ends it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

address, key, other = sys.argv[1:4]
os.environ["E2B_API_URL"] = os.environ["E2B_SANDBOX_URL"] = "http://" + address
os.environ["E2B_API_KEY"] = key

import httpx  # noqa: E402
from e2b import BuildException, Sandbox, SandboxException, Template  # noqa: E402

context = tempfile.mkdtemp()
os.makedirs(context + "/data/sub")
for name, text in {"one.txt": "one $HOME\n", "data/a": "a\n", "data/sub/b": "b\n"}.items():
    with open(f"{context}/{name}", "w") as f:
        f.write(text)
for file in ["/bin/bash", *re.findall(r"(/\S+) \(", subprocess.check_output(["ldd", "/bin/bash"], text=True))]:
    os.makedirs(f"{context}/root{os.path.dirname(file)}", exist_ok=True)
    shutil.copy(file, f"{context}/root{file}")


def template():
    return Template(file_context_path=context).from_image("busybox:1").copy("root", "/")


def build_fails(text, built, name="broken"):
    try:
        Template.build(built, name)
    except BuildException as e:
        assert text in str(e), e
        return
    raise AssertionError("it was built")


lines = []
workdir = """/srv/it's "my" $app"""
built = (
    template()
    .set_envs({"GREETING": 'hello "$you"', "B": "2"})
    .set_workdir(workdir)
    .copy("one.txt", "/srv/one.txt", mode=0o640)
    .copy("data", "kept/")
    .run_cmd("[[ $BASH ]] && echo ran > ran && pwd > where")
    .set_start_cmd("echo started > /tmp/started; sleep 1000", "test -s /tmp/started")
)
info = Template.build(built, "tool:v1", on_build_logs=lambda line: lines.append(line.message))
assert any("echo ran > ran" in line for line in lines), lines
assert Template.exists("tool:v1") and not Template.exists("tool") and not Template.exists("tool:v1", api_key=other)
box = Sandbox.create("tool:v1", timeout=60)
out = box.commands.run('cat /srv/one.txt kept/a kept/sub/b ran where /tmp/started; echo "$GREETING $B"; stat -c %a /srv/one.txt', cwd=workdir).stdout
assert out == 'one $HOME\na\nb\nran\n' + workdir + '\nstarted\nhello "$you" 2\n640\n', out
assert box.get_info().template_id == "tool:v1"
box.kill()

again = Template.build(Template().from_template("tool:v1").run_cmd("echo more > /srv/more"), "more")
box = Sandbox.create("more", timeout=60)
assert box.commands.run("cat /srv/more /srv/one.txt").stdout == "more\none $HOME\n"
assert not box.commands.run("ls /tmp").stdout
box.kill()
try:
    Sandbox.create("more", api_key=other)
except SandboxException as e:
    assert "404" in str(e), e
else:
    raise AssertionError("another key has the template")

build_fails("exit", template().run_cmd("exit 3"))
build_fails("fromImage", Template().from_template("base").run_cmd("true"))
build_fails("image", Template().from_image("127.0.0.1:5/none").run_cmd("true"))
build_fails("name", template(), "Bad/Name")

# Uploads need the token of their URL, and are bounded; archives of links stay in their directory.
http = httpx.Client(base_url="http://" + address, headers={"X-API-KEY": key})
begun = http.post("/v3/templates", json={"name": "many"}).json()
tar = subprocess.check_output(["tar", "c", "--files-from", "/dev/null"])
for n in range(16):
    link = http.get(f"/templates/many/files/{n:064x}").json()["url"]
    assert httpx.put(link[:-1], content=tar).status_code == 401
    sent = httpx.put(link, content=tar)
    assert sent.status_code == 200, (n, sent.text)
    assert httpx.put(link, content=tar).status_code == 409  # it counts too
assert httpx.put(http.get(f"/templates/many/files/{99:064x}").json()["url"], content=tar).status_code == 400
assert http.get("/templates/many/files/..%2f..%2fx").status_code in (400, 404)
other_http = httpx.Client(base_url="http://" + address, headers={"X-API-KEY": other})
assert other_http.get(f"/templates/many/files/{0:064x}").status_code == 404
assert other_http.get(f"/templates/many/builds/{begun['buildID']}/status").status_code == 404

# A template is deleted by its owner, with one tag or all.
assert other_http.delete("/templates/tool").status_code == 404
assert http.delete("/templates/tool:v2").status_code == 404
box = Sandbox.create("more", timeout=60)
assert http.delete("/templates/more").status_code == 409, "it is in use"
box.kill()
for name in ("more", "tool:v1"):
    assert http.delete("/templates/" + name).status_code == 204
    assert http.delete("/templates/" + name).status_code == 404
assert not Template.exists("tool:v1") and not Template.exists("more")
