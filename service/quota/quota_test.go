package quota

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/runtime"
	"wolffia/service/registry"
)

func TestOf(t *testing.T) {
	owner := func(org, project, user string) registry.Owner {
		return registry.Owner{OrganizationID: org, ProjectID: project, UserID: user}
	}
	rules := []Rule{
		{Owner: owner("acme", "web", "*"), Quota: Quota{Sandboxes: 1}},
		{Key: "ci", Quota: Quota{Sandboxes: 2}},
		{Owner: owner("acme", "*", "*"), Quota: Quota{Sandboxes: 3}},
		{Key: "*", Quota: Quota{Sandboxes: 4}},
	}
	for p, want := range map[Party]int{
		{Owner: owner("acme", "web", "zoe")}: 1, {Owner: owner("acme", "app", "zoe")}: 3, {Owner: owner("other", "web", "zoe")}: 0,
		{Key: "ci"}: 2, {Key: "acme/web/zoe"}: 4, {}: 0, // an owner's rule is not for keys, nor for sandboxes without an owner
	} {
		got := 0
		if q := Of(rules, p); q != nil {
			got = q.Sandboxes
		}
		if got != want {
			t.Errorf("Of(%v) = %d sandboxes, want %d", p, got, want)
		}
	}
}

func TestExceeded(t *testing.T) {
	p := Party{Owner: registry.Owner{OrganizationID: "a", ProjectID: "b", UserID: "c"}}
	q := Quota{Sandboxes: 2, Memory: 100, Disk: 10}
	for _, c := range []struct {
		has  Usage
		more runtime.Resources
		want string // in the error; "": none
	}{
		{Usage{}, runtime.Resources{Memory: 100, Disk: 10}, ""},
		{Usage{1, 60, 5}, runtime.Resources{Memory: 40, Disk: 5}, ""},
		{Usage{2, 0, 0}, runtime.Resources{Memory: 1, Disk: 1}, "has 2 sandboxes"},
		{Usage{1, 60, 0}, runtime.Resources{Memory: 41, Disk: 1}, "60 bytes of memory"},
		{Usage{1, 0, 9}, runtime.Resources{Memory: 1, Disk: 2}, "9 bytes of disk"},
		{Usage{}, runtime.Resources{Disk: 1}, "no limit of memory"}, // it could take all
	} {
		err := q.Exceeded(p, c.has, &c.more)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, runtime.ErrDenied) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Exceeded(%v, %v) = %v, want %q", c.has, c.more, err, c.want)
		}
	}
}

func TestRates(t *testing.T) {
	var r Rates
	q, p := &Quota{Creates: 2, Requests: 1000}, Party{Key: "ci"}
	for range 2 {
		if err := r.Create(q, p); err != nil {
			t.Fatal(err)
		}
	}
	err := r.Create(q, p)
	late, is := errors.AsType[*RateError](err)
	if !is || late.After <= 0 || late.After > time.Minute/2 || !errors.Is(err, ErrTooOften) || !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("the third of 2 in a minute: %v", err)
	}
	if err := errors.Join(r.Create(q, Party{Key: "other"}), r.Create(nil, p), r.Request(q, p), r.Request(&Quota{}, p)); err != nil {
		t.Errorf("what is bounded apart, or not at all: %v", err)
	}
	// However many owners ask, memory is bounded, and what keys have asked is not forgotten.
	for i := range 3 * maxPaces {
		o := registry.Owner{OrganizationID: "a", ProjectID: "b", UserID: strconv.Itoa(i)}
		if err := r.Create(q, Party{Owner: o}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.all) > maxPaces || r.Create(q, p) == nil {
		t.Errorf("%d rates are remembered, at most %d may be, those of keys among them", len(r.all), maxPaces)
	}
}
