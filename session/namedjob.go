package session

import (
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/wire"
)

// A namedJob is a job that a caller starts by name: its text runs in the background,
// with streams of its own.
type namedJob struct {
	id, text string
	path     string // of the text; the streams' names and the status's begin with it
	fds      []int  // its streams, stdout and stderr; nil: the job's
	files    []proc.File
	made     *job // nil: not known yet
}

// launchJob is the run that starts the task's job.
func (s *Session) launchJob() (*run, error) {
	c := s.task.call
	if err := s.m.checkJob(c.req.Session); err != nil { // one may have been started while the call waited
		return nil, classError{wire.ClassExists, err}
	}
	n := &namedJob{id: c.req.Session.Job, text: c.req.Args[0]}
	s.task.job = n
	base := token()
	n.path = s.ends.dir.path + "/" + base
	if err := s.ends.dir.write(base, []byte(n.text)); err != nil {
		return nil, err
	}
	for _, suffix := range []string{"o", "e"} {
		fd, err := s.ends.dir.fifo(base+suffix, unix.O_RDONLY)
		if err != nil {
			return nil, err
		}
		n.fds, n.files = append(n.fds, fd), append(n.files, fileOf(fd))
	}
	s.task.begin(&s.saved)
	return &run{text: s.spec.d.Background(n.path), limit: restoreLimit}, nil
}

// name makes a job this one; it adds the job's streams.
func (n *namedJob) name(j *job, streams map[int]int) {
	j.name, j.command, j.code = n.id, abbreviate(n.text), n.path+"s"
	j.files = append(j.files, n.files...)
	for which, fd := range n.fds {
		streams[which] = fd
	}
	n.fds, n.made = nil, j
}

// describe describes the job that a run has started.
func (n *namedJob) describe(ps *processes, r *run) wire.JobInfo {
	_ = os.Remove(n.path + "o") // both are open at all their ends
	_ = os.Remove(n.path + "e")
	if n.made == nil { // it was over before the session looked
		j, streams := ps.newJob(r, nil), map[int]int{}
		n.name(j, streams)
		ps.m.addJob(j, streams)
	}
	return n.made.describe(proc.Others())
}

// discardJob closes what the task's job has, if it was not made.
func (t *task) discardJob() {
	if t.job == nil {
		return
	}
	for _, fd := range t.job.fds {
		_ = unix.Close(fd)
	}
	t.job = nil
}
