package gitsync

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"wolffia/internal/git/gitconfig"
	"wolffia/internal/git/hostgit"
)

// maxUpstreams bounds the branches that get an upstream in one sync.
const maxUpstreams = 100

// An upstream is the branch of a remote that a branch follows: branch.NAME.remote and
// branch.NAME.merge.
type upstream struct {
	Remote string `json:"remote"`
	Merge  string `json:"merge"`
}

// upstreamsOf returns the upstreams that settings name, by branch. It skips names that do not
// cross.
func upstreamsOf(settings []gitconfig.Setting) map[string]upstream {
	all := make(map[string]upstream)
	for _, s := range settings {
		branch, is := s.Sub()
		if s.Section() != "branch" || !is || nameFault(branch) != "" {
			continue
		}
		u := all[branch]
		switch s.Key() {
		case "remote":
			u.Remote = s.Value
		case "merge":
			u.Merge = s.Value
		}
		all[branch] = u
	}
	maps.DeleteFunc(all, func(_ string, u upstream) bool {
		merge, is := strings.CutPrefix(u.Merge, heads)
		return !is || nameFault(merge) != "" || nameFault(u.Remote) != ""
	})
	return all
}

// upstreams returns the upstreams in the configuration of a git directory. Of a part that git
// refuses it returns nothing.
func (t tree) upstreams() (map[string]upstream, error) {
	text, err := t.read("config", maxConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	settings, _ := gitconfig.Parse(string(text))
	return upstreamsOf(settings), nil
}

// setUpstreams gives branches of the host the upstreams that the sandbox has set (git push -u),
// where the host has the branch and the remote, and no upstream of its own.
func (s *run) setUpstreams(ctx context.Context) error {
	if s.Common != "" {
		return nil
	}
	inside, err := s.private.upstreams()
	if err != nil {
		return err
	}
	refs, known := s.out.after(s.plan.out), s.host.Remotes()
	maps.DeleteFunc(inside, func(branch string, u upstream) bool {
		return s.rec.Upstreams[branch] == u || !known[u.Remote] || refs[heads+branch] == "" && !s.theirs[heads+branch]
	})
	if len(inside) == 0 {
		return nil
	}
	out, _, err := s.host.Run(ctx, hostgit.Command{
		Args: []string{"config", "--null", "--name-only", "--get-regexp", `^branch\..*\.remote$`}, Status: 1,
	})
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(inside))
	s.rec.Upstreams = maps.Clone(s.rec.Upstreams)
	if s.rec.Upstreams == nil {
		s.rec.Upstreams = make(map[string]upstream)
	}
	for _, branch := range names[:min(len(names), maxUpstreams)] {
		u, key := inside[branch], "branch."+branch
		if !slices.Contains(strings.Split(string(out), "\x00"), key+".remote") {
			// The remote is last: without it the other one has no effect.
			for _, args := range [][]string{
				{"config", "--replace-all", key + ".merge", u.Merge}, {"config", key + ".remote", u.Remote},
			} {
				if _, err := s.host.git(ctx, nil, args...); err != nil {
					return err
				}
			}
			s.moved = true
		}
		s.rec.Upstreams[branch] = u
	}
	return nil
}
