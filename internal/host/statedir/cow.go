package statedir

import (
	"os"
	"path/filepath"

	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/statefile"
)

// Names of a copied codebase, in the directory of [Cow].
const (
	cowDir   = "cow"
	CowUpper = "upper" // what the sandbox has changed, as of package fusefs/cow
	// for temporary names of the tree server, which empties it at each start
	CowWork  = "work"
	CowLog   = "base.log"   // what the host had: a cow.Log
	CowUndo  = "undo"       // what an apply that was killed has left
	CowHosts = "hosts.json" // as GitHosts, of the .git in CowUpper
	// the memory that the next start restores: launch.MemoryFiles. As CowSnapshots, a sandbox may
	// have it without a copied codebase
	CowMemory = "memory"
	// the first of launch.MemoryFiles: empty, if the memory was restored, or never complete
	MemoryRecord = "config.json"

	// CowSnapshots has a directory for each snapshot, with CowParts.
	CowSnapshots = "snapshots"
	// CowRestored is a copy of a snapshot that is to replace CowParts.
	CowRestored = "restored"
	CowComing   = ".new" // begins the name of a snapshot, or of CowRestored, that is not complete
)

// CowParts are what a snapshot has. CowHosts and CowMemory may be missing. Without a copied
// codebase it has CowMemory only.
var CowParts = []string{CowUpper, CowLog, CowHosts, CowMemory}

// Cow returns the directory of a copied codebase, for a program that knows only the run directory.
// It belongs to the user that the tree server runs as, and survives Stop.
func Cow(run string) string { return filepath.Join(filepath.Dir(run), cowDir) }

// ForgetMemory removes the memory with which a sandbox hibernates.
func ForgetMemory(run string) error { return rmtree.RemovePath(run, CowMemory) }

// HasChanges reports whether a copied codebase may have changes, or a snapshot of some. It looks
// at no file.
func (rec *Record) HasChanges() bool {
	for _, name := range []string{CowUpper, CowSnapshots} {
		if list, err := names(filepath.Join(Cow(rec.Run()), name)); err != nil || len(list) > 0 {
			return true
		}
	}
	return false
}

// HasUndo reports whether an apply that was killed may have left temporary names on the host,
// which a tree server puts right.
func (rec *Record) HasUndo() bool {
	info, err := os.Lstat(filepath.Join(Cow(rec.Run()), CowUndo))
	return err == nil && info.Size() > 0
}

// makeCow makes what Cow returns.
func (rec *Record) makeCow(c *Config) error {
	dir := Cow(rec.Run())
	upper, work, log := filepath.Join(dir, CowUpper), filepath.Join(dir, CowWork), filepath.Join(dir, CowLog)
	for _, d := range []string{dir, upper, work} {
		if err := mkdir(d); err != nil {
			return err
		}
	}
	if err := statefile.Create(log, nil); err != nil {
		return err
	}
	if c.DroppedUID == 0 || c.RootTree {
		return nil
	}
	for _, p := range []string{dir, upper, work, log} {
		if err := os.Lchown(p, c.DroppedUID, c.DroppedGID); err != nil {
			return err
		}
	}
	return nil
}

// ValidSnapshot reports whether a snapshot can have a name: 1 to 64 letters, digits, dots, dashes
// and underscores; the first is a letter or digit.
func ValidSnapshot(name string) bool {
	for i := range len(name) {
		c := name[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return 0 < len(name) && len(name) <= 64
}
