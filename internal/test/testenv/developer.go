package testenv

import (
	"os"
	"path/filepath"
	"strings"
)

// developers are variables by which a developer's shell changes what programs print and do.
var developers = []string{
	"EDITOR", "VISUAL", "PAGER", "EMAIL", "BASH_ENV", "ENV", "CDPATH", "LANG", "LANGUAGE", "TZ", "NO_COLOR",
	"SSH_AUTH_SOCK", "XDG_STATE_HOME", "XDG_DATA_HOME", "WOLFFIA_STATE_DIR",
}

// A test program has nothing of the developer's own configuration, of git and of wolffia. HOME
// stays: it has the caches of go, and what a registry of packages needs. So do PATH and the
// settings of go.
func init() {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "LC_") {
			os.Unsetenv(name)
		}
	}
	for _, name := range developers {
		os.Unsetenv(name)
	}
	if dir, err := os.UserConfigDir(); err == nil && os.Getenv("GOENV") == "" {
		os.Setenv("GOENV", filepath.Join(dir, "go", "env"))
	}
	for name, value := range map[string]string{"XDG_CONFIG_HOME": "/proc/none", "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1"} {
		os.Setenv(name, value)
	}
}
