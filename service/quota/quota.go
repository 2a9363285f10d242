// Package quota decides how much of a service an owner, or an API key, may have.
package quota

import (
	"strconv"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// A Quota bounds what one party has. 0 means no bound.
type Quota struct {
	Sandboxes int   // that exist, whether they run or not
	Memory    int64 // the sum of their limits, in bytes
	Disk      int64 // likewise
	Creates   int   // new sandboxes in a minute
	Requests  int   // in a second; of API keys only
	Templates int   // names of images that requests have built; of owners only
	Volumes   int   // that requests have made; of owners only
}

// A Rule gives a Quota to owners or to API keys.
type Rule struct {
	Owner registry.Owner // "*" matches each organization, project or user
	Key   string         // the name of an API key, or "*"; empty: Owner counts
	Quota
}

// A Party is an owner or, with Key, an API key. The zero value has no quota.
type Party struct {
	Owner registry.Owner
	Key   string // its name
}

func (p Party) String() string {
	if p.Key != "" {
		return "API key " + strconv.Quote(p.Key)
	}
	return "owner " + p.Owner.OrganizationID + "/" + p.Owner.ProjectID + "/" + p.Owner.UserID
}

// Of returns the quota of the first rule for p; nil: none.
func Of(rules []Rule, p Party) *Quota {
	for i := range rules {
		if rules[i].matches(p) {
			return &rules[i].Quota
		}
	}
	return nil
}

func (r *Rule) matches(p Party) bool {
	is := func(pattern, value string) bool { return value != "" && (pattern == "*" || pattern == value) }
	if r.Key != "" || p.Key != "" {
		return r.Key != "" && is(r.Key, p.Key)
	}
	return is(r.Owner.OrganizationID, p.Owner.OrganizationID) && is(r.Owner.ProjectID, p.Owner.ProjectID) &&
		is(r.Owner.UserID, p.Owner.UserID)
}

// Full returns an error of class [runtime.ErrDenied] if p, which has n of what, may not have one more.
func Full(p Party, what string, n, most int) error {
	if n < most {
		return nil
	}
	return runtime.Errorf(runtime.ErrDenied, "quota: %s has %d %s, and may have %d: remove one", p, n, what, most)
}

// A Usage is what a party has.
type Usage struct {
	Sandboxes    int
	Memory, Disk int64 // the sums of the limits, in bytes
}

// Add adds a sandbox with the limits r.
func (u *Usage) Add(r *runtime.Resources) {
	u.Sandboxes++
	u.Memory += r.Memory
	u.Disk += r.Disk
}

// Exceeded returns an error of class [runtime.ErrDenied] if p, which has the usage u, may not have
// one more sandbox, with the limits r.
func (q *Quota) Exceeded(p Party, u Usage, r *runtime.Resources) error {
	if q.Sandboxes > 0 && u.Sandboxes >= q.Sandboxes {
		return runtime.Errorf(runtime.ErrDenied, "quota: %s has %d sandboxes, and may have %d: destroy one", p, u.Sandboxes, q.Sandboxes)
	}
	for _, sum := range []struct {
		name              string
		most, has, wanted int64
	}{{"memory", q.Memory, u.Memory, r.Memory}, {"disk", q.Disk, u.Disk, r.Disk}} {
		switch {
		case sum.most == 0:
		case sum.wanted == 0:
			return runtime.Errorf(runtime.ErrDenied, "quota: %s may have %d bytes of %s, and the new sandbox has no limit of %s: give it one",
				p, sum.most, sum.name, sum.name)
		case sum.has+sum.wanted > sum.most:
			return runtime.Errorf(runtime.ErrDenied,
				"quota: the sandboxes of %s have %d bytes of %s, and may have %d: %d more is too much; destroy one, or ask for less",
				p, sum.has, sum.name, sum.most, sum.wanted)
		}
	}
	return nil
}
