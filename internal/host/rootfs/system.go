package rootfs

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/md5" // what dpkg(1) records
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A sandbox with root inside and no image has the host's system, and may change what it sees of it:
//
//	/usr          an overlay over a FUSE view of the host's, in which root owns all
//	/etc          what MakeSystem copies of what is public, and the sandbox's changes over it
//	/var          the same: the package databases, and empty directories
//
// Overlayfs copies no file up whose owner its user namespace lacks: hence the view.

// dpkgDir is the database of dpkg(1).
const dpkgDir = "/var/lib/dpkg"

const systemFix = "add --image, such as debian:bookworm-slim"

// CheckSystem returns why no sandbox can have the host's system with root inside, or nil: only what
// dpkg(1) manages is known well enough. It does not look into the database, which MakeSystem does.
func CheckSystem() error {
	if release, err := readFile("/etc/os-release"); err != nil || !debian(release) {
		return runtime.Errorf(runtime.ErrUnsupported, "root inside without an image needs a host with Debian or Ubuntu: %s", systemFix)
	}
	if st, err := os.Lstat("/bin"); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return runtime.Errorf(runtime.ErrUnsupported, "root inside without an image needs a host whose /bin is a link to /usr/bin: %s", systemFix)
	}
	why := ""
	if names, err := os.ReadDir(dpkgDir + "/updates"); err == nil && len(names) > 0 {
		why = "dpkg has not finished"
	}
	locks, _ := os.ReadFile("/proc/locks")
	for _, name := range []string{"lock", "lock-frontend"} {
		var st unix.Stat_t
		if unix.Stat(dpkgDir+"/"+name, &st) == nil && lockedIn(string(locks), &st) {
			why = "another process has locked it"
		}
	}
	return inUse(why)
}

// checkPackages returns why the host's package database cannot be copied, or nil.
func checkPackages() error {
	if err := CheckSystem(); err != nil {
		return err
	}
	status, err := readStatus()
	if err != nil {
		return runtime.Errorf(runtime.ErrUnsupported, "root inside without an image: the host's package database: %w: %s", err, systemFix)
	}
	return inUse(unsettled(status))
}

// inUse is the error for the reason why; nil without one.
func inUse(why string) error {
	if why != "" {
		return runtime.Errorf(runtime.ErrUnavailable, "root inside without an image copies the host's package database, which is in use (%s): try again when apt or dpkg has ended, or repair it with dpkg --configure -a; or %s", why, systemFix)
	}
	return nil
}

// debian reports whether a text of os-release(5) is of Debian, Ubuntu, or a system made of them.
func debian(release string) bool {
	for line := range strings.Lines(release) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		ids := strings.Fields(strings.Trim(value, "\"'"))
		if (name == "ID" || name == "ID_LIKE") && (slices.Contains(ids, "debian") || slices.Contains(ids, "ubuntu")) {
			return true
		}
	}
	return false
}

// unsettled returns which package a text of dpkg's status has that is neither installed nor removed;
// empty if none.
func unsettled(status []byte) string {
	name := ""
	for line := range bytes.Lines(status) {
		if text, ok := bytes.CutPrefix(line, []byte("Package: ")); ok {
			name = strings.TrimSpace(string(text))
		} else if text, ok := bytes.CutPrefix(line, []byte("Status: ")); ok {
			f := strings.Fields(string(text))
			if len(f) != 3 || f[1] != "ok" || !slices.Contains([]string{"installed", "config-files", "not-installed"}, f[2]) {
				return fmt.Sprintf("package %.100q is half installed", name)
			}
		}
	}
	return ""
}

// lockedIn reports whether the text of /proc/locks has one on a file.
func lockedIn(locks string, st *unix.Stat_t) bool {
	file := fmt.Sprintf(" %02x:%02x:%d ", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	return strings.Contains(locks, file)
}

// A View mounts a view of the host's /usr on dir, and returns a function that waits until it is served.
type View func(dir string) (served func() error, err error)

// composeSystem mounts the root directory of a sandbox with root inside over the host's system.
func composeSystem(b *boot.Params, spec *launch.Spec, view View) error {
	usr := at(b, "usr")
	if err := os.Mkdir(usr, 0o755); err != nil {
		return err
	}
	served, err := view(usr)
	if err != nil {
		return err
	}
	if err := composeImage(b, spec); err != nil {
		return err
	}
	if err := served(); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "show /usr: %w", err)
	}
	upper, work := statedir.UsrUpper(b.Run)
	if b.InDoubt {
		if err := unused(usr, upper); err != nil {
			return err
		}
	}
	return mountOver([]string{usr}, upper, work, spec.RootDir+"/usr", b.Config.BoundToCaller)
}

// What MakeSystem makes.
var (
	// systemEmpty are directories.
	systemEmpty = []string{
		"boot", "dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "run/lock", "srv", "sys", "tmp", "usr", "var", "var/tmp",
		"etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/backups", "var/cache/apt/archives/partial",
		"var/cache/debconf", "var/lib/apt/lists/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates",
		"var/lib/dpkg/triggers", "var/lib/dpkg/alternatives", "var/lib/dpkg/parts", "var/lib/misc", "var/lib/ucf/cache",
		"var/local", "var/log/apt", "var/mail", "var/spool",
	}
	// systemData are directories of the host that are copied, as far as all may read them.
	systemData = []string{dpkgDir, "/var/lib/apt", "/var/lib/pam"}
	// unneeded are endings of names in dpkg's database that only builds of packages read.
	unneeded = []string{".symbols", ".shlibs", "-old"}
	// etcMade are patterns of names in /etc that no package ships: it is made by maintainer scripts,
	// of what packages ship, or says where packages come from.
	etcMade = []string{
		"pam.d/common-*", "shells", "ca-certificates.conf", "apt/sources.list",
		"apt/sources.list.d/*", "apt/trusted.gpg*", "apt/keyrings", "rc*.d",
	}
)

// SystemKey names the state of what MakeSystem copies: it is another one when that has changed.
func SystemKey() string {
	names := etcNames{}
	key := []byte(systemFormat)
	for _, name := range slices.Concat([]string{"passwd", "group"}, names.found(slices.Concat(hostFiles, hostDirs, distroFiles, distroDirs, etcMade))) {
		key = appendState(key, "/etc/"+name)
	}
	for _, name := range systemState {
		key = appendState(key, name)
	}
	return string(key)
}

// systemFormat is another one when MakeSystem makes something else.
const systemFormat = "1"

// systemState are files and directories that change whenever systemData does.
var systemState = []string{
	dpkgDir + "/status", dpkgDir + "/info", dpkgDir + "/alternatives", dpkgDir + "/triggers", dpkgDir + "/diversions",
	dpkgDir + "/statoverride", "/var/lib/apt/extended_states", "/var/lib/apt/lists", "/var/lib/pam",
}

// appendState appends to a key what is different when a file has changed, or a name in a directory.
func appendState(key []byte, name string) []byte {
	var st unix.Stat_t
	_ = unix.Lstat(name, &st) // zero: it is not there
	return fmt.Appendln(key, name, st.Dev, st.Ino, st.Mode, st.Size, st.Mtim, st.Ctim)
}

// A SystemOwner is a file of MakeSystem's that does not belong to root, or has another mode.
type SystemOwner struct {
	Path           string // without a slash in front
	UID, GID, Mode uint32 // Mode without the type
}

// MakeSystem makes the directory to with what a sandbox has of the host's system at first, beside /usr:
// all of it is the caller's. What all may not read on the host is not in it, also if the caller is root.
func MakeSystem(to string) ([]SystemOwner, error) {
	key := SystemKey()
	if err := checkPackages(); err != nil {
		return nil, err
	}
	c := &systemCopy{to: to, open: map[string]bool{"/": true}, owners: map[string]SystemOwner{}}
	for _, dir := range systemEmpty {
		if err := c.empty("/" + dir); err != nil {
			return nil, err
		}
	}
	if err := c.links(); err != nil {
		return nil, err
	}
	etc := make(chan error, 1)
	go func() { etc <- c.etc() }() // ends with the copy
	var err error
	for _, dir := range systemData {
		err = errors.Join(err, c.tree(dir, true))
	}
	if err = errors.Join(err, <-etc); err != nil {
		return nil, err
	}
	if err = errors.Join(c.shipped(), c.openAll()); err != nil {
		return nil, err
	}
	if err := checkPackages(); err != nil { // of what was copied meanwhile too
		return nil, err
	}
	if SystemKey() != key {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "it has changed meanwhile: try again")
	}
	return slices.SortedFunc(maps.Values(c.owners), func(a, b SystemOwner) int { return cmp.Compare(a.Path, b.Path) }), nil
}

// A systemCopy copies names of the host's to the directory to. It copies no file that not all may
// read, and nothing in a directory that not all may enter.
type systemCopy struct {
	to     string
	mu     sync.Mutex
	open   map[string]bool        // directories, by whether all may enter them; guarded by mu
	owners map[string]SystemOwner // by path; not for concurrent use
}

// entered reports whether all may enter a directory of the host's, and those above it.
func (c *systemCopy) entered(dir string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enteredLocked(dir)
}

func (c *systemCopy) enteredLocked(dir string) bool {
	is, known := c.open[dir]
	if !known {
		var st unix.Stat_t
		is = c.enteredLocked(filepath.Dir(dir)) && unix.Stat(dir, &st) == nil && st.Mode&0o001 != 0
		c.open[dir] = is
	}
	return is
}

// empty makes a directory, and those above it, with the owner and mode of the host's.
func (c *systemCopy) empty(name string) error {
	err := os.MkdirAll(c.to+name, 0o700)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTDIR) { // a link is in its place
		return nil
	}
	c.own(name, unix.S_IFDIR|0o755)
	return err
}

// own notes the owner and mode of a file of the host's of the type in usual, unless they are root's and
// usual. Those of people are not known inside.
func (c *systemCopy) own(name string, usual uint32) {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil || st.Mode&unix.S_IFMT != usual&unix.S_IFMT || st.Uid >= firstPerson || st.Gid >= firstPerson {
		return
	}
	if st.Uid != 0 || st.Gid != 0 || st.Mode != usual {
		c.owners[name] = SystemOwner{name[1:], st.Uid, st.Gid, st.Mode & 0o7777}
	}
}

// openAll gives all that was copied a mode with which all can read it, whatever the umask.
func (c *systemCopy) openAll() error {
	return filepath.WalkDir(c.to, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.Type()&fs.ModeSymlink != 0:
			return err
		case d.IsDir():
			return os.Chmod(name, 0o755)
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(name, 0o644|st.Mode()&0o100/0o100*0o111)
	})
}

// links makes the links of the host's root directory that lead into /usr.
func (c *systemCopy) links() error {
	entries, err := rootEntries("/", func(name string) bool { return slices.Contains(systemDirs, name) })
	for _, m := range entries {
		if m.Kind == launch.Symlink {
			err = errors.Join(err, os.Symlink(m.Source, c.to+m.Target))
		}
	}
	return errors.Join(err, os.Symlink("../run", c.to+"/var/run"), os.Symlink("../run/lock", c.to+"/var/lock"))
}

// tree copies a directory, or with a file the file. What vanishes meanwhile is left out. all says that
// names of credentials are copied too: of packages' own data.
func (c *systemCopy) tree(name string, all bool) error {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil || !c.entered(filepath.Dir(name)) || !all && namesCredential(filepath.Base(name)) {
		return nil
	}
	to := c.to + name
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(name)
		if err == nil {
			err = os.Symlink(target, to)
		}
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	case unix.S_IFREG:
		return c.file(name, nil)
	case unix.S_IFDIR:
		if st.Mode&0o005 != 0o005 {
			return nil
		}
		names, err := os.ReadDir(name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		for _, d := range names {
			if strings.HasPrefix(name, dpkgDir) && slices.ContainsFunc(unneeded, func(end string) bool { return strings.HasSuffix(d.Name(), end) }) {
				continue
			}
			if err := c.tree(name+"/"+d.Name(), all); err != nil {
				return err
			}
		}
	}
	return nil
}

// file copies a file that all may read, with its mode, and if want is nil or accepts its content.
func (c *systemCopy) file(name string, want func(text []byte) bool) error {
	var st unix.Stat_t
	in, err := openRegular(name, &st)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(in), name)
	defer f.Close()
	if !publicFile(&st) || !c.entered(filepath.Dir(name)) {
		return nil
	}
	if want != nil {
		if text, err := readUpTo(f); err != nil || !want([]byte(text)) {
			return err
		}
		if _, err := f.Seek(0, 0); err != nil {
			return err
		}
	}
	to := c.to + name
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
			out, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = out.ReadFrom(f) // copy_file_range(2), which shares the blocks where the file system can
		if st.Mode&0o111 != 0 {
			err = errors.Join(err, out.Chmod(0o700))
		}
		err = errors.Join(err, out.Close())
	}
	return err
}

// etc copies what a sandbox without root inside is shown of /etc, the files there that packages ship
// and is unchanged, and etcMade. What an administrator has written is not in it, nor are users of
// people.
func (c *systemCopy) etc() error {
	names := etcNames{}
	for _, name := range slices.Concat(hostFiles, names.found(distroFiles)) {
		if c.entered(filepath.Dir("/etc/" + name)) {
			if err := copyEtc(c.to+"/etc", name, true); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Concat(names.dirs(hostDirs), names.distro(nil)) { // settingsOnly, or without secrets
		if err := c.tree("/etc/"+name, true); err != nil {
			return err
		}
	}
	status, err := readStatus()
	if err != nil {
		return err
	}
	for name, sum := range conffiles(status) {
		err := c.file(name, func(text []byte) bool {
			is := md5.Sum(text)
			return hex.EncodeToString(is[:]) == sum
		})
		if err != nil {
			return err
		}
	}
	for _, name := range names.found(etcMade) {
		from, secret := "/etc/"+name, func(text []byte) bool {
			return !bytes.Contains(text, []byte("@")) && !bytes.Contains(text, []byte("PASS"))
		}
		st, lerr := os.Lstat(from)
		if lerr == nil && st.Mode().IsRegular() && !strings.HasPrefix(name, "apt/trusted") {
			err = c.file(from, secret) // not https://user:token@host
		} else {
			err = c.tree(from, false)
		}
		if err != nil {
			return err
		}
	}
	return c.users()
}

func readStatus() ([]byte, error) { return os.ReadFile(dpkgDir + "/status") }

// conffiles returns the files in /etc that a text of dpkg's status has, and the MD5 sums of what the
// packages ship.
func conffiles(status []byte) map[string]string {
	sums := map[string]string{}
	for line := range bytes.Lines(status) {
		f := strings.Fields(string(line))
		if line[0] == ' ' && len(f) == 2 && strings.HasPrefix(f[0], "/etc/") && filepath.Clean(f[0]) == f[0] && len(f[1]) == 2*md5.Size {
			sums[f[0]] = f[1]
		}
	}
	return sums
}

// firstPerson is the lowest id that Debian gives to people (adduser.conf(5)).
const firstPerson = 1000

// users makes the databases of users, with those of the system, who have no password.
func (c *systemCopy) users() error {
	for name, shadow := range map[string]string{"passwd": "%s:*:19000:0:99999:7:::\n", "group": "%s:*::\n"} {
		text, err := readFile("/etc/" + name)
		if err != nil {
			return err
		}
		var kept, shadows strings.Builder
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
			if len(f) < 4 {
				continue
			}
			id, err := strconv.Atoi(f[2])
			if err != nil || id >= firstPerson && id != 65534 {
				continue
			}
			if f[1] = "x"; name == "group" {
				f[3] = ""
			}
			kept.WriteString(strings.Join(f, ":") + "\n")
			fmt.Fprintf(&shadows, shadow, f[0])
		}
		other := map[string]string{"passwd": "shadow", "group": "gshadow"}[name]
		if err := errors.Join(os.WriteFile(c.to+"/etc/"+name, []byte(kept.String()), 0o644), os.WriteFile(c.to+"/etc/"+other, []byte(shadows.String()), 0o600)); err != nil {
			return err
		}
	}
	for _, name := range []string{"/etc/shadow", "/etc/gshadow"} {
		c.own(name, unix.S_IFREG|0o600)
	}
	return errors.Join(
		os.WriteFile(c.to+"/etc/nsswitch.conf", fmt.Appendf(nil, nsswitch, "files dns"), 0o644),
		os.Symlink("../proc/self/mounts", c.to+"/etc/mtab"),
	)
}

// shipped makes the directories in /etc and /var that installed packages have, without what is in
// them.
func (c *systemCopy) shipped() error {
	lists, err := filepath.Glob(c.to + dpkgDir + "/info/*.list")
	for _, list := range lists {
		f, oerr := os.Open(list)
		if oerr != nil {
			return oerr
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			name := lines.Text()
			if !strings.HasPrefix(name, "/var/") && !strings.HasPrefix(name, "/etc/") || filepath.Clean(name) != name {
				continue
			}
			if st, lerr := os.Lstat(name); lerr == nil && st.IsDir() {
				err = errors.Join(err, c.empty(name))
			}
		}
		_ = f.Close()
	}
	return err
}
