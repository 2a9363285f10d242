# Does what the test asks for, a line of JSON each, in the current directory; answers with a line. A failure is an answer too: the model does
# not know which names exist.
import json, mmap, os, subprocess, sys, time

mapped = []


def git(*args, **more):
    p = subprocess.run(["git", *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, **more)
    return p.stdout + b"%d" % p.returncode


def look(where, *flags):
    env = dict(os.environ)
    if flags:  # the index stays as it is
        env["GIT_OPTIONAL_LOCKS"] = "0"
    return b"\n".join(git(*where, *flags, *args.split(), env=env) for args in (
        "status --porcelain=v2", "diff", "ls-files -m -d -o", "status --porcelain=v2 --ignored"))


def compare(*where):
    for _ in range(20):
        was = look(where, "-c", "core.fsmonitor=", "-c", "core.untrackedCache=false")
        got = look(where)
        if got == was:
            return "same"
        if was == look(where, "-c", "core.fsmonitor=", "-c", "core.untrackedCache=false"):
            return "without the monitor:\n%s\nwith it:\n%s" % (was.decode(errors="replace"), got.decode(errors="replace"))
    return "it changes all the time"


def facts():
    """What tells why git is wrong."""
    said = git("ls-files", "--stage", "--debug") + b"\n" + git("log", "-3", "--oneline", "--all", "--name-status")
    for path in git("ls-files").decode().splitlines()[:-1]:
        try:
            st = os.lstat(path)
            said += b"\n%s: inode %d, %d bytes, mtime %d, ctime %d" % (path.encode(), st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
        except OSError:
            pass
    return said.decode(errors="replace") + "\nindex: mtime %d" % os.lstat(".git/index").st_mtime_ns


def write(path, text, mode="w"):
    with open(path, mode) as f:
        f.write(text)


def over(path, text):  # in place, in the length that it has
    with open(path, "r+") as f:
        f.write((text * 9)[: os.path.getsize(path)])


def replace(path, text):
    write(path + "~", text)
    os.rename(path + "~", path)


def same_times(path, text):
    st = os.stat(path)
    over(path, text)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def store(path, text):
    with open(path, "r+b") as f:
        m = mmap.mmap(f.fileno(), 0)
    m[0:1] = text[0].encode()
    mapped.append(m)
    if len(mapped) > 3:
        mapped.pop(0).close()


def unmap():
    while mapped:
        mapped.pop().close()


def nest(path):
    git("init", "-q", path)


def burst(path, times):
    for i in range(times):
        os.utime((path, path + "2")[i % 2])


def crowd(path, files):
    for i in range(files):
        os.makedirs("%s/d%d" % (path, i % 50), exist_ok=True)
        write("%s/d%d/f%d" % (path, i % 50, i), str(i))


def flood(path):
    """More events than the kernel keeps."""
    with open("/proc/sys/fs/fanotify/max_queued_events") as f:
        names = [os.path.join(path, "flood%d" % i) for i in range(int(f.read()) + 2)]
    for name in names:
        write(name, "")
    for name in names:
        os.unlink(name)


def storm(path, times):
    """Changes a file, which git has as it is, and asks at once whether that is known."""
    def ask(token):
        p = subprocess.run(["/run/wolffia/git/monitor", "2", token], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        token, *paths = p.stdout.decode().split("\0")
        return token, path in paths
    git("status")
    token, _ = ask("?")
    known, st = open(path).read(), os.stat(path)
    for i in range(times):
        os.utime("a/f3")  # the tree server reads the kernel's events of this, and then pauses
        time.sleep(0.001)
        write(path, known + "x")
        if not ask(token)[1]:
            return "%d: the change is not known" % i
        replace(path, known)
        git("add", path)
        os.utime(path, (1e9, 1e9))
        git("update-index", "--refresh")
    return "all known"


ops = {
    "storm": storm,
    "write": write, "append": lambda p, t: write(p, t, "a"), "over": over, "replace": replace, "same": same_times, "store": store, "unmap": unmap,
    "truncate": os.truncate, "chmod": os.chmod, "touch": lambda p, t: os.utime(p, (t, t)), "link": os.link, "symlink": os.symlink,
    "unlink": os.unlink, "mkdir": os.makedirs, "rmdir": os.rmdir, "rename": os.rename, "git": lambda *a: git(*a).decode(errors="replace"),
    "nest": nest, "burst": burst, "crowd": crowd, "flood": flood, "compare": compare, "facts": facts,
}
for line in sys.stdin:
    name, *args = json.loads(line)
    try:
        answer = ops[name](*args)
    except (OSError, ValueError) as e:
        answer = str(e)
    print(json.dumps(answer), flush=True)
