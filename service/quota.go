package service

import (
	"strconv"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// A Quota bounds what one owner, or one API key, has of a service. 0 means no bound.
type Quota struct {
	Sandboxes int   // that exist, whether they run or not
	Memory    int64 // the sum of their limits, in bytes
	Disk      int64 // likewise
	Creates   int   // new sandboxes in a minute
	Requests  int   // in a second; of API keys only
}

// A QuotaRule gives a Quota to owners or API keys: of each class, the first rule that matches counts.
type QuotaRule struct {
	Owner registry.Owner // "*" matches each organization, project or user
	Key   string         // the name of an API key, or "*"; empty: Owner counts
	Quota
}

// A party is an owner or an API key: exactly one is set.
type party struct {
	owner registry.Owner
	key   string
}

func (p party) String() string {
	if p.key != "" {
		return "API key " + strconv.Quote(p.key)
	}
	return "owner " + p.owner.OrganizationID + "/" + p.owner.ProjectID + "/" + p.owner.UserID
}

// quotaOf returns the quota of a party; nil: none.
func quotaOf(rules []QuotaRule, p party) *Quota {
	for i := range rules {
		if rules[i].matches(p) {
			return &rules[i].Quota
		}
	}
	return nil
}

func (r *QuotaRule) matches(p party) bool {
	is := func(pattern, value string) bool { return value != "" && (pattern == "*" || pattern == value) }
	if r.Key != "" || p.key != "" {
		return r.Key != "" && is(r.Key, p.key)
	}
	return is(r.Owner.OrganizationID, p.owner.OrganizationID) && is(r.Owner.ProjectID, p.owner.ProjectID) && is(r.Owner.UserID, p.owner.UserID)
}

// A usage is what a party has.
type usage struct {
	sandboxes    int
	memory, disk int64
}

// exceeded returns an error if one more sandbox with limits r is more than the quota of p, which has the usage u.
func (q *Quota) exceeded(p party, u usage, r *runtime.Resources) error {
	if q.Sandboxes > 0 && u.sandboxes >= q.Sandboxes {
		return runtime.Errorf(runtime.ErrDenied, "quota: %s has %d sandboxes, and may have %d: destroy one", p, u.sandboxes, q.Sandboxes)
	}
	for _, sum := range []struct {
		name              string
		most, has, wanted int64
	}{{"memory", q.Memory, u.memory, r.Memory}, {"disk", q.Disk, u.disk, r.Disk}} {
		switch {
		case sum.most == 0:
		case sum.wanted == 0:
			return runtime.Errorf(runtime.ErrDenied, "quota: %s may have %d bytes of %s, and the new sandbox has no limit of %s: give it one", p, sum.most, sum.name, sum.name)
		case sum.has+sum.wanted > sum.most:
			return runtime.Errorf(runtime.ErrDenied, "quota: the sandboxes of %s have %d bytes of %s, and may have %d: %d more is too much; destroy one, or ask for less",
				p, sum.has, sum.name, sum.most, sum.wanted)
		}
	}
	return nil
}
