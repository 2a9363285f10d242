// Package runsc finds gVisor's program, runsc. It tells its version, and whether it has
// wolffia's patches: one answer for the runtime and for wolffia doctor.
package runsc

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Version is the one that make runsc builds, and the tests run with. An older
// one is refused: its flags are others, and nobody has tried it.
const Version = "v0.0.0-20260905035102-160fafc42237"

// Patches names the patches that make runsc applies: the first digits of the
// SHA-256 of all files in runsc.patches, one after the other. A program without
// them is refused: what is in a sandbox would lose data by its answers.
const Patches = "e98695a27889"

// patched is the end of the version of a program that has the patches.
const patched = "+wolffia." + Patches

// Fix is what helps where there is none.
const Fix = "make runsc"

// ErrNone says that there is no runsc.
var ErrNone = errors.New("runsc is neither beside wolffia, nor in PATH, nor built by make runsc")

// A Found is a runsc that can be used.
type Found struct {
	Path    string
	Version string
}

// Find looks for a runsc that is not too old, and has the patches: in the directory beside, which
// may be empty, then in PATH, then where make runsc puts it. The error is
// ErrNone, or says what is wrong with those that there are.
func Find(ctx context.Context, beside string) (*Found, error) {
	var wrong []error
	for _, path := range places(beside, os.Getenv("PATH"), cached()) {
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		version, err := versionOf(ctx, path)
		if err == nil {
			err = check(version)
		}
		if err == nil {
			return &Found{path, version}, nil
		}
		wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
	}
	if len(wrong) == 0 {
		return nil, ErrNone
	}
	return nil, errors.Join(wrong...)
}

// places are where runsc may be, in order. What is not absolute is left out: it
// would depend on where one is.
func places(beside, path, cached string) []string {
	var list []string
	if filepath.IsAbs(beside) {
		list = append(list, filepath.Join(beside, "runsc"))
	}
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			list = append(list, filepath.Join(dir, "runsc"))
		}
	}
	if cached != "" {
		list = append(list, cached)
	}
	return list
}

// cached is where make runsc puts it; empty if the user has no such place.
func cached() string {
	dir, err := os.UserCacheDir()
	if err != nil || !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "wolffia", "runsc-"+Version+"-"+Patches)
}

// versionOf reads the version of a runsc that go build has made from the file;
// any other is asked, which takes ten times as long.
func versionOf(ctx context.Context, path string) (string, error) {
	info, err := buildinfo.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", err
	}
	if err == nil && info.Main.Path == "gvisor.dev/gvisor" && date(info.Main.Version) != "" {
		if slices.Contains(info.Settings, debug.BuildSetting{Key: "-tags", Value: "wolffia_" + Patches}) {
			return info.Main.Version + patched, nil
		}
		return info.Main.Version, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: []string{"runsc", "--version"}, Env: []string{}, Stdout: &out, WaitDelay: 5 * time.Second}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("--version fails: %w", errors.Join(err, ctx.Err()))
	}
	return parse(out.String())
}

// parse reads what runsc --version says.
func parse(text string) (string, error) {
	line, _, _ := strings.Cut(text, "\n")
	version, ok := strings.CutPrefix(line, "runsc version ")
	if !ok {
		return "", fmt.Errorf("it is not runsc: --version says %.60q", line)
	}
	return version, nil
}

// check refuses a version that is older than Version, says no date, or does not
// have the patches.
func check(version string) error {
	switch d := date(version); {
	case d == "":
		return fmt.Errorf("version %.60q has no date: it takes one from %s or later", version, date(Version))
	case d < date(Version):
		return fmt.Errorf("version %s is too old: it takes one from %s or later", version, date(Version))
	case !strings.HasSuffix(version, patched):
		return fmt.Errorf("version %.60q is without wolffia's patches: by its answers programs inside lose data", version)
	}
	return nil
}

// date is the day in a version, as yyyymmdd: of release-20260914.0, or of a
// module's v0.0.0-20260905035102-160fafc42237; empty if there is none.
func date(version string) string {
	for _, part := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || '9' < r }) {
		if (len(part) == 8 || len(part) == 14) && strings.HasPrefix(part, "20") {
			return part[:8]
		}
	}
	return ""
}
