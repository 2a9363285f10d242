package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/local/conns"
	"wolffia/perm"
	"wolffia/runtime"
)

// SetPermissions implements [runtime.Workspace].
//
// One change is made at a time. The rules are recorded before a running tree server gets
// them: so a start in between uses the new ones, and a tree server that is root's accepts
// no others. If the tree server refuses them, the old ones are recorded again. If this
// process is killed in between, the sandbox continues under the old rules, and Inspect
// reports that they differ from the recorded ones; another call repairs it.
func (s *settings) SetPermissions(ctx context.Context, sandboxID string, rules []perm.Rule) error {
	return s.setPermissions(ctx, sandboxID, rules, func([]perm.Rule) error { return nil })
}

// ErrChanged is the error of ReplacePermissions if the sandbox has other rules.
var ErrChanged = runtime.Errorf(runtime.ErrConflict, "another process has changed the rules of the sandbox meanwhile: try again")

// ReplacePermissions is SetPermissions for a caller that has made the rules from those that
// the sandbox had, was. If it has others by now, they stay, and the error is ErrChanged.
func (s *settings) ReplacePermissions(ctx context.Context, sandboxID string, was, rules []perm.Rule) error {
	return s.setPermissions(ctx, sandboxID, rules, func(now []perm.Rule) error {
		if !slices.Equal(now, was) {
			return ErrChanged
		}
		return nil
	})
}

// setPermissions is SetPermissions unless check returns an error for the recorded rules.
func (s *settings) setPermissions(ctx context.Context, sandboxID string, rules []perm.Rule, check func(was []perm.Rule) error) error {
	if err := perm.Check(rules); err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	rec, c, release, err := s.changing(ctx, sandboxID)
	if err != nil {
		return err
	}
	defer release()
	if c.CodebasePath == "" {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox %s has no codebase: rules have nothing to filter", rec.ID())
	}
	if c.Filter == runtime.FilterNone {
		if p, err := perm.Compile(rules); err != nil || !p.GrantsAll() {
			return errors.Join(err, runtime.Errorf(runtime.ErrInvalid, "sandbox %s has filter %s: nothing would enforce rules that hide or protect a part of its codebase: create it again with --filter fuse or static", rec.ID(), c.Filter))
		}
	}
	if err := check(c.Permissions); err != nil {
		return err
	}
	was := *c
	c.Permissions = slices.Clone(gitRules(c, rules))
	return amend(ctx, rec, c, &was, "rules", "set them again", func(ctx context.Context) (*boot.Reply, error) { return giveRules(ctx, rec, c) })
}

// gitRules returns rules as they are for a sandbox with the configuration c: they guard each .git
// that is the host's own there.
func gitRules(c *statedir.Config, rules []perm.Rule) []perm.Rule {
	switch {
	case c.PrivateGit, c.CopyOnWrite:
		return perm.GitPrivate(rules)
	case c.CodebasePath != "":
		return perm.GitInPlace(rules)
	}
	return rules
}

// giveRules has the tree server of a running sandbox replace its rules by those of c.
func giveRules(ctx context.Context, rec *statedir.Record, c *statedir.Config) (*boot.Reply, error) {
	text, err := json.Marshal(c.Permissions)
	if err != nil {
		return nil, err
	}
	rules, err := boot.SealedFile(text)
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	defer rules.Close()
	req := &boot.Request{Op: boot.OpRules, At: boot.DirAt(c.CodebasePath)}
	answer, err := conns.AskWith(ctx, rec, req, rules, boot.RulesLimit+boot.KillLimit)
	return answer, ofAnotherVersion(rec, err)
}

// ofAnotherVersion returns err, and what helps if the shim does not know a request.
func ofAnotherVersion(rec *statedir.Record, err error) error {
	if !errors.Is(err, runtime.ErrUnsupported) {
		return err
	}
	return fmt.Errorf("sandbox %[1]s runs with another version of wolffia: wolffia stop %[1]s, and try again: %[2]w", rec.ID(), err)
}

// A TreeState is what is known of a running sandbox's filtered tree.
type TreeState struct {
	*boot.TreeStats // nil: Problem says why
	// Current says that the rules in force are those of the configuration. They are not
	// while they are being changed, or if the process that changed them was killed.
	Current bool   `json:"current"`
	Problem string `json:"problem,omitempty"`
}

// treeState asks the tree server of a running sandbox, which may take a few seconds.
func treeState(ctx context.Context, rec *statedir.Record, c *statedir.Config) *TreeState {
	answer, err := conns.Ask(ctx, rec, &boot.Request{Op: boot.OpStats}, boot.StatsLimit+time.Second)
	if err == nil && answer.Stats == nil {
		err = errors.New("the tree server sent no figures")
	}
	if err != nil {
		return &TreeState{Problem: err.Error()}
	}
	return &TreeState{TreeStats: answer.Stats, Current: answer.Stats.Rules == boot.Fingerprint(c.Permissions)}
}

// rulesText is the JSON of the rules that were asked for last: callers mostly have the same for
// many sandboxes, and to encode those of a preset takes a tenth of a millisecond. The zero value
// is ready.
type rulesText struct {
	mu    sync.Mutex
	rules []perm.Rule // guarded by mu
	text  []byte      // guarded by mu; never changed
}

// of returns the JSON of c's rules, which no caller may change.
func (r *rulesText) of(c *statedir.Config) ([]byte, error) {
	if err := c.RequireRules(); err != nil {
		return nil, err
	}
	rules := c.Permissions
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != nil && slices.Equal(r.rules, rules) {
		return r.text, nil
	}
	text, err := json.Marshal(rules)
	if err != nil {
		return nil, err
	}
	r.rules, r.text = slices.Clone(rules), text
	return text, nil
}
