package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Plan says where a group can be made. It is made of facts; by the time that
// it is used they may have changed, which is an error then.
type Plan struct {
	// parents are the directories that the group goes into, by controller; of
	// version 2 there is one, for "". It is empty if systemd is asked.
	parents map[string]string
	enable  []string // version 2: the controllers that are to be switched on in the parent
	socket  string   // of the manager that is asked for a scope
	wants   []string
}

// A Kind of refusal says what would help.
type Kind int

// The kinds of refusals.
const (
	NoGroups   Kind = iota + 1 // none are mounted
	OldVersion                 // version 1, and not root
	Occupied                   // all groups have processes in them, and nobody is there to ask for one
	NoManager                  // no group is this user's, and no systemd of the user's runs
	NotGiven                   // the group or the manager there is does not have the controllers
)

// A Refusal says why there can be no group with some controllers.
type Refusal struct {
	Kind    Kind
	Lacking []string // the controllers that cannot be had; never empty
	Problem string   // on one line
}

// Plan decides where a group with some controllers can be made: close to the
// process, so that what limits it limits the group too.
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
	if lacking != nil {
		return nil, &Refusal{OldVersion, lacking, "control groups are of version 1, of which this user may not use: " + strings.Join(lacking, ", ")}
	}
	return p, nil
}

func (h *Host) planV2(want []string) (*Plan, *Refusal) {
	var refused *Refusal // by the group that comes closest
	closest := func(r *Refusal) {
		if refused == nil || len(r.Lacking) < len(refused.Lacking) {
			refused = r
		}
	}
	for _, l := range h.own {
		if !l.writable || h.minds(&l) {
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
			closest(&Refusal{Occupied, lacking, fmt.Sprintf("the control group %s has processes in it, so no group in it can limit: %s", l.path, strings.Join(lacking, ", "))})
		default:
			closest(&Refusal{NotGiven, without(want, l.has), fmt.Sprintf("the control group %s does not have: %s", l.path, strings.Join(without(want, l.has), ", "))})
		}
	}
	switch {
	case h.socket != "":
	case refused != nil:
		return nil, refused
	case h.root:
		return nil, &Refusal{Occupied, want, "no control group may be changed here"}
	default:
		return nil, &Refusal{NoManager, want, "no control group is delegated to this user, and no systemd of the user's own answers"}
	}
	lacking := without(want, h.managed)
	if len(lacking) > 0 {
		return nil, &Refusal{NotGiven, lacking, "systemd does not delegate to this user: " + strings.Join(lacking, ", ")}
	}
	return &Plan{socket: h.socket, wants: want}, nil
}

// minds reports whether systemd takes a group for its own, and may change it at
// any time: all that it has not given away, and what a manager has been given
// (systemd.io/CGROUP_DELEGATION). To a user it is enough that the group is the
// user's, outside of those of the user's manager.
func (h *Host) minds(l *level) bool {
	if !h.systemd {
		return false
	}
	base := filepath.Base(l.path)
	manager := strings.HasPrefix(base, "user@") && strings.HasSuffix(base, ".service")
	switch {
	case l.path == "/" || manager:
		return true
	case l.own:
		return false
	}
	return h.root || strings.Contains(l.path, "/user@")
}

// without returns what is in want and not in have.
func without(want, have []string) []string {
	var left []string
	for _, c := range want {
		if !slices.Contains(have, c) {
			left = append(left, c)
		}
	}
	return left
}

// String says, on one line, where the group would be.
func (p *Plan) String() string {
	switch {
	case p.socket != "":
		return "version 2, a scope by systemd at " + p.socket
	case p.parents[""] != "":
		return "version 2, in " + p.parents[""]
	}
	return "version 1, " + strings.Join(p.wants, " ")
}
