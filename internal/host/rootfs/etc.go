package rootfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/pathname"
	"wolffia/internal/sys/beneath"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A rootKind tells where a sandbox's root directory comes from, and so its /etc:
//
//	              hosts, hostname, resolv.conf   passwd, group   nsswitch.conf   hostFiles, hostDirs
//	hostRoot      written                        written         written         copied, mounted
//	ownRootfs     mounted over a file there      the same        the same        its own
//	storeImage    replaced                       a line added    a line changed  its own
//	engineImage   mounted                        mounted         mounted         its own
//
// With the host's network resolv.conf is the host's; without a network hostRoot has none. An
// image's nsswitch.conf is its own but without a network.
type rootKind int

const (
	hostRoot    rootKind = iota // directories of the host
	ownRootfs                   // SandboxConfig.Rootfs
	storeImage                  // an image of wolffia's own store, or composeSystem's
	engineImage                 // an image of a container engine
)

func kindOf(b *boot.Params) rootKind {
	switch {
	case !b.Can.Has(launch.StoreImages) && b.Config.Image != "":
		return engineImage
	case b.Config.ImageID != "" || b.Config.OverHost():
		return storeImage
	case b.Config.Rootfs != "":
		return ownRootfs
	}
	return hostRoot
}

// What a sandbox is shown of the host's /etc: what programs need to find libraries,
// certificates, names and their own settings. Nothing of it is secret.
var (
	hostFiles = []string{
		"ld.so.cache", "ld.so.conf", "localtime", "timezone", "services", "protocols", "mime.types",
		"ssl/openssl.cnf", "os-release", "debian_version", "manpath.config", "man_db.conf",
		"groff/man.local", "groff/mdoc.local",
	}
	hostDirs = []string{"ssl/certs", "pki/ca-trust", "pki/tls/certs", "alternatives", "perl", "java", "java-*", "crypto-policies"}
)

// maxEtcFile is the most that is read of a file in /etc, in bytes; ld.so.cache has a
// few hundred KiB.
const maxEtcFile = 4 << 20

// etcFiles returns the content of the files in /etc that are not the root's own. host
// is what readHost has read.
func etcFiles(kind rootKind, c *statedir.Config, host map[string]string) map[string]string {
	files := map[string]string{}
	maps.Copy(files, host)
	switch none := c.Network == "" || c.Network == runtime.NetworkNone; {
	case kind == storeImage && none:
		files["nsswitch.conf"] = "hosts: files\n"
	case none:
		files["nsswitch.conf"] = fmt.Sprintf(nsswitch, "files")
	case kind == hostRoot || kind == ownRootfs:
		files["nsswitch.conf"] = fmt.Sprintf(nsswitch, "files dns")
	}
	name := Hostname(c)
	var user, group string // with Root: root
	if !c.Root {
		user = fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/sh\n", c.User, c.UID, c.GID, c.User, Home(c))
		group = fmt.Sprintf("%s:x:%d:\n", c.User, c.GID)
	}
	files["passwd"] = "root:x:0:0:root:/root:/bin/sh\n" + user + "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
	files["group"] = "root:x:0:\n" + group + "nogroup:x:65534:\n"
	files["hosts"] = "127.0.0.1 localhost " + name + "\n::1 localhost " + name + "\n"
	files["hostname"] = name + "\n"
	if kind != hostRoot || c.Network == runtime.NetworkHost || c.Network == runtime.NetworkFiltered {
		files["resolv.conf"] = resolvConf(c.Network, host["resolv.conf"])
	}
	return files
}

// nsswitch is nsswitch.conf(5), with where names of hosts are looked up. Without a network
// that is /etc/hosts only: glibc then answers at once that a name does not exist, which
// programs take as final, and not that they should try again, which npm does for 80 seconds.
const nsswitch = "passwd: files\ngroup: files\nhosts: %s\nservices: files\nprotocols: files\n"

// resolvConf returns resolv.conf(5) for a network. host is that of the host.
func resolvConf(network runtime.Network, host string) string {
	switch network {
	case runtime.NetworkHost:
		return host
	case runtime.NetworkFiltered:
		return "nameserver " + launch.NameServer + "\noptions timeout:2 attempts:2\n"
	}
	// musl and others do not read nsswitch.conf. With a timeout of 0 musl sends nothing and
	// fails at once; for glibc it is a second, which a refusal by the loopback cuts short.
	return "nameserver 127.0.0.1\noptions timeout:0 attempts:1\n"
}

// Home returns the user's home directory inside.
func Home(c *statedir.Config) string {
	if c.Root {
		return "/root"
	}
	return "/home/" + c.User
}

// Hostname returns the sandbox's host name.
func Hostname(c *statedir.Config) string { return cmp.Or(c.Name, c.ID) }

// readHost reads what the files that etcFiles writes have of the host's.
func readHost(c *statedir.Config) (map[string]string, error) {
	const name = "resolv.conf"
	if c.Network != runtime.NetworkHost {
		return nil, nil
	}
	content, err := readFile("/etc/" + name)
	switch {
	case err == nil:
		return map[string]string{name: content}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	return nil, err
}

// copyHost copies hostFiles to the new directory etc, those that there are and that this process
// may read, and of the files distro those that all may read. The kernel copies: they have a few hundred
// KiB, which would stay in the memory of this process.
func copyHost(etc string, distro []string) error {
	for _, name := range hostFiles {
		if err := copyEtc(etc, name, false); err != nil {
			return err
		}
	}
	for _, name := range distro {
		if err := copyEtc(etc, name, true); err != nil {
			return err
		}
	}
	return nil
}

// copyEtc copies a file of /etc to the new directory etc, if this process may read it, and with
// public if all may. There are some dozens: it makes few system calls.
func copyEtc(etc, name string, public bool) error {
	var st unix.Stat_t
	in, err := openRegular("/etc/"+name, &st)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err == nil {
		if (!public || publicFile(&st)) && (name != siteProfile || plainCode(in, st.Size)) {
			to := filepath.Join(etc, name)
			if err = copyFile(to, in, st.Size, maxEtcFile); errors.Is(err, fs.ErrNotExist) {
				err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), copyFile(to, in, st.Size, maxEtcFile))
			}
		}
		err = errors.Join(err, unix.Close(in))
	}
	if err != nil {
		return fmt.Errorf("copy /etc/%s: %w", name, err)
	}
	return nil
}

// copyFile copies up to most bytes of a file of that size to a new one. A size of 0 is not known.
func copyFile(to string, in int, size int64, most int) error {
	out, err := unix.Open(to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	if size > 0 {
		most = int(min(size, int64(most)))
	}
	var buf []byte
	for most > 0 && err == nil {
		n := 0
		if buf == nil {
			if n, err = unix.Sendfile(out, in, nil, most); err == unix.EINVAL {
				buf, err = make([]byte, 64<<10), nil // the kernel cannot splice from this file system
				continue
			}
		} else if n, err = unix.Read(in, buf[:min(most, len(buf))]); n > 0 {
			_, err = unix.Write(out, buf[:n])
		}
		if n <= 0 {
			break
		}
		most -= n
	}
	return errors.Join(err, unix.Close(out))
}

// composeEtc writes the files of every kind of root but storeImage to the new directory
// etc, and adds them to spec. For hostRoot copied gets the end of copyHost, which takes as long
// as all else here; names are what is known of the host's /etc.
func composeEtc(b *boot.Params, spec *launch.Spec, etc string, names etcNames, copied <-chan error) error {
	kind := kindOf(b)
	host, err := readHost(&b.Config)
	if err != nil {
		return err
	}
	files := etcFiles(kind, &b.Config, host)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(etc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(files[name]), 0o644)); err != nil {
			return err
		}
		target := "/etc/" + name
		if kind == ownRootfs {
			target = regularIn(b.Config.Rootfs, target)
		}
		if kind != hostRoot && target != "" {
			spec.Binds = append(spec.Binds, runtime.Mount{Source: path, Target: target})
		}
	}
	if kind != hostRoot {
		return nil
	}
	spec.Etc = etc
	for _, name := range slices.Sorted(maps.Keys(etcFiles(engineImage, &b.Config, host))) {
		if _, written := files[name]; written {
			spec.Identity = append(spec.Identity, name)
		}
	}
	mounts := slices.Concat(b.Config.Mounts, volumeMounts(b))
	for _, name := range names.dirs(hostDirs) {
		if !slices.ContainsFunc(mounts, func(m runtime.Mount) bool { return pathname.Within("/etc/"+name, m.Target) }) {
			spec.HostEtc = append(spec.HostEtc, name)
		}
	}
	spec.HostEtc = append(spec.HostEtc, names.distro(mounts)...)
	if err := <-copied; err != nil {
		return err
	}
	for _, name := range spec.HostEtc {
		if err := os.MkdirAll(filepath.Join(etc, name), 0o755); err != nil {
			return err
		}
	}
	if link, err := os.Readlink("/etc/mtab"); err == nil && !filepath.IsAbs(link) {
		if err := os.Symlink(link, filepath.Join(etc, "mtab")); err != nil {
			return err
		}
	}
	return placesInEtc(mounts, etc, spec.HostEtc)
}

// regularIn returns the path, without links, of a regular file in a root directory; empty
// without such a file. In many root directories /etc/resolv.conf is a link, mostly to what is not there: then
// programs ask the name server at 127.0.0.1 (resolv.conf(5)), where the network's answers too.
func regularIn(root, name string) string {
	dir, err := os.Open(root)
	if err != nil {
		return ""
	}
	defer dir.Close()
	fd, err := beneath.OpenIn(int(dir.Fd()), name, unix.O_PATH)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ""
	}
	below, err := beneath.NameIn(int(dir.Fd()), fd)
	if err != nil {
		return ""
	}
	return "/" + below
}

// placesInEtc creates what the mounts in /etc are mounted on, in the new directory etc.
// hostEtc are the directories in it that will be the host's, where the place must exist.
func placesInEtc(mounts []runtime.Mount, etc string, hostEtc []string) error {
	targets := map[string]string{} // without /etc/, to the source
	for _, m := range mounts {
		if name, in := strings.CutPrefix(m.Target, "/etc/"); in {
			targets[name] = m.Source
		}
	}
	for name, source := range targets {
		below := func(dir string) bool { return strings.HasPrefix(name, dir+"/") }
		if i := slices.IndexFunc(hostEtc, below); i >= 0 {
			if st, err := os.Lstat("/etc/" + name); err != nil || st.Mode()&fs.ModeSymlink != 0 {
				return runtime.Errorf(runtime.ErrInvalid, "mount /etc/%s: /etc/%s is the host's, and has no file or directory of that name: mount a directory on /etc/%[2]s", name, hostEtc[i])
			}
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(targets)), below) {
			continue // it is in another mount
		}
		st, err := os.Stat(source)
		if err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "mount %s: %w", source, err)
		}
		place := filepath.Join(etc, name)
		if st.IsDir() {
			err = os.MkdirAll(place, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(place), 0o755); err == nil {
			var f *os.File
			if f, err = os.OpenFile(place, os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
				err = f.Close()
			}
		}
		if err != nil {
			return runtime.Errorf(runtime.ErrInvalid, "mount on /etc/%s: %w", name, err)
		}
	}
	return nil
}

// readFile reads a regular file of the host's, up to maxEtcFile.
func readFile(name string) (string, error) {
	var st unix.Stat_t
	fd, err := openRegular(name, &st)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return readUpTo(f)
}

// openRegular opens a regular file of the host's to read it, without a wait for what is none: that
// is fs.ErrNotExist. The caller closes it. It fills st.
func openRegular(name string, st *unix.Stat_t) (fd int, err error) {
	fd, err = unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if err = unix.Fstat(fd, st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = fs.ErrNotExist
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// regularSize returns the size of a regular file; another one is fs.ErrNotExist.
func regularSize(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return 0, errors.Join(err, fs.ErrNotExist)
	}
	return st.Size(), nil
}

// readUpTo reads a regular file up to maxEtcFile; another one is fs.ErrNotExist.
func readUpTo(f *os.File) (string, error) {
	size, err := regularSize(f)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	b.Grow(int(min(size, maxEtcFile)) + bytes.MinRead) // so that two reads are enough
	_, err = b.ReadFrom(io.LimitReader(f, maxEtcFile))
	return b.String(), err
}

// furnishEtc changes an image's /etc, in its root directory, to name the user and the
// host. Users of the image stay.
func furnishEtc(root *os.Root, c *statedir.Config) error {
	host, err := readHost(c)
	if err != nil {
		return err
	}
	uid, gid := c.Inside()
	return in(root, "/etc", func(etc *os.Root) error {
		for name, text := range etcFiles(storeImage, c, host) {
			changed, err := true, error(nil)
			var old string
			if id, ok := map[string]int{"passwd": uid, "group": gid}[name]; ok {
				old, err = read(etc, name)
				text, changed = withID(old, text, id)
			} else if name == "nsswitch.conf" {
				old, err = read(etc, name)
				text, changed = withHosts(old, text)
			}
			if err == nil && changed {
				err = write(etc, name, text)
			}
			if err != nil {
				return fmt.Errorf("write /etc/%s: %w", name, err)
			}
		}
		return nil
	})
}

// withID returns the text of passwd(5) or group(5) with the line of own that has the
// id, unless it has a line with it already. An empty text becomes own.
func withID(text, own string, id int) (result string, changed bool) {
	if strings.TrimSpace(text) == "" {
		return own, true
	}
	find := func(text string) string {
		for line := range strings.Lines(text) {
			if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) > 2 && f[2] == strconv.Itoa(id) {
				return line
			}
		}
		return ""
	}
	if find(text) != "" {
		return text, false
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + find(own), true
}

// withHosts returns the text of nsswitch.conf(5) with the line of own in place of those for
// the same database, unless it is the only one already.
func withHosts(text, own string) (result string, changed bool) {
	database, _, _ := strings.Cut(own, ":")
	var b strings.Builder
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, ":"); !ok || strings.TrimSpace(name) != database {
			b.WriteString(line)
		}
	}
	result = b.String()
	if result != "" && !strings.HasSuffix(result, "\n") {
		result += "\n"
	}
	result += own
	return result, result != text
}
