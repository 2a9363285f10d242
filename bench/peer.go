package main

import (
	"fmt"
	"slices"

	"wolffia/runtime"
)

// A peer is the program that a backend is made of, used by itself.
type peer struct {
	backend string // in the names of our own rows
	once    string // what once does, as a row's name
	exec    string
	// start says how long our first command may take, as a multiple of once;
	// faster how many times faster than it an exec is to be; destroy is a bar.
	start, faster float64
	destroy       string
}

// lives compares the life of a sandbox with once, turn by turn.
func (b *bench) lives(p *peer, rounds int, once func() error) error {
	const warm = 3
	var theirs, first, destroy times
	for i := range rounds + warm {
		t, err := took(once)
		if err != nil {
			return err
		}
		var id string
		f, err := took(func() error {
			var err error
			if id, err = b.create(); err != nil {
				return err
			}
			return b.execIn(id, "true")
		})
		if err != nil {
			return err
		}
		d, err := took(func() error { return b.rt.Destroy(b.ctx, id) })
		if err != nil {
			return err
		}
		if i >= warm {
			theirs, first, destroy = append(theirs, t), append(first, f), append(destroy, d)
		}
	}
	slices.Sort(theirs)
	slices.Sort(first)
	b.row(p.once, theirs, "")
	b.row(p.backend+": create, mount the tree, true", first, fmt.Sprintf("<= %.1fx of that: %.2fx", p.start, float64(first.at(0.5))/float64(theirs.at(0.5))))
	b.row(p.backend+": destroy", destroy, p.destroy)
	return nil
}

// beside compares commands in the live sandbox id with exec, turn by turn.
func (b *bench) beside(p *peer, id string, exec func() error) error {
	const rounds, warm = 100, 5
	s, err := b.rt.CreateSession(b.ctx, id, nil)
	if err != nil {
		return err
	}
	var theirs, ours, builtin, program times
	for i := range rounds + warm {
		for _, m := range []struct {
			to  *times
			run func() error
		}{
			{&theirs, exec},
			{&ours, func() error { return b.execIn(id, "true") }},
			{&builtin, func() error { return b.inSession(s.ID, ":") }},
			{&program, func() error { return b.inSession(s.ID, "/bin/true") }},
		} {
			d, err := took(m.run)
			if err != nil {
				return err
			}
			if i >= warm {
				*m.to = append(*m.to, d)
			}
		}
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	b.row(p.exec, theirs, "")
	b.row(p.backend+": exec of true, Go API", ours, fmt.Sprintf(">= %.0fx faster: %.1fx", p.faster, float64(theirs.at(0.5))/float64(ours.at(0.5))))
	b.row(p.backend+": session, a builtin, Go API", builtin, "")
	b.row(p.backend+": session, /bin/true, Go API", program, "")
	return nil
}

// inSession runs a command in a session, which has to work.
func (b *bench) inSession(session runtime.SessionID, command string) error {
	res, err := b.rt.SessionExec(b.ctx, session, &runtime.SessionExecRequest{Command: []string{command}})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%q in a session: exit code %d: %s", command, res.ExitCode, res.Stderr)
	}
	return err
}
