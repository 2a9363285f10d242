package gitsync

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/testenv"
)

// What a sync costs on the host: processes of git, not those that git starts itself.
func TestProcesses(t *testing.T) {
	testenv.Tools(t, "git")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	w := makeWorld(t, 1)
	log, bin := filepath.Join(w.root, "log"), filepath.Join(w.root, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ \"$GIT_WORK_TREE\" = " + w.repo + " ] || echo \"$*\" >>" + log + "\nexec " + git + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		what string
		do   func()
		most int
	}{
		{"nothing", func() {}, 3},
		{"a commit inside", func() { w.must("echo x >>src/a; git commit -qam x") }, 8}, // the first looks at what was staged when the copy was made
		{"a commit on the host", func() { w.host("echo u >>src/a; git commit -qam u") }, 3},
		{"ten branches inside", func() {
			w.must("for k in 1 2 3 4 5 6 7 8 9 10; do git update-ref refs/heads/b$k $(git commit-tree -p main -m $k main^{tree}); done")
		}, 6},
		{"a switch inside", func() { w.must("git switch -q topic") }, 8},
	} {
		w.sync()
		c.do()
		_ = os.Remove(log)
		w.sync()
		b, _ := os.ReadFile(log)
		var names []string
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			for n := 0; n < len(f); n++ {
				if f[n] == "-c" {
					n++
					continue
				}
				names = append(names, f[n])
				break
			}
		}
		t.Logf("%s: %d processes of git on the host: %s", c.what, len(names), strings.Join(names, " "))
		if len(names) > c.most {
			t.Errorf("%s: %d processes of git on the host, want %d at most: %s", c.what, len(names), c.most, names)
		}
	}
}

// What is staged brings the objects that are new, not those of the whole tree.
func TestStagedIsSmall(t *testing.T) {
	testenv.Tools(t, "git")
	w := makeWorld(t, 1)
	w.must("for i in $(seq 300); do mkdir -p many/$i; echo $i >many/$i/f; done; git add many; git commit -qm many")
	w.sync()
	for _, change := range []string{"echo x >>src/a; git add src/a", "git reset -q"} {
		before := w.host("git count-objects -v | grep -e '^count' -e '^in-pack'")
		w.must(change)
		w.sync()
		var had, has int
		count := func(text string) (n int) {
			for _, f := range strings.Fields(text) {
				if v, err := strconv.Atoi(f); err == nil {
					n += v
				}
			}
			return n
		}
		had, has = count(before), count(w.host("git count-objects -v | grep -e '^count' -e '^in-pack'"))
		if has-had > 10 {
			t.Errorf("%s: the host has %d objects more", change, has-had)
		}
	}
}

// benchmark syncs what do does inside, b.N times.
func benchmark(b *testing.B, do func(w *world)) {
	w := makeWorld(b, 1)
	w.sync()
	var locked time.Duration
	var since time.Time
	w.boxes[0].pair.at = func(name string) {
		switch name {
		case "locked":
			since = time.Now()
		case "unlocked":
			locked += time.Since(since)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		b.StopTimer()
		do(w)
		b.StartTimer()
		w.sync()
	}
	b.ReportMetric(float64(locked.Microseconds())/float64(b.N), "µs-locked/op")
}

func BenchmarkNothing(b *testing.B) { benchmark(b, func(*world) {}) }

func BenchmarkUnchanged(b *testing.B) {
	w := makeWorld(b, 1)
	waitTick()
	w.sync()
	for b.Loop() {
		if _, same := w.boxes[0].pair.Unchanged(); !same {
			b.Fatal("changed")
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	benchmark(b, func(w *world) { w.must("echo x >>src/a; git commit -qam x") })
}

func BenchmarkHostCommit(b *testing.B) {
	benchmark(b, func(w *world) { w.host("echo x >>src/a; git commit -qam x") })
}

func BenchmarkThousandCommits(b *testing.B) {
	benchmark(b, func(w *world) {
		w.must(`(for k in $(seq 1000); do printf 'commit refs/heads/many\ncommitter a <a@x> %d +0000\ndata 1\nx\n' $((1700000000+k)); [ $k = 1 ] && echo 'from refs/heads/main^0'
printf 'M 100644 inline src/k%d\ndata <<E\n%d-'$(date +%N)'\nE\n\n' $((k%50)) $k; done) | git fast-import --quiet --force`)
	})
}
