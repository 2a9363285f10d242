package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Plan is where a group can be made. If the facts of its Host have changed since, Open or Fill
// fails.
type Plan struct {
	// parents are the directories in which to make the group, by controller; in version 2
	// one, for "". It is empty if systemd makes the group.
	parents map[string]string
	enable  []string // version 2: the controllers to enable in the parent
	socket  string   // of the systemd manager that makes a scope
	wants   []string
}

// A Kind is the reason of a Refusal, which decides what would help.
type Kind int

// The kinds of refusals.
const (
	NoGroups   Kind = iota + 1 // none are mounted
	OldVersion                 // version 1, and not root
	Occupied                   // all groups have processes in them, and no systemd can make one
	// no group is delegated to the user, and no systemd of the user runs
	NoManager
	NotGiven // the group or the systemd manager does not have the controllers
)

// A Refusal is why there can be no group with some controllers.
type Refusal struct {
	Kind    Kind
	Lacking []string // the missing controllers; not empty
	Problem string   // one line
}

// Plan returns where a group with the controllers want, and the Freezer if the process may use it, can be made: as close to the process as
// possible, so that the limits of the process bind the group too.
func (h *Host) Plan(want []string) (*Plan, *Refusal) {
	switch h.version {
	case 1:
		return h.planV1(want)
	case 2:
		return h.planV2(want)
	}
	return nil, &Refusal{NoGroups, want, "no control groups are mounted at " + mount}
}

func (h *Host) planV1(want []string) (*Plan, *Refusal) {
	p := &Plan{parents: map[string]string{}, wants: want}
	var lacking []string
	for _, c := range want {
		if p.parents[c] = h.v1[c]; h.v1[c] == "" {
			lacking = append(lacking, c)
		}
	}
	if dir := h.v1[Freezer]; dir != "" {
		p.parents[Freezer] = dir
	}
	if lacking != nil {
		return nil, &Refusal{OldVersion, lacking, "this user may not use these controllers of version 1: " + strings.Join(lacking, ", ")}
	}
	return p, nil
}

func (h *Host) planV2(want []string) (*Plan, *Refusal) {
	want = without(want, []string{Freezer})
	var refused *Refusal // of the group that lacks the fewest controllers
	closest := func(r *Refusal) {
		if refused == nil || len(r.Lacking) < len(refused.Lacking) {
			refused = r
		}
	}
	for _, l := range h.own {
		if !l.writable || h.managedBySystemd(&l) {
			continue
		}
		can := l.has
		if l.occupied && !l.top {
			can = l.gives
		}
		lacking := without(want, can)
		switch {
		case len(lacking) == 0:
			return &Plan{parents: map[string]string{"": filepath.Join(mount, l.path)}, enable: without(want, l.gives), wants: want}, nil
		case len(without(want, l.has)) == 0:
			closest(&Refusal{Occupied, lacking, fmt.Sprintf("the control group %s has processes, so that groups in it cannot get controllers: %s", l.path, strings.Join(lacking, ", "))})
		default:
			closest(&Refusal{NotGiven, without(want, l.has), fmt.Sprintf("the control group %s does not have controllers: %s", l.path, strings.Join(without(want, l.has), ", "))})
		}
	}
	switch {
	case h.socket != "":
	case refused != nil:
		return nil, refused
	case h.root:
		return nil, &Refusal{Occupied, want, "root may not change any control group here"}
	default:
		return nil, &Refusal{NoManager, want, "no control group is delegated to this user, and no systemd of the user runs"}
	}
	lacking := without(want, h.managed)
	if len(lacking) > 0 {
		return nil, &Refusal{NotGiven, lacking, "systemd does not delegate controllers to this user: " + strings.Join(lacking, ", ")}
	}
	return &Plan{socket: h.socket, wants: want}, nil
}

// managedBySystemd reports whether systemd may change the group l at any time: a group that it has
// not delegated, or that of a user's manager (systemd.io/CGROUP_DELEGATION). A user may use a
// group of its own outside of those of its manager.
func (h *Host) managedBySystemd(l *level) bool {
	if !h.systemd {
		return false
	}
	base := filepath.Base(l.path)
	manager := strings.HasPrefix(base, "user@") && strings.HasSuffix(base, ".service")
	switch {
	case l.path == "/" || manager:
		return true
	case l.delegated:
		return false
	}
	return h.root || strings.Contains(l.path, "/user@")
}

// without returns the elements of want that are not in have.
func without(want, have []string) []string {
	var left []string
	for _, c := range want {
		if !slices.Contains(have, c) {
			left = append(left, c)
		}
	}
	return left
}

// String returns, on one line, where the group would be.
func (p *Plan) String() string {
	switch {
	case p.socket != "":
		return "version 2, a scope by systemd at " + p.socket
	case p.parents[""] != "":
		return "version 2, in " + p.parents[""]
	}
	return "version 1, " + strings.Join(p.wants, " ")
}
