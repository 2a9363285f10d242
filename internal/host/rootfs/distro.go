package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/pathname"
	"wolffia/internal/sys/dirents"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// What the distribution's programs in /usr keep elsewhere, and do not work without. These are
// tables, not all that packages ship: of a directory that also holds credentials
// (maven/settings.xml, R/Renviron.site, php/*/fpm) they have parts. What an administrator has put
// there is left out by settingsOnly.
var (
	// distroFiles are patterns of files in /etc.
	distroFiles = []string{
		"bash.bashrc", "inputrc", "papersize", "magic", "magic.mime", "rpc", "networks",
		"ethertypes", "host.conf", "gai.conf", "locale.alias", "mke2fs.conf", "mailcap",
		"screenrc", "nanorc",
		"lsb-release", "redhat-release", "system-release", "fedora-release",
		"alpine-release", "arch-release",
		"matplotlibrc", "maven/m2.conf", "R/Renviron", "R/ldpaths", "R/repositories",
		"R/Makeconf", "R/javaconf", siteProfile, "vim/vimrc", "X11/rgb.txt", "python3/debian_config",
		"python3.*/sitecustomize.py",
	}
	// distroDirs are patterns of directories in /etc.
	distroDirs = []string{
		"fonts", "php/*/cli", "php/*/mods-available", "php.d", "maven/logging", "chromium.d",
		"chromium/policies", "ImageMagick-*", "xml", "sgml", "texmf", "vulkan", "OpenCL",
		"ghostscript",
	}
	// distroData are directories in /var.
	distroData = []string{
		"/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman/local", "/var/lib/aspell",
		"/var/lib/ispell", "/var/lib/texmf", "/var/lib/ghostscript", "/var/cache/fontconfig",
	}
	// distroLinks are links. A directory in /run in which a service puts its socket, as a host makes
	// it at boot, is /tmp: a directory of its own would be a mount.
	distroLinks = []launch.Mount{
		{Kind: launch.Symlink, Target: "/var/run", Source: "../run"},
		{Kind: launch.Symlink, Target: "/run/lock", Source: "../tmp"},
		{Kind: launch.Symlink, Target: "/run/mysqld", Source: "../tmp"},
		{Kind: launch.Symlink, Target: "/run/postgresql", Source: "../tmp"},
		{Kind: launch.Symlink, Target: "/run/redis", Source: "../tmp"},
		{Kind: launch.Symlink, Target: "/run/screen", Source: "../tmp"},
	}
)

// siteProfile has R's default repositories, in code of the administrator's.
const siteProfile = "R/Rprofile.site"

// What namesCredential knows: whole names, their endings, and words in them.
var (
	credentialNames = []string{
		"shadow", "gshadow", "npmrc", ".netrc", "pip.conf", "settings.xml", "settings-security.xml",
		"auth.json", "private",
	}
	credentialTypes = []string{".key", ".pem", ".p12", ".pfx", ".jks", ".kdbx", ".keytab"}
	credentialWords = []string{"secret", "password", "passwd", "credential", "token"}
)

// maxSettings is how many names settingsOnly looks at. A directory with more is not a program's
// settings.
const maxSettings = 2000

// settingsOnly reports whether a directory has nothing but directories, links, and files that all
// may read and whose names are not those of credentials.
func settingsOnly(dir string) bool {
	fd, err := dirents.Open(dir, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	left := maxSettings
	return err == nil && !namesCredential(filepath.Base(real)) && settingsIn(fd, make([]byte, 8<<10), &left) == nil
}

// settingsIn is settingsOnly for the open directory fd, of which left more names are looked at. buf
// is space to read with.
func settingsIn(fd int, buf []byte, left *int) error {
	var below []string
	err := dirents.Each(fd, buf, func(name []byte, typ uint8) error {
		if *left--; *left <= 0 || namesCredential(string(name)) {
			return fs.ErrPermission
		}
		switch typ {
		case unix.DT_LNK:
		case unix.DT_DIR:
			below = append(below, string(name))
		default:
			var st unix.Stat_t
			if err := unix.Fstatat(fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || !publicFile(&st) {
				return fs.ErrPermission
			}
		}
		return nil
	})
	for _, name := range below {
		if err != nil {
			return err
		}
		var sub int
		if sub, err = unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			err = settingsIn(sub, buf, left)
			_ = unix.Close(sub)
		}
	}
	return err
}

// publicFile reports whether all may read a regular file.
func publicFile(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o004 != 0
}

// namesCredential reports whether a name in /etc is one of a file with credentials, whatever its
// mode.
func namesCredential(name string) bool {
	name = strings.ToLower(name)
	if slices.Contains(credentialNames, name) || slices.Contains(credentialTypes, filepath.Ext(name)) {
		return true
	}
	if !slices.ContainsFunc(credentialWords, func(word string) bool { return strings.Contains(name, word) }) {
		return false // of most names, sooner
	}
	words := strings.FieldsFunc(name, func(c rune) bool { return c < 'a' || c > 'z' }) // not tokenizer.ini
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.Contains(credentialWords, strings.TrimSuffix(word, "s"))
	})
}

// plainCode reports whether the open file fd, of a size, has nothing that is a credential or reads
// one: no such word, and no user in a URL.
func plainCode(fd int, size int64) bool {
	text := make([]byte, min(size, 64<<10))
	n, err := unix.Pread(fd, text, 0)
	code := strings.ToLower(string(text))
	names := func(word string) bool { return strings.Contains(code, word) }
	return err == nil && int64(n) == size && !slices.ContainsFunc(credentialWords, names) &&
		!slices.ContainsFunc([]string{"@", "_pat", "key", "auth"}, names)
}

// etcNames are the names in directories of /etc, as far as they were looked at.
type etcNames map[string][]string

// in returns the names in a directory of /etc.
func (e etcNames) in(dir string) []string {
	names, known := e[dir]
	if known {
		return names
	}
	if fd, err := dirents.Open("/etc/"+dir, 0); err == nil {
		_ = dirents.Each(fd, make([]byte, 16<<10), func(name []byte, _ uint8) error { // as far as it can be read
			names = append(names, string(name))
			return nil
		})
		_ = unix.Close(fd)
	}
	e[dir] = names
	return names
}

// found returns the names in /etc, without /etc/, that match patterns, which have one star at most.
// There may be nothing of a name.
func (e etcNames) found(patterns []string) (names []string) {
	for _, pattern := range patterns {
		head, tail, star := strings.Cut(pattern, "*")
		if !star {
			names = append(names, pattern)
			continue
		}
		dir, prefix := path.Split(head)
		suffix, rest := tail, ""
		if i := strings.IndexByte(tail, '/'); i >= 0 {
			suffix, rest = tail[:i], tail[i:]
		}
		first := len(names)
		for _, name := range e.in(dir) {
			if len(name) >= len(prefix)+len(suffix) && strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
				names = append(names, dir+name+rest)
			}
		}
		slices.Sort(names[first:])
	}
	return names
}

// dirs returns the names of directories in /etc that match patterns.
func (e etcNames) dirs(patterns []string) []string {
	return slices.DeleteFunc(e.found(patterns), func(name string) bool {
		var st unix.Stat_t
		return unix.Stat("/etc/"+name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR
	})
}

// distro returns the names of the directories of distroDirs that are shown beside mounts.
func (e etcNames) distro(mounts []runtime.Mount) []string {
	return slices.DeleteFunc(e.dirs(distroDirs), func(name string) bool {
		return meets(mounts, "/etc/"+name) || !settingsOnly("/etc/"+name)
	})
}

// distroVar returns the mounts of distroData, and distroLinks, beside mounts.
func distroVar(mounts []runtime.Mount) (shown []launch.Mount) {
	for _, link := range distroLinks {
		if !meets(mounts, link.Target) {
			shown = append(shown, link)
		}
	}
	for _, dir := range distroData {
		if st, err := os.Lstat(dir); err == nil && st.IsDir() && st.Mode()&0o005 == 0o005 && !meets(mounts, dir) {
			shown = append(shown, launch.Mount{Source: dir, Target: dir})
		}
	}
	return shown
}

// joinable parts the mounts in /var from the others of spec.Root, and returns the user's mounts in
// /var, such as caches. It leaves all there if they are too few to be worth one more, or what the
// user has in /var is no directory beside them.
func joinable(spec *launch.Spec) (rest, joined, users []launch.Mount) {
	for _, m := range spec.Root {
		if pathname.Within(m.Target, "/var") {
			joined = append(joined, m)
		} else {
			rest = append(rest, m)
		}
	}
	apart := len(joined) >= 3
	for _, m := range spec.Mounts() {
		if !pathname.Within(m.Target, "/var") || slices.Contains(joined, m) {
			continue
		}
		users = append(users, m)
		apart = apart && m.Kind == launch.Bind && !slices.ContainsFunc(joined, func(j launch.Mount) bool {
			return pathname.Within(m.Target, j.Target) || pathname.Within(j.Target, m.Target)
		})
	}
	if !apart {
		return spec.Root, nil, nil
	}
	return rest, joined, users
}

// joinVar mounts what spec has in /var below one new directory, and has the backend mount that: a
// mount takes bubblewrap 0.08 ms.
func joinVar(b *boot.Params, spec *launch.Spec) (err error) {
	rest, joined, users := joinable(spec)
	for _, m := range users {
		if st, err := os.Stat(m.Source); err != nil || !st.IsDir() {
			return nil // the backend makes its place, or says what is wrong
		}
	}
	if len(joined) == 0 {
		return nil
	}
	spec.Root = append(rest, launch.Mount{Source: at(b, "var"), Target: "/var"})
	for _, m := range joined {
		place := at(b, m.Target)
		if m.Kind == launch.Symlink {
			err = errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.Symlink(m.Source, place))
		} else if err = os.MkdirAll(place, 0o755); err == nil {
			err = unix.Mount(m.Source, place, "", unix.MS_BIND|unix.MS_REC, "")
			spec.HostVar = append(spec.HostVar, m.Target)
		}
		if err != nil {
			return fmt.Errorf("mount the host's %s: %w", m.Target, err)
		}
	}
	for _, m := range users {
		if err := os.MkdirAll(at(b, m.Target), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// meets reports whether a mount is at a directory, in it, or holds it.
func meets(mounts []runtime.Mount, dir string) bool {
	return slices.ContainsFunc(mounts, func(m runtime.Mount) bool {
		return pathname.Within(dir, m.Target) || pathname.Within(m.Target, dir)
	})
}
