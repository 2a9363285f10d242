package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// SetPermissions implements [runtime.PermissionSetter].
//
// One change is made at a time. The rules are recorded first, then a running
// sandbox is made to follow them: whoever starts it, or looks, sees the new
// ones, and a tree server that is root's takes no others. If they turn out not
// to be taken, the old ones are recorded again. Should this process be killed
// in between, a running sandbox goes on under the old rules, and Inspect says
// that they are not those that are recorded; to ask again puts it right.
func (r *Runtime) SetPermissions(ctx context.Context, sandboxID string, rules []perm.Rule) error {
	if _, err := perm.Compile(rules); err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	box, _, err := r.find(sandboxID)
	if err != nil {
		return err
	}
	release, err := box.LockConfig(ctx, boot.RulesLimit+boot.KillLimit)
	if err != nil {
		return err
	}
	defer release()
	c, err := box.Config() // whatever it was before
	if err != nil {
		return err
	}
	life, err := box.Lifetime(c)
	if err != nil {
		return err
	}
	if why := box.Expired(life, statedir.Now()); why != "" {
		return over(box, why)
	}
	if c.CodebasePath == "" {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox %s has no codebase: there is nothing that rules could filter", box.ID())
	}
	was := *c
	c.Permissions = slices.Clone(rules)
	return untilSettled(ctx, func() (bool, error) { return trySetPermissions(ctx, box, c, &was) })
}

// trySetPermissions records c and has it followed. It is not done if the sandbox
// is just being started or stopped, or ended while it was asked.
func trySetPermissions(ctx context.Context, box *statedir.Box, c, was *statedir.Config) (done bool, err error) {
	return record(ctx, box, func() error { return box.SetConfig(c) }, func(ctx context.Context) (bool, error) {
		answer, err := ask(ctx, box, &boot.Request{Op: boot.OpRules, Rules: Marshal(c.Permissions)}, boot.RulesLimit+boot.KillLimit)
		if err == nil {
			if err = answer.Err(); err == nil {
				return true, nil
			}
			if !answer.Unknown {
				// It goes on by the old rules, so those are recorded.
				return true, errors.Join(err, box.SetConfig(was))
			}
		}
		// Another look tells whether it has ended, which is as good; else ask again.
		return false, runtime.Errorf(runtime.ErrUnavailable, "the rules of sandbox %s are recorded, but nobody knows whether they are in force: %w; set them again, or wolffia stop %s", box.ID(), err, box.ID())
	})
}

// Marshal makes JSON of rules that perm.Compile has accepted, which cannot
// fail.
func Marshal(rules []perm.Rule) json.RawMessage {
	b, _ := json.Marshal(rules)
	return b
}

// ask asks a shim something, over a connection of its own: one that breaks off
// when time is up takes nothing with it.
func ask(ctx context.Context, box *statedir.Box, req *boot.Request, limit time.Duration) (*boot.Reply, error) {
	sock, err := dial(box)
	if err != nil {
		return nil, err
	}
	conn := client.New(sock)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := new(boot.Reply)
	if err := conn.Control(ctx, req, answer); err != nil {
		if ctx.Err() != nil {
			err = errors.New("the shim does not answer")
		}
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", box.ID(), err)
	}
	return answer, nil
}

// treeStats asks a running sandbox's tree server what it does, within a bound.
func treeStats(ctx context.Context, box *statedir.Box) (*boot.TreeStats, error) {
	answer, err := ask(ctx, box, &boot.Request{Op: boot.OpStats}, boot.StatsLimit+time.Second)
	if err != nil {
		return nil, err
	}
	if err := answer.Err(); err != nil {
		return nil, err
	}
	if answer.Stats == nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the tree server tells nothing")
	}
	return answer.Stats, nil
}

// A TreeState is what is known of a running sandbox's filtered tree.
type TreeState struct {
	*boot.TreeStats
	// Current says that the rules that are in force are those of the
	// configuration. They are not for a moment while they are changed, or if
	// who changed them was killed.
	Current bool `json:"current"`
	// Problem says why nothing is known: TreeStats is nil then.
	Problem string `json:"problem,omitempty"`
}

// treeState describes the tree of a running sandbox.
func treeState(ctx context.Context, box *statedir.Box, c *statedir.Config) *TreeState {
	stats, err := treeStats(ctx, box)
	if err != nil {
		return &TreeState{Problem: fmt.Sprint(err)}
	}
	return &TreeState{TreeStats: stats, Current: stats.Rules == boot.Fingerprint(c.Permissions)}
}
