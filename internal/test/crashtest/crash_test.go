package crashtest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
)

// How many rounds to do ("all": each that there is, and half as many at random
// times), from which seed, and which only: those with this in their name.
const (
	roundsVariable = "WOLFFIA_CRASH_ROUNDS"
	seedVariable   = "WOLFFIA_CRASH_SEED"
	onlyVariable   = "WOLFFIA_CRASH_ONLY"
)

// What the product is built of says nothing of steps.
func TestProductHasNoSteps(t *testing.T) {
	for dir, has := range map[string]bool{testbin.Dir(t): false, testbin.Crash(t): true} {
		b, err := os.ReadFile(filepath.Join(dir, "wolffia"))
		if err != nil || bytes.Contains(b, []byte(stepsVariable)) != has || bytes.Contains(b, []byte("remove: trees gone")) != has {
			t.Errorf("%s: steps are not %v in it (%v)", dir, has, err)
		}
	}
}

// A process is killed at any step: nothing that was acknowledged is lost,
// nothing that is dead is said to be alive, nothing is left without a record,
// and the owner is found again.
func TestCrash(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	crash(t, backend{name: bwrap.Name, shims: bwrap.Backend()}, slices.Concat(commandLines(), services(), fleets(), pooledOperations()), 1)
}

// The same with gVisor: a part of it, where there is the time.
func TestCrashGVisor(t *testing.T) {
	onGVisor(t)
	crash(t, backend{name: gvisor.Name, shims: gvisor.Backend()}, commandLines(), 8)
}

// The same with Docker.
func TestCrashDocker(t *testing.T) {
	onDocker(t)
	crash(t, backend{name: docker.Name, shims: docker.Backend()}, commandLines(), 8)
}

// long skips a test that takes minutes, unless rounds are asked for.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv(roundsVariable) == "" {
		testenv.Soak(t, "it takes minutes")
	}
}

// onGVisor skips a test where it cannot start sandboxes with gVisor.
func onGVisor(t *testing.T) {
	t.Helper()
	long(t)
	testenv.Need(t, probe.UserNamespaces, probe.Runsc, probe.Fuse)
}

// onDocker skips a test unless root runs it, who gets an engine of the test's own.
func onDocker(t *testing.T) {
	t.Helper()
	long(t)
	testenv.Root(t)
	testenv.Tools(t, "dockerd", "docker")
	e, err := dockertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("DOCKER_HOST", "unix://"+e.Socket)
	testenv.Need(t, probe.UserNamespaces, probe.Docker, probe.Fuse)
}

// random is what makes the choices of a test.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed: %s=%d", seedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// crash does one of share of the rounds of the operations.
func crash(t *testing.T, b backend, operations []operation, share int) {
	rnd := random(t)
	w := newWorld(t, b)
	var rounds []*round
	takes := map[*operation]time.Duration{}
	for _, op := range operations {
		if op.needs != nil && !op.needs(b) {
			t.Logf("SKIPPED %s: the host lacks what it needs", op.name)
			continue
		}
		some, time := w.survey(&op)
		steps := 0
		for i, r := range some {
			if i == 0 || r.at != some[i-1].at {
				steps++
				t.Logf("%s: step %d is %v", op.name, steps, r.at)
			}
		}
		rounds, takes[&op] = append(rounds, some...), time
	}
	rounds = choose(t, rounds, takes, rnd)
	rounds = rounds[:len(rounds)/share]
	tally := map[string]int{}
	missed, start := 0, time.Now()
	for i, r := range rounds {
		ok := t.Run(fmt.Sprintf("%d %v", i+1, r), func(t *testing.T) {
			outer := w.T
			defer func() { w.T = outer }()
			w.TB = t
			if w.do(r) {
				tally["victim "+r.victim]++
				tally["operation "+r.operation.name]++
			} else {
				missed++
			}
		})
		if !ok { // what is left would be the next one's
			w.endAll()
			w = newWorld(t, b)
		}
	}
	t.Logf("%d rounds in %v; in %d the victim was not there any more", len(rounds), time.Since(start).Round(time.Millisecond), missed)
	for _, name := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%s: %d", name, tally[name])
	}
	if missed > len(rounds)/3 {
		t.Errorf("too often no process was killed")
	}
}

// choose returns the rounds to do: of all operations and all victims equally
// many, at random steps, and some at random times.
func choose(t *testing.T, all []*round, takes map[*operation]time.Duration, rnd *rand.Rand) []*round {
	t.Helper()
	only := os.Getenv(onlyVariable)
	all = slices.DeleteFunc(all, func(r *round) bool { return !strings.Contains(r.String(), only) })
	t.Logf("there are %d rounds", len(all))
	n, want := len(all)+len(all)/2, os.Getenv(roundsVariable)
	if want != "all" {
		var err error
		if n, err = strconv.Atoi(want); err != nil {
			n = 12 // of other strata each time
		}
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	strata := map[string][]*round{}
	for _, r := range all {
		key := r.operation.name + "/" + r.victim
		strata[key] = append(strata[key], r)
	}
	names := slices.Sorted(maps.Keys(strata))
	rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var chosen []*round
	for taken := true; taken && len(chosen) < n; {
		taken = false
		for _, name := range names {
			if len(chosen) < n && len(strata[name]) > 0 {
				chosen, strata[name], taken = append(chosen, strata[name][0]), strata[name][1:], true
			}
			if len(chosen)%5 == 4 && len(chosen) < n && want != "" && only == "" {
				r := all[rnd.IntN(len(all))]
				chosen = append(chosen, &round{operation: r.operation, victim: r.victim, after: time.Duration(rnd.Int64N(int64(takes[r.operation] / 3)))}) // the survey was slow: it looked at each step
			}
		}
	}
	return chosen
}
