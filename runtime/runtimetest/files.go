package runtimetest

import (
	"os"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Files behave as the kernel's own do, in the tree, in a mount, and in memory.
var fileTests = []test{
	{"FilesUnreadable", []Feature{Isolation, Mounts}, filesUnreadable},
	{"FilesUnreadableOfHost", []Feature{Isolation}, filesUnreadableOfHost},
	{"FilesReadOnly", []Feature{Isolation, Mounts}, filesReadOnly},
	{"FilesUnlinked", []Feature{Isolation, Mounts}, filesUnlinked},
	{"LinksNotFollowed", []Feature{Isolation, Mounts}, linksNotFollowed},
	{"UnpackedAmongLinks", []Feature{Isolation}, unpackedAmongLinks},
	{"MessageFlags", []Feature{Isolation}, messageFlags},
}

// everywhere runs a Python program in the tree, in a mount that is writable, and
// in /tmp: each time it must print want.
func (e *env) everywhere(program, want string) {
	e.Helper()
	mount := e.dir()
	e.OK(os.Chmod(mount, 0o777)) // for any user that the sandbox runs as
	c := e.open(e.dir())
	c.Mounts = []runtime.Mount{{Source: mount, Target: "/data", Writable: true}}
	s := e.start(c)
	for _, place := range []string{runtime.DefaultMountPoint, "/data", "/tmp"} {
		got := e.python(s.ID, "os.chdir('"+place+"')\nos.umask(0)\n"+program)
		if got != want {
			e.Errorf("in %s:\n got %q\nwant %q", place, got, want)
		}
	}
}

// attributes are functions that change a file's, and print what became of them.
const attributes = `
import stat
def show(name, st): print(name, oct(stat.S_IMODE(st.st_mode)), st.st_size, int(st.st_mtime))
def change(name, mode):
    os.utime(name, (1, 1e9)); os.chmod(name, mode); show(name, os.lstat(name))
def create(name, mode): return os.open(name, os.O_CREAT|os.O_EXCL|os.O_RDWR, mode)
`

// The owner of a file may change its mode and times, though the mode forbids to
// read it.
func filesUnreadable(e *env) {
	e.everywhere(attributes+`
for i, mode in enumerate([0, 0o300, 0o200]):
    os.mkdir('d%d' % i, mode); os.utime('d%d' % i, (1, 1e9)); os.chmod('d%d' % i, 0o755)
    print(oct(stat.S_IMODE(os.stat('d%d' % i).st_mode)), int(os.stat('d%d' % i).st_mtime), os.listdir('d%d' % i))
    os.close(create('f%d' % i, mode)); change('f%d' % i, 0o640); open('f%d' % i).close()
fd = create('open', 0); os.ftruncate(fd, 7); os.utime(fd, (1, 1e9)); os.fchmod(fd, 0o604); show('open', os.fstat(fd))
`, `0o755 1000000000 []
f0 0o640 0 1000000000
0o755 1000000000 []
f1 0o640 0 1000000000
0o755 1000000000 []
f2 0o640 0 1000000000
open 0o604 7 1000000000
`)
}

func filesUnreadableOfHost(e *env) {
	dir := e.dir()
	e.write(dir+"/f", "content")
	e.OK(os.Mkdir(dir+"/d", 0o755))
	for _, name := range []string{"/f", "/d"} {
		e.OK(os.Chmod(dir+name, 0))
	}
	s := e.start(e.open(dir))
	e.prints(s.ID, "chmod 640 f && chmod 750 d && stat -c %a f d && cat f", "640\n750\ncontent")
	for name, want := range map[string]os.FileMode{"/f": 0o640, "/d": 0o750 | os.ModeDir} {
		if st, err := os.Stat(dir + name); err != nil || st.Mode() != want {
			e.Errorf("%s: %v, %v, want %v", name, st, err, want)
		}
	}
}

// A process that has a file open to write may change its size, though the mode
// forbids to write; the owner may set the times.
func filesReadOnly(e *env) {
	e.everywhere(attributes+`
fd = create('size', 0o444); os.ftruncate(fd, 9); os.utime(fd, (1, 1e9)); show('size', os.fstat(fd))
os.close(create('times', 0o444)); change('times', 0o400)
attempt('truncate', lambda: os.truncate('times', 0))
fd = os.open('times', os.O_RDONLY); os.utime(fd, (1, 2e9)); show('times', os.fstat(fd))
`, `size 0o444 9 1000000000
times 0o400 0 1000000000
truncate EACCES
times 0o400 0 2000000000
`)
}

// A file that is unlinked is used as before, and not taken for another that has
// its name now.
func filesUnlinked(e *env) {
	e.everywhere(attributes+`
for again in False, True:
    fd = create('f', 0o600); os.write(fd, b'content'); os.unlink('f')
    if again: open('f', 'x').write('another')
    for flags in os.O_WRONLY|os.O_TRUNC, os.O_RDWR|os.O_TRUNC:
        try: os.ftruncate(os.open('/proc/self/fd/%d' % fd, flags), 7)
        except FileNotFoundError: pass # that they are refused is tolerated
    os.pwrite(fd, b'content', 0)
    print(os.read(os.open('/proc/self/fd/%d' % fd, os.O_RDONLY), 100))
    os.ftruncate(fd, 3); os.utime(fd, (1, 1e9)); os.fchmod(fd, 0o640); show('f', os.fstat(fd))
    print(os.pread(fd, 100, 0), os.fstat(fd).st_nlink)
print(open('f').read(), os.stat('f').st_nlink, oct(stat.S_IMODE(os.stat('f').st_mode)))
os.mkdir('d'); fd = os.open('d', os.O_RDONLY); os.rmdir('d'); os.mkdir('d'); open('d/f', 'x').close()
print(os.listdir(os.open('.', os.O_RDONLY, dir_fd=fd)))
`, `b'content'
f 0o640 3 1000000000
b'con' 0
b'content'
f 0o640 3 1000000000
b'con' 0
another 1 0o666
[]
`)
}

// O_NOFOLLOW forbids to follow a link at the end of a path, with O_DIRECTORY
// too; a slash behind it follows it all the same. Programs that descend into
// a tree, or delete one, count on it (openat(2)).
func linksNotFollowed(e *env) {
	e.everywhere(`
os.makedirs('dir/sub'); os.symlink('dir/sub', 'link'); os.symlink('link', 'second'); os.symlink('dir/sub/', 'slash'); os.symlink(os.getcwd() + '/dir', 'absolute')
def kind(path, flags):
    try: fd = os.open(path, flags)
    except OSError as e: return errno.errorcode[e.errno]
    name = os.readlink('/proc/self/fd/%d' % fd); os.close(fd)
    return os.path.basename(name)
N, D, P = os.O_NOFOLLOW, os.O_DIRECTORY, os.O_PATH
for path in ['link', 'link/', 'link/.', 'second', 'second/', 'slash', 'slash/', 'absolute', 'absolute/', 'dir/sub', '/proc/self/cwd']:
    print(os.path.normpath(path), *[kind(path, flags) for flags in [N|D, N, N|D|P]] + [kind(path, D) == kind(path, 0) != 'ENOTDIR'])
`, `link ENOTDIR ELOOP ENOTDIR True
link sub sub sub True
link sub sub sub True
second ENOTDIR ELOOP ENOTDIR True
second sub sub sub True
slash ENOTDIR ELOOP ENOTDIR True
slash sub sub sub True
absolute ENOTDIR ELOOP ENOTDIR True
absolute dir dir dir True
dir/sub sub sub sub True
/proc/self/cwd ENOTDIR ELOOP ENOTDIR True
`)
}

// recvmsg(2) says that descriptors are close-on-exec, if it was asked for that.
func messageFlags(e *env) {
	s := e.start(nil)
	if got := e.python(s.ID, `
a, b = socket.socketpair()
a.send(b'wxyz')
print(*[b.recvmsg(1, room, flags)[2] == flags for room in (0, 100) for flags in (0, socket.MSG_CMSG_CLOEXEC)])
`); got != "True True True True\n" {
		e.Errorf("got %q", got)
	}
}

// What is copied into a sandbox goes where it was asked to, though somebody
// there puts links in the place of the directories that are being made.
func unpackedAmongLinks(e *env) {
	s := e.start(e.open(e.dir()))
	got := e.python(s.ID, `
import subprocess
guest = '`+launch.GuestPath+`'
os.umask(0o22)
for i in range(300): os.makedirs('/tmp/top/%03d' % i); open('/tmp/top/%03d/file' % i, 'x').close()
with open('/tmp/stream', 'xb') as f: subprocess.run([guest, 'pack', '/tmp/top'], stdout=f, check=True)
os.mkdir('out')
for n in range(30):
    dst, i = 'dst%d' % n, 0
    with open('/tmp/stream', 'rb') as f: p = subprocess.Popen([guest, 'unpack', dst], stdin=f, stderr=subprocess.DEVNULL)
    while p.poll() is None and i < 300:
        for _ in range(100):
            try: os.rename(dst + '/%03d' % i, dst + '/away%d' % i)
            except OSError: continue
            os.symlink('../out', dst + '/%03d' % i)
            i += 1
            if i == 300: break
    if p.wait() != 0: break # a link was there in time
print(os.listdir('out'))
`)
	if got != "[]\n" {
		e.Errorf("got %q", got)
	}
}
