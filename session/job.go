package session

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/sys/proc"
	"wolffia/wire"
)

// jobRing is how much of each of a job's streams is kept, in bytes.
const jobRing = 1 << 20

// maxJobBytes bounds the kept bytes of all streams that have ended, without the newest job's.
const maxJobBytes = 32 << 20

// A job is what a command has left running.
type job struct {
	id, name, session string
	command           string
	started           time.Time
	code              string // the file that its exit status goes to; empty: none
	statusWriter      int    // the process that writes it; 0: none
	shell             int    // the parent of its first processes
	files             []proc.File

	mu      sync.Mutex
	killed  unix.Signal    // the signal that has ended statusWriter, and so its status; 0: none; guarded by mu
	sent    unix.Signal    // what a caller has sent last; 0: nothing; guarded by mu
	change  *sync.Cond     // anything below has changed; uses mu
	members map[int]uint64 // start, by process, as of the last look; guarded by mu
	groups  map[int]bool   // their process groups; guarded by mu
	tails   [2]*tail       // stdout, stderr; nil: not held; guarded by mu
	dead    time.Time      // since when it has zombies only; guarded by mu
	silent  time.Time      // when a stream of its was closed last; zero: none was; guarded by mu
	seen    time.Time      // when a look found it running last; guarded by mu
	ended   time.Time      // zero: it runs; guarded by mu
	status  *int           // guarded by mu
}

// A tail is a stream that a job holds.
type tail struct {
	ring *excerpt.Ring
	open bool
}

// follow keeps reading what a job writes, so that it neither waits nor dies of
// SIGPIPE, until no process holds the stream. Then it calls ended.
func (j *job) follow(which, fd int, ended func()) {
	file := os.NewFile(uintptr(fd), "job")
	t := &tail{ring: excerpt.NewRing(jobRing), open: true}
	j.tails[which] = t
	go func() { // ends with the last process that holds the stream
		buf := make([]byte, 32<<10)
		for {
			n, err := file.Read(buf)
			j.mu.Lock()
			t.ring.Write(buf[:n])
			if t.open = err == nil; !t.open {
				t.ring.Trim()
				j.silent = time.Now()
			}
			j.change.Broadcast()
			j.mu.Unlock()
			if err != nil {
				_ = file.Close()
				ended()
				return
			}
		}
	}()
}

// reapLimit is how long a job of zombies waits for its shell to reap them: longer only if
// that is stopped. Else the shell would print their end during the next command.
// gVisor shows a process as dead some milliseconds before it signals the parent.
const reapLimit = 200 * time.Millisecond

// refresh updates the job's members. It ends the job if it has no member and no process holds its
// streams. It reports whether the job runs.
func (j *job) refresh(all []proc.Process) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended.IsZero() {
		return false
	}
	alive, zombies := j.sort(all)
	switch {
	case len(alive) > 0 || len(zombies) == 0:
		j.dead = time.Time{}
	case j.dead.IsZero():
		j.dead = time.Now()
	}
	if j.dead.IsZero() || time.Since(j.dead) < reapLimit {
		maps.Copy(alive, zombies)
	}
	j.members = alive
	if len(j.members) == 0 && !j.writable() {
		j.end()
		return false
	}
	j.seen = time.Now()
	return true
}

// sort returns the job's live processes, and the zombies that its shell has to reap. The job's
// processes are the known ones, their children, their process groups, and the holders of the job's
// streams. The shell does not count, though it may have a stream (exec 3>&1), and be in the group
// of a process that it starts without a group of its own: in a command substitution, or without
// job control. The caller holds j.mu.
func (j *job) sort(all []proc.Process) (alive, zombies map[int]uint64) {
	alive, zombies = map[int]uint64{}, map[int]uint64{}
	for more, first := true, true; more; first = false { // holders are looked for once
		more = false
		for _, p := range all {
			if _, ok := alive[p.PID]; ok || p.PID == j.shell {
				continue
			}
			start, known := j.members[p.PID]
			known = known && start == p.Start
			if p.Dead() {
				if known && p.Parent == j.shell {
					zombies[p.PID] = p.Start
				}
				continue
			}
			_, child := alive[p.Parent]
			in := known || child || j.groups[p.Group]
			if !in && first {
				in, _ = proc.Holds(p.PID, j.files)
			}
			if !in {
				continue
			}
			more = true
			alive[p.PID] = p.Start
			if p.Group != j.shell {
				j.groups[p.Group] = true
			}
		}
	}
	return alive, zombies
}

// writable reports whether anything besides the shell can write to the job's streams: what the
// shell still writes is kept. j.mu is held.
func (j *job) writable() bool {
	open := func(t *tail) bool { return t != nil && t.open }
	if !slices.ContainsFunc(j.tails[:], open) {
		return false
	}
	held, _ := proc.Holds(j.shell, j.files)
	return !held
}

// end notes that the job is over, and with what status. j.mu is held.
func (j *job) end() {
	j.ended = time.Now()
	if j.silent.After(j.seen) { // no caller has looked since
		j.ended = j.silent
	}
	j.groups = nil
	if j.code != "" {
		j.status = readStatus(j.code)
		if j.status == nil && j.killed != 0 {
			n := 128 + int(j.killed)
			j.status = &n
		}
		_ = os.Remove(j.code)
		_ = os.Remove(strings.TrimSuffix(j.code, "s")) // the text
	}
	j.change.Broadcast()
}

// endedBy returns the signal of a caller that has ended the job, by its status; 0 if another end is
// possible: a program can exit with the same code as well. j.mu is held.
func (j *job) endedBy() unix.Signal {
	if j.status == nil || j.sent == 0 || *j.status != 128+int(j.sent) {
		return 0
	}
	return j.sent
}

// unreaped reports whether the job has zombies only, which its shell may reap yet.
func (j *job) unreaped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended.IsZero() && time.Since(j.dead) < reapLimit
}

// readStatus reads an exit status from a file; nil if the file has none.
func readStatus(path string) *int {
	const longest = 4 // bytes: one more than a status has
	status, err := strconv.ParseUint(string(readFile(unix.AT_FDCWD, path, longest)), 10, 8)
	if err != nil {
		return nil
	}
	code := int(status)
	return &code
}

// await waits until the job is over or stop returns true. It waits for one process after the other
// by descriptor (pidfd_open(2)), which costs no thread.
func (j *job) await(stop <-chan struct{}) bool {
	for {
		if !j.refresh(proc.Others()) {
			return true
		}
		j.mu.Lock()
		pid := 0
		for p := range j.members {
			pid = p
			break
		}
		j.mu.Unlock()
		select {
		case <-stop:
			return false
		default:
		}
		if pid == 0 || j.unreaped() { // only the streams' goroutines, or the shell, are not done yet
			proc.Pause(stop)
			continue
		}
		proc.Await(pid, stop)
	}
}

// signal sends sig to all processes of the job. statusWriter, which ends with the others,
// is spared a signal that would end it before it has written; but not SIGKILL, whose status
// is known.
func (j *job) signal(sig unix.Signal) {
	j.mu.Lock()
	j.sent = sig
	j.mu.Unlock()
	if sig == unix.SIGKILL {
		proc.KillAll(unix.SIGSTOP, deathLimit, func() ([]int, int) {
			pids := j.pids()
			j.mu.Lock()
			defer j.mu.Unlock()
			if slices.Contains(pids, j.statusWriter) {
				j.killed = sig
			}
			return pids, 0
		})
		return
	}
	pids := j.pids()
	j.mu.Lock()
	defer j.mu.Unlock()
	spared := 0
	switch sig {
	case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT:
	default:
		if len(pids) > 1 { // else it is just being started
			spared = j.statusWriter
		}
	}
	for _, pid := range pids {
		if pid == spared {
			continue
		}
		if pid == j.statusWriter {
			j.killed = sig
		}
		_ = proc.Send(pid, sig)
	}
}

// pids are the job's processes now, as of eldestFirst.
func (j *job) pids() []int {
	j.refresh(proc.Others())
	j.mu.Lock()
	defer j.mu.Unlock()
	return eldestFirst(j.members)
}

// eldestFirst returns the processes of a map by their starts: parents come before their children.
// A shell would run its next command if a signal ended its child first.
func eldestFirst(starts map[int]uint64) []int {
	return slices.SortedFunc(maps.Keys(starts), func(a, b int) int {
		return cmp.Or(cmp.Compare(starts[a], starts[b]), cmp.Compare(a, b)) // a start is in hundredths of a second
	})
}

func (j *job) describe(all []proc.Process) wire.JobInfo {
	j.refresh(all)
	j.mu.Lock()
	defer j.mu.Unlock()
	i := wire.JobInfo{
		ID: j.id, Name: j.name, Session: j.session, Command: j.command,
		State: wire.StateRunning, PIDs: []int{}, StartedMS: j.started.UnixMilli(), Code: j.status,
	}
	stopped := 0
	for _, p := range all {
		if _, ok := j.members[p.PID]; ok {
			i.PIDs = append(i.PIDs, p.PID)
			if p.State == 'T' {
				stopped++
			}
		}
	}
	if len(i.PIDs) > 0 && stopped == len(i.PIDs) {
		i.State = wire.StateStopped
	}
	if !j.ended.IsZero() {
		i.State, i.EndedMS = wire.StateEnded, j.ended.UnixMilli()
	}
	if t := j.tails[0]; t != nil {
		i.StdoutStart, i.StdoutEnd = t.ring.Start(), t.ring.End()
	}
	if t := j.tails[1]; t != nil {
		i.StderrStart, i.StderrEnd = t.ring.Start(), t.ring.End()
	}
	return i
}

// abbreviate returns how a command begins, as valid UTF-8.
func abbreviate(text string) string {
	const most = 200
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
