package testenv

import (
	"debug/elf"
	"os/exec"
	"slices"
	"testing"
)

// Busybox returns the path of a busybox that needs no library, which is all that
// some of the tests' images have in them. Without one the test is skipped, or
// fails, as with Tools: Debian has it in the package busybox-static.
func Busybox(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"busybox.static", "busybox-static", "busybox"} { // Alpine's, openSUSE's, all others'
		if path, err := exec.LookPath(name); err == nil && isStatic(path) {
			return path
		}
	}
	lack(t, "the program busybox, linked statically", required("tools") || required("all"), "there is none, or one that needs libraries", "scripts/setup test")
	return ""
}

// isStatic reports whether a program starts without a dynamic linker.
func isStatic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
