package runsc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What make runsc builds is what the code asks for.
func TestVersionIsThatOfTheModuleFile(t *testing.T) {
	mod, err := os.ReadFile("../../../runsc.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "\tgvisor.dev/gvisor "+Version+" ") {
		t.Errorf("runsc.mod does not have version %s", Version)
	}
	if err := check(Version + patched); err != nil {
		t.Error(err)
	}
}

// The patches that make runsc applies are those that the code asks for.
func TestPatchesAreThoseOfTheDirectory(t *testing.T) {
	files, err := filepath.Glob("../../../runsc.patches/*.patch") // in order
	if err != nil || len(files) == 0 {
		t.Fatalf("%d patches, %v", len(files), err)
	}
	sum := sha256.New()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(b)
	}
	if want := fmt.Sprintf("%x", sum.Sum(nil))[:12]; Patches != want {
		t.Errorf("Patches is %s, want %s", Patches, want)
	}
}

func TestCheck(t *testing.T) {
	for version, want := range map[string]string{
		"release-20260914.0" + patched:                  "",
		"release-20260905.0" + patched:                  "",
		"v0.0.0-20270101000000-0123456789ab" + patched:  "",
		"release-20260914.0":                            "without wolffia's patches",
		"release-20260914.0+wolffia.0123456789ab":       "without wolffia's patches",
		"v0.0.0-20270101000000-0123456789ab":            "without wolffia's patches",
		"release-20250101.0" + patched:                  "too old",
		"release-20260904.0":                            "too old",
		"release-20250101.0-42-g0123456789ab":           "too old",
		"v0.0.0-20260904235959-0123456789ab":            "too old",
		"":                                              "no date",
		"VERSION_MISSING":                               "no date",
		"12345678":                                      "no date",
		"release-2026.1":                                "no date",
		"99999999999999999999999999999":                 "no date",
		"\x1b[2J" + strings.Repeat("x", 1000) + "\x1b[": "no date",
	} {
		err := check(version)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || len(err.Error()) > 300 || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%q: %v, want %q", version, err, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	got := places("/opt/w", "/a:relative::.:/b", "/home/ann/.cache/wolffia/runsc-v")
	if want := []string{"/opt/w/runsc", "/a/runsc", "/b/runsc", "/home/ann/.cache/wolffia/runsc-v"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := places("", "", ""); len(got) > 0 {
		t.Errorf("places: got %q; want len(got) <= 0", got)
	}
}

// The first that is good enough is taken; if there is none, all that is wrong
// is said.
func TestFind(t *testing.T) {
	put := func(dir, script string) string {
		t.Helper()
		file := filepath.Join(dir, "runsc")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	beside, inPath, home := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("PATH", inPath)
	t.Setenv("XDG_CACHE_HOME", home)
	if _, err := Find(t.Context(), beside); !errors.Is(err, ErrNone) {
		t.Errorf("of none: %v", err)
	}
	put(beside, "echo runsc version release-20200101.0; echo spec: 1")
	put(inPath, "echo something else")
	_, err := Find(t.Context(), beside)
	if err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "too old") || !strings.Contains(err.Error(), "not runsc") {
		t.Errorf("of two that are no good: %v", err)
	}
	put(inPath, "exit 1")
	if _, err := Find(t.Context(), beside); err == nil || !strings.Contains(err.Error(), "--version fails") {
		t.Errorf("of one that fails: %v", err)
	}
	put(inPath, "echo runsc version release-20991231.0; echo spec: 1")
	if _, err := Find(t.Context(), beside); err == nil || !strings.Contains(err.Error(), "without wolffia's patches") {
		t.Errorf("of one without patches: %v", err)
	}
	good := put(inPath, "echo runsc version release-20991231.0"+patched+"; echo spec: 1")
	if got, err := Find(t.Context(), beside); err != nil || got.Path != good || got.Version != "release-20991231.0"+patched {
		t.Errorf("Find: got %+v, err %v; want err == nil and got.Path == %v and got.Version == %q",
			got, err, good, "release-20991231.0"+patched)
	}
	if err := os.Chmod(good, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), beside); err == nil || strings.Contains(err.Error(), inPath) {
		t.Errorf("one that cannot be executed: %v", err)
	}
}
