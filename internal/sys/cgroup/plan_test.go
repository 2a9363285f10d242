package cgroup

import (
	"slices"
	"strings"
	"testing"
)

// All that limits need.
func all() []string { return []string{CPU, Memory, PIDs} }

// Groups as they are found on hosts.
var (
	session = level{path: "/user.slice/user-1000.slice/session-3.scope", occupied: true, has: all()}
	shell   = level{path: "/user.slice/user-1000.slice/user@1000.service/app.slice/shell.scope", writable: true, occupied: true, has: all()}
	slice   = level{path: "/user.slice/user-1000.slice/user@1000.service/app.slice", writable: true, has: all(), gives: all()}
	user    = level{path: "/user.slice/user-1000.slice/user@1000.service", writable: true, delegated: true, has: all(), gives: all()}
	job     = level{path: "/system.slice/ci.service/main", writable: true, occupied: true, has: all()}
	service = level{path: "/system.slice/ci.service", writable: true, delegated: true, has: all(), gives: []string{Memory}}
	closed  = level{path: "/", top: true, occupied: true, has: all(), gives: all()}
	top     = level{path: "/", top: true, writable: true, occupied: true, has: all(), gives: []string{PIDs}}
	inside  = level{path: "/", writable: true, occupied: true, has: all()} // a container's namespace
)

const userBus = "/run/user/1000/systemd/private"

func TestPlan(t *testing.T) {
	poor := slice
	poor.has, poor.gives = []string{Memory, PIDs}, []string{Memory, PIDs}
	alien := service // as older versions of systemd leave it
	alien.delegated = false
	given := shell
	given.delegated, given.occupied = true, false
	for _, tt := range []struct {
		name string
		host Host
		want string // a part of the plan, or of the problem
		kind Kind   // 0: there is a plan
		not  []string
	}{
		{"none", Host{}, "no control groups", NoGroups, all()},
		{"v1, root", Host{version: 1, root: true, v1: map[string]string{CPU: "/c", Memory: "/m", PIDs: "/p"}}, "version 1", 0, nil},
		{"v1, user", Host{version: 1, v1: map[string]string{}}, "version 1", OldVersion, all()},
		{"v1, a part", Host{version: 1, v1: map[string]string{Memory: "/m", PIDs: "/p"}}, "cpu", OldVersion, []string{CPU}},
		{
			"logged in",
			Host{version: 2, systemd: true, socket: userBus, managed: all(), own: []level{session, closed}},
			"a scope by systemd at " + userBus, 0, nil,
		},
		{
			"a desktop's terminal",
			Host{version: 2, systemd: true, socket: userBus, managed: all(), own: []level{shell, slice, user, closed}},
			"a scope by systemd", 0, nil,
		},
		{
			"cpu not delegated",
			Host{version: 2, systemd: true, socket: userBus, managed: []string{Memory, PIDs}, own: []level{session, closed}},
			"systemd does not delegate controllers to this user: cpu", NotGiven,
			[]string{CPU},
		},
		{"by su, no manager", Host{version: 2, systemd: true, own: []level{session, closed}}, "no systemd of the user runs", NoManager, all()},
		{"a manager that is gone", Host{version: 2, systemd: true, own: []level{shell, slice, user, closed}}, "no systemd of the user runs", NoManager, all()},
		{"a service", Host{version: 2, systemd: true, own: []level{job, service, closed}}, "in /sys/fs/cgroup/system.slice/ci.service", 0, nil},
		{"a service, unmarked", Host{version: 2, systemd: true, own: []level{job, alien, closed}}, "in /sys/fs/cgroup/system.slice/ci.service", 0, nil},
		{"a service in one group", Host{version: 2, systemd: true, own: []level{job, closed}}, "has processes, so that", Occupied, all()},
		{"a scope with room", Host{version: 2, systemd: true, own: []level{given, slice, user, closed}}, "shell.scope", 0, nil},
		{"no systemd, a part", Host{version: 2, own: []level{shell, poor, closed}}, "does not have controllers: cpu", NotGiven, []string{CPU}},
		{
			"root, systemd",
			Host{version: 2, root: true, systemd: true, socket: "/run/systemd/private", managed: all(), own: []level{{path: "/user.slice/user-0.slice/session-1.scope", writable: true, has: all()}, top}},
			"a scope by systemd at /run/systemd/private", 0, nil,
		},
		{"root, in a service", Host{version: 2, root: true, systemd: true, socket: "/run/systemd/private", managed: all(), own: []level{job, service, top}}, "ci.service", 0, nil},
		{"root, no systemd", Host{version: 2, root: true, own: []level{top}}, "in /sys/fs/cgroup", 0, nil},
		{"a container", Host{version: 2, root: true, own: []level{inside}}, "has processes, so that", Occupied, all()},
		{"a container, read-only", Host{version: 2, root: true, own: []level{{path: "/", occupied: true, has: all()}}}, "may not change any control group", Occupied, all()},
		{"a container with a place for us", Host{version: 2, root: true, own: []level{{path: "/init", writable: true, occupied: true, has: all()}, {path: "/", writable: true, has: all()}}}, "in /sys/fs/cgroup", 0, nil},
		{"a container with systemd", Host{version: 2, root: true, systemd: true, own: []level{{path: "/", writable: true, has: all()}}}, "may not change any control group", Occupied, all()},
	} {
		plan, refused := tt.host.Plan(all())
		if (plan == nil) != (tt.kind != 0) || (refused == nil) != (tt.kind == 0) {
			t.Errorf("%s: got plan %v, refused %+v; want (plan == nil) == tt.kind != 0 and (refused == nil) == tt.kind == 0",
				tt.name, plan, refused)
			continue
		}
		if plan != nil {
			if !strings.Contains(plan.String(), tt.want) {
				t.Errorf("%s: %s, want %s", tt.name, plan, tt.want)
			}
			continue
		}
		if refused.Kind != tt.kind || !slices.Equal(refused.Lacking, tt.not) || !strings.Contains(refused.Problem, tt.want) || strings.Contains(refused.Problem, "\n") {
			t.Errorf("%s: got refused %+v; want refused.Kind == %v and refused.Lacking == %v and refused.Problem contains %v and refused.Problem does not contain %q",
				tt.name, refused, tt.kind, tt.not, tt.want, "\n")
		}
	}
}

// What is wanted less, is refused less: so asking again without what was lacking
// comes to an end, and to what there is.
func TestPlanOfLess(t *testing.T) {
	poor := Host{version: 2, systemd: true, socket: userBus, managed: []string{Memory, PIDs}, own: []level{session, closed}}
	if p, refused := poor.Plan([]string{Memory, PIDs}); refused != nil || p.socket != userBus {
		t.Errorf("Plan: got p %v, refused %+v; want refused == nil and p.socket == userBus", p, refused)
	}
	h := Host{version: 2, root: true, own: []level{top}}
	if p, _ := h.Plan(all()); !slices.Equal(p.enable, []string{CPU, Memory}) {
		t.Errorf("it enables %v", p.enable)
	}
}

func TestPathOf(t *testing.T) {
	const text = "2:cpu,cpuacct:/a:b\n1:name=systemd:/s\n0::/c\n"
	for controller, want := range map[string]string{"cpu": "/a:b", "cpuacct": "/a:b", "": "/c", Memory: ""} {
		if got := pathOf(text, controller); got != want {
			t.Errorf("%q: %q, want %q", controller, got, want)
		}
	}
}
