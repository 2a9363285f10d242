// Package runsc finds a program of gVisor's that has the right version with our patches.
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

// Version is the version that make runsc builds and the tests use. Older ones, which have
// other flags, are refused.
const Version = "v0.0.0-20260905035102-160fafc42237"

// Patches identifies the patches that make runsc applies: the first digits of the SHA-256
// of all files in runsc.patches, concatenated. A program without them is refused: its wrong
// results make programs inside lose data.
const Patches = "f417986e7ece"

// patched is the suffix of the version of a program with the patches.
const patched = "+wolffia." + Patches

// Fix is the command that installs runsc.
const Fix = "make runsc"

// ErrNone says that no runsc was found.
var ErrNone = errors.New("runsc is neither beside wolffia, nor in PATH, nor built by make runsc")

// A Found is a suitable runsc.
type Found struct {
	Path    string
	Version string
}

// Find returns the first suitable runsc in the directory beside, which may be empty, in
// PATH, and where make runsc installs it. The error is ErrNone, or the reasons why those
// that were found are not suitable.
func Find(ctx context.Context, beside string) (*Found, error) {
	var wrong []error
	for _, path := range places(beside, os.Getenv("PATH"), cached()) {
		st, err := os.Stat(path)
		if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue
		}
		version, err := VersionOf(ctx, path)
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

// places returns the paths where runsc may be, in order, without relative ones.
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

// cached returns where make runsc installs it; empty if the user has no cache directory.
func cached() string {
	dir, err := os.UserCacheDir()
	if err != nil || !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "wolffia", "runsc-"+Version+"-"+Patches)
}

// VersionOf returns the version of a runsc: from the build information in the file, or else
// from running it, which takes ten times as long.
func VersionOf(ctx context.Context, path string) (string, error) {
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

// parse returns the version in the output of runsc --version.
func parse(text string) (string, error) {
	line, _, _ := strings.Cut(text, "\n")
	version, ok := strings.CutPrefix(line, "runsc version ")
	if !ok {
		return "", fmt.Errorf("not runsc: --version prints %.60q", line)
	}
	return version, nil
}

// check returns an error for a version without a date, older than Version, or without the
// patches.
func check(version string) error {
	switch d := date(version); {
	case d == "":
		return fmt.Errorf("version %.60q has no date: one from %s or later is needed", version, date(Version))
	case d < date(Version):
		return fmt.Errorf("version %s is too old: one from %s or later is needed", version, date(Version))
	case !strings.HasSuffix(version, patched):
		return fmt.Errorf("version %.60q is without wolffia's patches: its wrong results make programs inside lose data", version)
	}
	return nil
}

// date returns the day in a version such as release-20260914.0 or
// v0.0.0-20260905035102-160fafc42237, as yyyymmdd; empty if it has no date.
func date(version string) string {
	for _, part := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || '9' < r }) {
		if (len(part) == 8 || len(part) == 14) && strings.HasPrefix(part, "20") {
			return part[:8]
		}
	}
	return ""
}
