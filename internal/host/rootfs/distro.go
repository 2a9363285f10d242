package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/internal/pathname"
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
		"R/Makeconf", "R/javaconf", "vim/vimrc", "X11/rgb.txt", "python3/debian_config",
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
)

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
	n := 0
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	return filepath.WalkDir(real, func(_ string, d fs.DirEntry, err error) error {
		if n++; err != nil || n > maxSettings || namesCredential(d.Name()) {
			return errors.Join(err, fs.ErrPermission)
		}
		if d.IsDir() || d.Type() == fs.ModeSymlink {
			return nil
		}
		if st, err := d.Info(); err != nil || !publicFile(st) {
			return errors.Join(err, fs.ErrPermission)
		}
		return nil
	}) == nil
}

// publicFile reports whether all may read a regular file.
func publicFile(st fs.FileInfo) bool { return st.Mode().IsRegular() && st.Mode()&0o004 != 0 }

// namesCredential reports whether a name in /etc is one of a file with credentials, whatever its
// mode.
func namesCredential(name string) bool {
	name = strings.ToLower(name)
	words := strings.FieldsFunc(name, func(c rune) bool { return c < 'a' || c > 'z' }) // not tokenizer.ini
	return slices.Contains(credentialNames, name) || slices.Contains(credentialTypes, filepath.Ext(name)) ||
		slices.ContainsFunc(words, func(word string) bool {
			return slices.Contains(credentialWords, strings.TrimSuffix(word, "s"))
		})
}

// foundInEtc returns the names in /etc, without /etc/, that match patterns.
func foundInEtc(patterns []string) (names []string) {
	for _, pattern := range patterns {
		if !strings.Contains(pattern, "*") { // one call of the kernel less
			names = append(names, pattern)
			continue
		}
		found, _ := filepath.Glob("/etc/" + pattern) // the patterns are valid
		for _, path := range found {
			names = append(names, strings.TrimPrefix(path, "/etc/"))
		}
	}
	return names
}

// distroIn returns the names in /etc of the files of distroFiles that are copied.
func distroIn() []string {
	return slices.DeleteFunc(foundInEtc(distroFiles), func(name string) bool {
		st, err := os.Stat("/etc/" + name)
		return err != nil || !publicFile(st) || namesCredential(filepath.Base(name))
	})
}

// distroEtc returns the names of the directories of distroDirs that are shown beside mounts.
func distroEtc(mounts []runtime.Mount) []string {
	return slices.DeleteFunc(foundInEtc(distroDirs), func(name string) bool {
		st, err := os.Stat("/etc/" + name)
		return err != nil || !st.IsDir() || meets(mounts, "/etc/"+name) || !settingsOnly("/etc/"+name)
	})
}

// distroVar returns the mounts of distroData beside mounts.
func distroVar(mounts []runtime.Mount) (shown []launch.Mount) {
	for _, dir := range distroData {
		if st, err := os.Lstat(dir); err == nil && st.IsDir() && st.Mode()&0o005 == 0o005 && !meets(mounts, dir) {
			shown = append(shown, launch.Mount{Source: dir, Target: dir})
		}
	}
	return shown
}

// meets reports whether a mount is at a directory, in it, or holds it.
func meets(mounts []runtime.Mount, dir string) bool {
	return slices.ContainsFunc(mounts, func(m runtime.Mount) bool {
		return pathname.Within(dir, m.Target) || pathname.Within(m.Target, dir)
	})
}
