package service

import (
	"errors"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/service/registry"
)

func TestQuotaOf(t *testing.T) {
	owner := func(org, project, user string) registry.Owner {
		return registry.Owner{OrganizationID: org, ProjectID: project, UserID: user}
	}
	rules := []QuotaRule{
		{Owner: owner("acme", "web", "*"), Quota: Quota{Sandboxes: 1}},
		{Key: "ci", Quota: Quota{Sandboxes: 2}},
		{Owner: owner("acme", "*", "*"), Quota: Quota{Sandboxes: 3}},
		{Key: "*", Quota: Quota{Sandboxes: 4}},
	}
	for p, want := range map[party]int{
		{owner: owner("acme", "web", "zoe")}: 1, {owner: owner("acme", "app", "zoe")}: 3, {owner: owner("other", "web", "zoe")}: 0,
		{key: "ci"}: 2, {key: "acme/web/zoe"}: 4, {}: 0, // an owner's rule is not for keys, nor for sandboxes without an owner
	} {
		got := 0
		if q := quotaOf(rules, p); q != nil {
			got = q.Sandboxes
		}
		if got != want {
			t.Errorf("quotaOf(%v) = %d sandboxes, want %d", p, got, want)
		}
	}
}

func TestExceeded(t *testing.T) {
	p := party{owner: registry.Owner{OrganizationID: "a", ProjectID: "b", UserID: "c"}}
	q := Quota{Sandboxes: 2, Memory: 100, Disk: 10}
	for _, c := range []struct {
		has  usage
		more runtime.Resources
		want string // in the error; "": none
	}{
		{usage{}, runtime.Resources{Memory: 100, Disk: 10}, ""},
		{usage{1, 60, 5}, runtime.Resources{Memory: 40, Disk: 5}, ""},
		{usage{2, 0, 0}, runtime.Resources{Memory: 1, Disk: 1}, "has 2 sandboxes"},
		{usage{1, 60, 0}, runtime.Resources{Memory: 41, Disk: 1}, "60 bytes of memory"},
		{usage{1, 0, 9}, runtime.Resources{Memory: 1, Disk: 2}, "9 bytes of disk"},
		{usage{}, runtime.Resources{Disk: 1}, "no limit of memory"}, // it could take all
	} {
		err := q.exceeded(p, c.has, &c.more)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, runtime.ErrDenied) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("exceeded(%v, %v) = %v, want %q", c.has, c.more, err, c.want)
		}
	}
}
