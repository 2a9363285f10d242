package session

import (
	"io"
	"maps"
	"os"
	"slices"

	"wolffia/internal/sys/proc"
)

// Processes are those that a session has started.
type processes struct {
	m       *Manager
	session string    // its name
	mark    proc.Mark // of all that its shells start
	root    int       // the shell; 0: no shell
	known
}

// known are the processes that a session has seen since its shell was started.
type known struct {
	before  map[int]uint64 // start of each that the shell has left running
	groups  map[int]bool   // their process groups
	foreign map[int]bool   // orphans that are not the session's
	lastPID string         // see Manager.forked
}

// start notes that a shell was started.
func (ps *processes) start(shell int) {
	ps.mark.Put(shell)
	ps.root, ps.known = shell, known{}
}

// tree is the tree of what the shell has started since the processes that the
// session knows of, and those that its jobs have started since.
func (ps *processes) tree(all []proc.Process) *proc.Tree {
	t := &proc.Tree{Root: ps.root, Shell: true, Mark: ps.mark, Before: map[int]uint64{}, Groups: map[int]bool{}}
	maps.Copy(t.Before, ps.before)
	maps.Copy(t.Groups, ps.groups)
	for _, j := range ps.m.jobsOf(ps.session) {
		j.refresh(all)
		j.mu.Lock()
		maps.Copy(t.Before, j.members)
		maps.Copy(t.Groups, j.groups)
		j.mu.Unlock()
	}
	delete(t.Groups, ps.root)
	return t
}

// tree is the process tree of the command.
func (r *run) tree() *proc.Tree {
	t := r.shell.procs.tree(proc.Others())
	t.Running = !r.shell.ended && !r.shell.stoppable()
	t.Files = files(r.outs)
	return t
}

// files are the pipes of streams.
func files(streams []*stream) (all []proc.File) {
	for _, st := range streams {
		if st.pipe != nil {
			all = append(all, st.pipe.file)
		}
	}
	return all
}

// leftover makes a job of the processes that a run has left running. The job exists before the
// next command. The run of a named job starts that job.
func (ps *processes) leftover(r *run, named *namedJob) {
	if r.probe || len(r.held) == 0 && !ps.hasNew() {
		discard(r.held)
		return
	}
	all := proc.Others()
	tree := ps.tree(all)
	tree.Files = files(r.held)
	found, _ := tree.Find(all)
	ps.record(tree, all, found)
	switch {
	case len(found) == 0 && len(r.held) == 0:
	case r.call == nil && named == nil: // the session's own texts leave nothing behind
		discard(r.held)
	default:
		ps.adopt(r, named, tree.Files, found)
	}
}

// hasNew reports whether there may be processes that the session does not know, without
// a look at all.
func (ps *processes) hasNew() bool {
	if !ps.m.forked(&ps.lastPID) {
		return false
	}
	children, ok := proc.Children(ps.root)
	if !ok {
		return true
	}
	unknown := func(pid int) bool {
		_, old := ps.before[pid]
		return !old
	}
	orphans, _ := proc.Children(os.Getpid())
	return slices.ContainsFunc(children, unknown) || slices.ContainsFunc(orphans, func(pid int) bool {
		return unknown(pid) && !ps.foreign[pid] && !ps.m.host.Started(pid)
	})
}

// record adds the processes that a run has left, among all. Processes of older jobs stay known,
// all others are forgotten.
func (ps *processes) record(tree *proc.Tree, all, found []proc.Process) {
	k := known{before: map[int]uint64{}, groups: map[int]bool{}, foreign: map[int]bool{}, lastPID: ps.lastPID}
	for _, p := range all {
		k.foreign[p.PID] = true
		if start, ok := tree.Before[p.PID]; ok && start == p.Start {
			k.before[p.PID], k.groups[p.Group] = p.Start, true
		}
	}
	for _, p := range found {
		delete(k.foreign, p.PID)
		k.before[p.PID], k.groups[p.Group] = p.Start, true
	}
	delete(k.groups, ps.root)
	ps.known = k
}

// adopt makes a job of the processes that a run has left, and of the streams that they
// hold.
func (ps *processes) adopt(r *run, named *namedJob, files []proc.File, found []proc.Process) {
	j := ps.newJob(r, files)
	for _, p := range found {
		j.members[p.PID] = p.Start
		if p.Group != ps.root {
			j.groups[p.Group] = true
		}
	}
	streams := map[int]int{}
	for _, st := range r.held {
		streams[slices.Index(outputs[:], st.typ)] = st.fd
	}
	if named != nil {
		for _, p := range found {
			if p.Parent == ps.root {
				j.statusWriter = p.PID
			}
		}
		named.name(j, streams)
	}
	ps.m.addJob(j, streams)
}

// newJob is a job of a run without processes.
func (ps *processes) newJob(r *run, files []proc.File) *job {
	return &job{
		session: ps.session, command: abbreviate(string(r.text)), started: r.begun, shell: ps.root, files: files,
		members: map[int]uint64{}, groups: map[int]bool{},
	}
}

// discard reads streams to their end, so that their holders do not die of SIGPIPE.
func discard(streams []*stream) {
	for _, st := range streams {
		go func() { // ends with the last process that holds the stream
			file := os.NewFile(uintptr(st.fd), "stream")
			_, _ = io.Copy(io.Discard, file)
			_ = file.Close()
		}()
	}
}
