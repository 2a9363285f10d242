package gittable_test

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A way brings text into a file, by its path, with system calls. tmp is a name in a
// directory of its own on the same mount, where nothing is yet; it may leave things
// there. Whether it worked is to be looked at afterwards.
type way struct {
	name string
	do   func(path, tmp string, text []byte)
}

// put writes a file of a way's own.
func put(path string, text []byte) { _ = os.WriteFile(path, text, 0o644) }

// with opens a file and writes to it.
func with(path string, flags int, write func(fd int)) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	write(fd)
}

func pwrite(fd int, text []byte) { _, _ = unix.Pwrite(fd, text, 0) }

// mapped writes by a shared mapping, and keeps it: the caller unmaps it.
func mapped(fd int, size int) []byte {
	if unix.Ftruncate(fd, int64(size)) != nil {
		return nil
	}
	m, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return m
}

func unmap(m []byte) {
	if m != nil {
		_ = unix.Msync(m, unix.MS_SYNC)
		_ = unix.Munmap(m)
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// later renames a lock whose descriptor stays open, and writes by that.
func later(lock, path string, first, text []byte, write func(fd int, text []byte)) {
	with(lock, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, func(fd int) {
		pwrite(fd, first)
		_ = os.Rename(lock, path)
		_ = unix.Ftruncate(fd, 0)
		write(fd, text)
	})
}

// harmless is a configuration that nobody needs to refuse.
const harmless = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"

var ways = []way{
	{"open and truncate", func(path, _ string, text []byte) {
		with(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, func(fd int) { pwrite(fd, text) })
	}},
	{"append", func(path, _ string, text []byte) {
		with(path, unix.O_WRONLY|unix.O_APPEND, func(fd int) { _, _ = unix.Write(fd, append([]byte("\n"), text...)) })
	}},
	{"write by a mapping", func(path, _ string, text []byte) {
		with(path, unix.O_RDWR|unix.O_CREAT, func(fd int) {
			m := mapped(fd, len(text))
			copy(m, text)
			unmap(m)
		})
	}},
	{"write by a descriptor opened again", func(path, _ string, text []byte) {
		with(path, unix.O_RDONLY, func(fd int) {
			with(procPath(fd), unix.O_WRONLY|unix.O_TRUNC, func(fd int) { pwrite(fd, text) })
		})
	}},
	{"copy_file_range", func(path, tmp string, text []byte) {
		put(tmp, text)
		with(tmp, unix.O_RDONLY, func(from int) {
			with(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, func(fd int) { _, _ = unix.CopyFileRange(from, nil, fd, nil, len(text), 0) })
		})
	}},
	{"FICLONE", func(path, tmp string, text []byte) {
		put(tmp, text)
		with(tmp, unix.O_RDONLY, func(from int) {
			with(path, unix.O_WRONLY|unix.O_CREAT, func(fd int) { _ = unix.IoctlFileClone(fd, from) })
		})
	}},
	{"splice", func(path, _ string, text []byte) {
		var p [2]int
		if unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
			return
		}
		n, _ := unix.Write(p[1], text)
		with(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, func(fd int) { _, _ = unix.Splice(p[0], nil, fd, nil, n, 0) })
		unix.Close(p[0])
		unix.Close(p[1])
	}},
	{"fallocate", func(path, _ string, text []byte) {
		with(path, unix.O_RDWR|unix.O_CREAT, func(fd int) {
			_ = unix.Fallocate(fd, 0, 0, int64(len(text)))
			pwrite(fd, text)
		})
	}},
	{"truncate, then write", func(path, _ string, text []byte) {
		_ = os.Truncate(path, 0)
		with(path, unix.O_WRONLY, func(fd int) { pwrite(fd, text) })
	}},
	{"unlink and create", func(path, _ string, text []byte) {
		_ = os.Remove(path)
		with(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(fd int) { pwrite(fd, text) })
	}},
	{"create, and write later", func(path, _ string, text []byte) {
		_ = os.Remove(path)
		with(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(int) {})
		with(path, unix.O_WRONLY, func(fd int) { pwrite(fd, text) })
	}},
	{"mknod", func(path, _ string, text []byte) {
		_ = os.Remove(path)
		_ = unix.Mknod(path, unix.S_IFREG|0o644, 0)
		with(path, unix.O_WRONLY, func(fd int) { pwrite(fd, text) })
	}},
	{"chmod, then write", func(path, _ string, text []byte) {
		_ = os.Chmod(path, 0o777)
		put(path, text)
	}},
	{"rename another file onto it", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Rename(tmp, path)
	}},
	{"unlink, and rename without replacing", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Remove(path)
		_ = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}},
	{"exchange with another file", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = exchange(tmp, path)
	}},
	{"rename away, write, and back", func(path, tmp string, text []byte) {
		_ = os.Rename(path, tmp)
		put(tmp, text)
		_ = os.Rename(tmp, path)
	}},
	{"exchange away, write, and back", func(path, tmp string, text []byte) {
		put(tmp, []byte(harmless))
		_ = exchange(path, tmp)
		put(tmp, text)
		_ = exchange(path, tmp)
	}},
	{"link another file", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Remove(path)
		_ = os.Link(tmp, path)
	}},
	{"link it elsewhere, and write there", func(path, tmp string, text []byte) {
		_ = os.Link(path, tmp)
		with(tmp, unix.O_WRONLY|unix.O_TRUNC, func(fd int) { pwrite(fd, text) })
	}},
	{"link without a name", func(path, tmp string, text []byte) {
		_ = os.Remove(path)
		with(filepath.Dir(tmp), unix.O_TMPFILE|unix.O_RDWR, func(fd int) {
			pwrite(fd, text)
			_ = unix.Linkat(unix.AT_FDCWD, procPath(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		})
	}},
	{"symbolic link", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Remove(path)
		_ = os.Symlink(relative(path, tmp), path)
	}},
	{"symbolic link renamed onto it", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Symlink(relative(path, tmp), tmp+"l")
		_ = os.Rename(tmp+"l", path)
	}},
	{"symbolic link by its lock", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Symlink(relative(path, tmp), path+".lock")
		_ = os.Rename(path+".lock", path)
	}},
	{"symbolic link that is exchanged", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Symlink(relative(path, tmp), tmp+"l")
		_ = exchange(tmp+"l", path)
	}},
	{"a lock renamed onto it", func(path, _ string, text []byte) {
		with(path+".lock", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(fd int) { pwrite(fd, text) })
		_ = os.Rename(path+".lock", path)
	}},
	{"a lock that was another file", func(path, tmp string, text []byte) {
		put(tmp, text)
		_ = os.Rename(tmp, path+".lock")
		_ = os.Rename(path+".lock", path)
	}},
	{"a lock that is another file's name", func(path, tmp string, text []byte) {
		put(tmp, []byte(harmless))
		_ = os.Link(tmp, path+".lock")
		_ = os.Rename(path+".lock", path)
		put(tmp, text)
	}},
	{"a lock with another name", func(path, tmp string, text []byte) {
		put(path+".lock", []byte(harmless))
		_ = os.Link(path+".lock", tmp)
		_ = os.Rename(path+".lock", path)
		put(tmp, text)
	}},
	{"a lock that is exchanged with it", func(path, _ string, text []byte) {
		put(path+".lock", text)
		_ = exchange(path+".lock", path)
	}},
	{"a lock linked to it", func(path, _ string, text []byte) {
		put(path+".lock", text)
		_ = os.Remove(path)
		_ = os.Link(path+".lock", path)
	}},
	{"a lock whose descriptor writes later", func(path, _ string, text []byte) {
		later(path+".lock", path, []byte(harmless), text, pwrite)
	}},
	{"a lock whose descriptor maps later", func(path, _ string, text []byte) {
		later(path+".lock", path, []byte(harmless), text, func(fd int, text []byte) {
			m := mapped(fd, len(text))
			copy(m, text)
			unmap(m)
		})
	}},
	{"a lock whose mapping writes later", func(path, _ string, text []byte) {
		with(path+".lock", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, func(fd int) {
			m := mapped(fd, len(text))
			for i := range m {
				m[i] = '\n'
			}
			copy(m, "[core]\n\tbare = false\n")
			_ = os.Rename(path+".lock", path)
			copy(m, text)
			unmap(m)
		})
	}},
	{"a lock renamed from another directory", func(path, tmp string, text []byte) {
		_ = os.Mkdir(tmp, 0o755)
		lock := filepath.Join(tmp, filepath.Base(path)+".lock")
		put(lock, text)
		_ = os.Rename(lock, path)
	}},
	{"its directory exchanged with another", func(path, tmp string, text []byte) {
		dir := filepath.Dir(path)
		prepared(dir, tmp, filepath.Base(path), text)
		_ = exchange(tmp, dir)
	}},
	{"its directory replaced by another", func(path, tmp string, text []byte) {
		dir := filepath.Dir(path)
		prepared(dir, tmp, filepath.Base(path), text)
		_ = os.Rename(dir, tmp+"old")
		_ = os.Rename(tmp, dir)
	}},
	{"its directory renamed away and back", func(path, tmp string, text []byte) {
		dir := filepath.Dir(path)
		_ = os.Rename(dir, tmp)
		put(filepath.Join(tmp, filepath.Base(path)), text)
		_ = os.Rename(tmp, dir)
	}},
	{"its directory's directory renamed away and back", func(path, tmp string, text []byte) {
		dir := filepath.Dir(filepath.Dir(path))
		_ = os.Rename(dir, tmp)
		put(filepath.Join(tmp, filepath.Base(filepath.Dir(path)), filepath.Base(path)), text)
		_ = os.Rename(tmp, dir)
	}},
	{"its directory replaced by a symbolic link", func(path, tmp string, text []byte) {
		dir := filepath.Dir(path)
		prepared(dir, tmp, filepath.Base(path), text)
		_ = os.Rename(dir, tmp+"old")
		_ = os.Symlink(relative(dir, tmp), dir)
	}},
}

// prepared makes a directory with what a git directory has, and the file.
func prepared(dir, tmp, name string, text []byte) {
	_ = os.Mkdir(tmp, 0o755)
	_ = os.Mkdir(filepath.Join(tmp, "objects"), 0o755)
	_ = os.Mkdir(filepath.Join(tmp, "refs"), 0o755)
	head, _ := os.ReadFile(filepath.Join(dir, "HEAD"))
	put(filepath.Join(tmp, "HEAD"), head)
	put(filepath.Join(tmp, name), text)
}

// relative returns the target of a symbolic link at path that leads to to.
func relative(path, to string) string {
	target, err := filepath.Rel(filepath.Dir(path), to)
	if err != nil {
		panic(err)
	}
	return target
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
