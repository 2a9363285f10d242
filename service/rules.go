package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/network"
	"wolffia/ops"
	"wolffia/perm"
	"wolffia/runtime"
)

// Rules are the rules of a sandbox.
type Rules struct {
	MountPoint string          `json:"mountPoint"` // of the codebase
	Filter     runtime.Filter  `json:"filter"`     // what enforces the rules
	Rules      []Rule          `json:"rules"`      // in the order in which they were given
	Network    runtime.Network `json:"network"`
	Egress     *network.Policy `json:"egress,omitempty"`
	// Path explains the path that was asked about; nil: none was.
	Path *PathRule `json:"path,omitempty"`
}

// A Rule is one rule for the codebase.
type Rule struct {
	Rule   string `json:"rule"`             // PATTERN=LEVEL
	Source string `json:"source,omitempty"` // where it comes from
	Reason string `json:"reason,omitempty"` // why it exists
}

// A PathRule says what the rules give for a path.
type PathRule struct {
	Path  string `json:"path"`           // relative to the codebase
	Level string `json:"level"`          // none, view, read or write
	Rule  *Rule  `json:"rule,omitempty"` // that decides; nil: none matches
	// Allow is the flag of wolffia policy add that would give write; empty: none would, or the
	// rules give it.
	Allow string `json:"allow,omitempty"`
}

// ruleOf describes a rule, whose Source must be without what is of this host; nil: there is none.
func ruleOf(r *perm.Rule) *Rule {
	if r == nil {
		return nil
	}
	return &Rule{r.String(), r.Source, r.Reason()}
}

// Rules returns the rules of the sandbox. If name is not empty, they explain that path, which
// is inside the codebase, or relative to it; a trailing / says that it is a directory.
func (i *Inside) Rules(ctx context.Context, name string) (*Rules, error) {
	return rulesOf(ctx, i.service, i.box, name)
}

func rulesOf(ctx context.Context, s *Service, b *Sandbox, name string) (*Rules, error) {
	c, err := s.Config(ctx, b.ID)
	if err != nil {
		return nil, err
	}
	r := &Rules{MountPoint: b.MountPoint, Filter: b.Filter, Rules: []Rule{}, Network: b.Network, Egress: publicEgress(c.Egress)}
	for n := range c.Permissions {
		r.Rules = append(r.Rules, *ruleOf(&c.Permissions[n]))
	}
	if name == "" {
		return r, nil
	}
	rel, in := ops.Within(name, b.MountPoint, b.MountPoint)
	if !in {
		return nil, runtime.Errorf(runtime.ErrInvalid, "path %.300q: not in the codebase, which is %s inside: the rules do not apply to it", name, b.MountPoint)
	}
	rules, err := perm.Compile(c.Permissions)
	if err != nil {
		return nil, err
	}
	kind := perm.Glob
	if strings.HasSuffix(name, "/") {
		kind = perm.Directory
	}
	e := ops.Explain(rules, rel, kind)
	r.Path = &PathRule{Path: e.Path, Level: e.Level.String(), Rule: ruleOf(e.Rule), Allow: e.Allow(e.Level + 1)}
	return r, nil
}

// publicEgress returns a policy without what is of this host: addresses and headers.
func publicEgress(p *network.Policy) *network.Policy {
	if p == nil {
		return nil
	}
	return &network.Policy{Allow: p.Allow, NoNameCheck: p.NoNameCheck}
}

// MaxAudit is how many denials Audit returns at most.
const MaxAudit = 10_000

// A Denied is one entry of the log of denials.
type Denied struct {
	Time time.Time `json:"time"` // when it happened; of several, the last
	// Since is when the first of Count or Dropped happened.
	Since           time.Time        `json:"since,omitzero"`
	Count           int64            `json:"count,omitempty"`
	Dropped         int64            `json:"dropped,omitempty"` // denials that have no entry; nothing below is set
	*runtime.Denial                  // of the rules; nil: see Refused
	PathBytes       []byte           `json:"pathBytes,omitempty"` // the exact path where Path is not
	RuleReason      string           `json:"reason,omitempty"`    // why the rule exists
	Command         string           `json:"command,omitempty"`   // the name of the thread
	Asked           string           `json:"asked,omitempty"`     // as of a record of the log: how a question ended
	By              string           `json:"by,omitempty"`        // who has answered it
	Refused         *runtime.Refusal `json:"refused,omitempty"`   // of the network
	Text            string           `json:"-"`                   // one printable line, with the time
}

// deniedOf returns an entry of the log.
func deniedOf(r *audit.Record) Denied {
	d := Denied{Time: r.Time, Since: r.Since, Count: r.Count, Dropped: r.Dropped, Text: r.Text(time.UTC, "")}
	switch {
	case r.Dropped > 0:
	case r.Host != nil:
		d.Refused = new(r.Refusal())
	default:
		d.Denial, d.Command, d.Asked, d.By = new(r.Denial()), r.Command, r.Asked, r.By
		if strings.TrimSuffix(d.Path, "...") != r.Path {
			d.PathBytes = []byte(r.Path)
		}
		if r.Rule != nil {
			d.RuleReason = r.Rule.Reason()
		}
	}
	return d
}

// Audit returns the newest denials of the sandbox, oldest first, and how many before them are
// left out.
func (i *Inside) Audit(ctx context.Context, most int) (list []Denied, before int, err error) {
	if most <= 0 || most > MaxAudit {
		return nil, 0, runtime.Errorf(runtime.ErrInvalid, "limit %d: it must be from 1 to %d", most, MaxAudit)
	}
	return newest(ctx, i.service.rt, i.box.ID, most)
}

// publicDenied is deniedOf without what is of this host: directories and processes.
func publicDenied(r *audit.Record) Denied {
	if r.PID = 0; r.Rule != nil {
		r.Rule.Source = perm.SourceName(r.Rule.Source)
	}
	return deniedOf(r)
}

// newest returns the newest entries of a sandbox's log of denials, oldest first, and how many
// before them are left out. They name no directory nor process of this host.
func newest(ctx context.Context, rt Runtime, id string, most int) (list []Denied, before int, err error) {
	log, _, err := rt.Audit(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	list = []Denied{}
	err = log.Each(func(r audit.Record) error {
		if len(list) == 2*most {
			before, list = before+most, slices.Delete(list, 0, most)
		}
		list = append(list, publicDenied(&r))
		return ctx.Err()
	})
	switch drop := max(0, len(list)-most); {
	case ctx.Err() != nil:
		return nil, 0, ctx.Err()
	case err != nil:
		return nil, 0, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", id, err)
	default:
		return slices.Delete(list, 0, drop), before + drop, nil
	}
}
