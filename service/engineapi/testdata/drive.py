"""Drives wolffia serve --docker-socket by docker's client for Python. Arguments: the socket, an image."""

import io
import sys
import tarfile
import threading

import docker
from docker.errors import APIError, ContainerError, ImageNotFound, NotFound

client = docker.DockerClient(base_url="unix://" + sys.argv[1], version="auto", timeout=60)
image = sys.argv[2]


def refused(do, error, text):
    """Expects an error of a class whose text has a part."""
    try:
        do()
    except error as e:
        assert text in str(e), e
        return
    raise AssertionError(f"no error, where {text!r} was expected")


assert client.ping()
assert client.version()["ApiVersion"] == "1.41"
assert image in client.images.get(image).tags
assert [i.id for i in client.images.list(name=image.split(":")[0])] == [client.images.get(image).id]

# A command, its output, its failure.
assert client.containers.run(image, ["echo", "hello"], remove=True) == b"hello\n"
refused(lambda: client.containers.run(image, ["sh", "-c", "echo why >&2; exit 3"], remove=True), ContainerError, "returned non-zero exit status 3: b'why\\n'")
refused(lambda: client.containers.run(image, ["nonsense"], remove=True), APIError, "executable file not found in $PATH")
refused(lambda: client.containers.run("none:1", ["true"]), ImageNotFound, "none")
for failed in client.containers.list(all=True):
    assert failed.attrs["State"]["ExitCode"] == 127
    failed.remove()

# Events, as they happen.
seen, first = [], threading.Event()


def watch():
    for event in client.events(decode=True, filters={"event": ["start", "die", "destroy"]}):
        seen.append((event["Action"], event["Actor"]["Attributes"]["name"]))
        first.set()
        if event["Action"] == "destroy":
            return


watcher = threading.Thread(target=watch, daemon=True)
watcher.start()

# A container that stays: commands in it, with streams apart, input, a terminal.
box = client.containers.create(
    image, ["sh", "-c", "echo begun; trap 'echo ends; exit 5' TERM; while :; do sleep 0.1; done"], name="box",
    environment={"A": "1"}, labels={"of": "test"}, working_dir="/made/here", ports={"8080/tcp": None},
)
assert box.status == "created"
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w") as tar:
    for name, text in (("in/a", b"one"), ("in/b", b"two")):
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(text), 0o640
        tar.addfile(member, io.BytesIO(text))
assert box.put_archive("/", archive.getvalue())
box.start()
box.reload()
assert box.status == "running", box.status
host = box.attrs["NetworkSettings"]["Ports"]["8080/tcp"][0]
assert host["HostIp"] == "127.0.0.1" and int(host["HostPort"]) > 0, host
code, out = box.exec_run(["sh", "-c", "pwd; echo $A; cat /in/a; id -u"])
assert (code, out) == (0, b"/made/here\n1\none0\n"), (code, out)
code, (out, err) = box.exec_run(["sh", "-c", "echo out; echo err >&2; exit 4"], demux=True)
assert (code, out, err) == (4, b"out\n", b"err\n"), (code, out, err)
assert box.exec_run(["pwd"], workdir="/in", environment={"B": "2"}).output == b"/in\n"
assert box.exec_run(["nonsense"]).exit_code == 127
assert box.exec_run(["sh", "-c", "test -t 1 && echo terminal"], tty=True).output == b"terminal\r\n"
assert b"".join(box.exec_run(["sh", "-c", "echo streamed"], stream=True).output) == b"streamed\n"
made = client.api.exec_create(box.id, ["cat"], stdin=True)
sock = client.api.exec_start(made["Id"], socket=True)
sock._sock.sendall(b"through\n")
sock._sock.shutdown(1)
got = b""
while part := sock._sock.recv(4096):
    got += part
assert got == b"\x01\x00\x00\x00\x00\x00\x00\x08through\n", got
assert client.api.exec_inspect(made["Id"])["ExitCode"] == 0
bits, stat = box.get_archive("/in")
with tarfile.open(fileobj=io.BytesIO(b"".join(bits))) as tar:
    assert sorted(tar.getnames()) == ["in", "in/a", "in/b"], tar.getnames()
assert stat["name"] == "in"
refused(lambda: box.get_archive("/none"), NotFound, "Could not find the file /none")
assert client.containers.list(filters={"label": "of=test"})[0].name == "box"
assert client.containers.list(filters={"label": "of=other"}) == []
refused(lambda: box.remove(), APIError, "container is running")
assert box.logs() == b"begun\n", box.logs()
box.stop(timeout=10)
assert box.wait()["StatusCode"] == 5
box.reload()
assert (box.status, box.attrs["State"]["ExitCode"]) == ("exited", 5)
assert box.logs(tail=1, stderr=False) == b"ends\n", box.logs()
refused(lambda: box.exec_run(["true"]), APIError, "is not running")
box.start()
assert box.exec_run(["cat", "/in/b"]).output == b"two"
box.kill()
assert box.wait()["StatusCode"] == 137
box.remove()
watcher.join(30)
assert seen == [("start", "box"), ("die", "box"), ("start", "box"), ("die", "box"), ("destroy", "box")], seen
refused(lambda: client.containers.get("box"), NotFound, "No such container: box")

# An image is built of a context.
context = io.BytesIO()
with tarfile.open(fileobj=context, mode="w:gz") as tar:
    for name, text in (("Dockerfile", f"FROM {image}\nCOPY file /file\nCMD [\"cat\", \"/file\"]\n".encode()), ("file", b"built\n")):
        member = tarfile.TarInfo(name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
context.seek(0)
built, log = client.images.build(fileobj=context, custom_context=True, encoding="gzip", tag="built:1")
assert client.containers.run("built:1", remove=True) == b"built\n"
client.images.remove("built:1")

# What does not exist here is refused, in docker's form.
for option, text in (
    ({"privileged": True}, "HostConfig.Privileged"), ({"network_mode": "host"}, "--network host"), ({"devices": ["/dev/kvm"]}, "HostConfig.Devices"),
    ({"cap_add": ["SYS_ADMIN"]}, "HostConfig.CapAdd"), ({"volumes": ["/etc:/x"]}, "volume /etc"), ({"hostname": "x"}, "Hostname"), ({"volumes": ["named:/x"]}, "volume \\\"named\\\""),
):
    refused(lambda: client.containers.run(image, ["true"], **option), APIError, text.replace("\\", ""))
assert [n.name for n in client.networks.list()] == ["bridge", "host", "none"]
refused(lambda: client.networks.create("n"), APIError, "wolffia does not have this call")
assert client.containers.list(all=True) == []
print("driven")
