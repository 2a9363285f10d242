package gitsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"wolffia/internal/git/hostgit"
)

// maxAlone is how many objects are tried one by one if they are refused together.
const maxAlone = 50

// staging is the prefix of the references that hold objects until the sandbox's references have
// moved.
func (p *Pair) staging() string { return "refs/wolffia/in/" + p.Name + "/" }

// held returns the references below staging.
func (p *Pair) held(t table) (removed []move) {
	for r, at := range t.Refs {
		if strings.HasPrefix(r, p.staging()) {
			removed = append(removed, move{Ref: r, Old: at})
		}
	}
	return removed
}

// take brings tips, and the objects that they need, to the host, which has all objects that its
// references t and more lead to. It returns the references that hold them, and those that the
// host's git refuses, with the reasons.
func (h *host) take(ctx context.Context, tips []string, t table, more ...string) (held []move, bad map[string]string, err error) {
	held, bad = h.pair.held(t), make(map[string]string)
	known := make(map[string]bool)
	for _, at := range t.Refs {
		known[at] = true
	}
	if at := t.at(); at != "" {
		known[at] = true
	}
	tips = slices.DeleteFunc(tips, func(tip string) bool { return known[tip] })
	if len(tips) == 0 {
		return held, bad, nil
	}
	have := append(slices.Sorted(maps.Keys(known)), more...)
	next := 0
	receive := func(tips []string) error {
		var refs []hostgit.Ref
		for _, tip := range tips {
			for next++; t.Refs[h.ref(next)] != ""; next++ {
			}
			refs = append(refs, hostgit.Ref{Name: h.ref(next), At: tip})
		}
		pack := func(ctx context.Context, w io.Writer) error { return h.pair.pack(ctx, tips, have, w) }
		err := h.Receive(ctx, refs, pack, h.pair.bytes)
		h.pair.reached("pack sent")
		if err == nil {
			for _, r := range refs {
				held = append(held, move{Ref: r.Name, Old: r.At})
			}
		}
		return err
	}
	err = receive(tips)
	if err == nil || !errors.Is(err, hostgit.ErrRefused) || len(tips) > maxAlone {
		return held, bad, err
	}
	for _, tip := range tips { // sound tips cross
		if len(tips) > 1 {
			err = receive([]string{tip})
		}
		if errors.Is(err, hostgit.ErrRefused) {
			bad[tip] = hostgit.Printable(err.Error())
		} else if err != nil {
			return held, bad, err
		}
	}
	return held, bad, nil
}

func (h *host) ref(n int) string { return fmt.Sprintf("%s%d", h.pair.staging(), n) }

// onlyCommits adds those tips to bad that are not commits: a branch must be one.
func (h *host) onlyCommits(ctx context.Context, tips map[string]bool, bad map[string]string) error {
	for tip := range tips {
		if bad[tip] != "" {
			continue
		}
		objects, err := h.ask(ctx)
		if err != nil {
			return err
		}
		o, err := objects.Get(tip, 0)
		switch {
		case errors.Is(err, hostgit.ErrMissing):
			bad[tip] = "it is not there"
		case err != nil:
			return err
		case o.Type != "commit":
			bad[tip] = "it is not a commit"
		}
	}
	return nil
}
