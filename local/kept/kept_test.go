package kept

import (
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/host/statedir"
	"wolffia/runtime/launch"
)

// memory makes a memory with a record in a new directory.
func memory(t *testing.T, record string) (in *os.File) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, statedir.CowMemory), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range launch.MemoryFiles {
		text := "memory"
		if i == 0 {
			text = record
		}
		if err := os.WriteFile(filepath.Join(dir, statedir.CowMemory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// A start clears the record of the memory that it restores: it must be no other file. What is cleared is no memory.
func TestOpenIn(t *testing.T) {
	in := memory(t, "{}")
	files, err := openIn(in, new(statedir.Config))
	if err != nil || len(files) != len(launch.MemoryFiles) {
		t.Errorf("a memory: got %d files, %v", len(files), err)
	}
	closeAll(files)
	record := filepath.Join(in.Name(), statedir.CowMemory, launch.MemoryFiles[0])
	if err := os.Link(record, filepath.Join(in.Name(), "another")); err != nil {
		t.Fatal(err)
	}
	files, err = openIn(in, new(statedir.Config))
	if err == nil {
		t.Error("a record with a second name: got no error")
	}
	closeAll(files)
	used := memory(t, "")
	if files, err := openIn(used, new(statedir.Config)); files != nil || err != nil {
		t.Errorf("a memory that was restored: got %d files, %v", len(files), err)
	}
	if _, err := os.Lstat(filepath.Join(used.Name(), statedir.CowMemory)); err == nil {
		t.Error("a memory that was restored is still there")
	}
}

// The memory of a sandbox that hibernates again, before the start that has restored it goes on, is not that start's.
func TestForgetUsed(t *testing.T) {
	for record, stays := range map[string]bool{"": false, "{}": true} {
		in := memory(t, record).Name()
		for range 2 { // none is no error
			if err := forgetUsed(in); err != nil {
				t.Errorf("record %q: %v", record, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(in, statedir.CowMemory)); (err == nil) != stays {
			t.Errorf("record %q: it stays: %t; want %t", record, err == nil, stays)
		}
	}
}
