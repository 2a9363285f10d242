package session

import (
	"slices"
	"testing"

	"wolffia/internal/sys/proc"
)

func TestSleepsAt(t *testing.T) {
	p := func(pid, parent, group int, state byte) proc.Process {
		return proc.Process{PID: pid, Parent: parent, Group: group, State: state}
	}
	for name, tt := range map[string]struct {
		found []proc.Process
		group int
		has   []int
		want  bool
	}{
		"nothing":             {nil, 5, nil, false},
		"an editor":           {[]proc.Process{p(5, 1, 5, 'S')}, 5, []int{5}, true},
		"it works":            {[]proc.Process{p(5, 1, 5, 'R')}, 5, []int{5}, false},
		"without terminal":    {[]proc.Process{p(5, 1, 5, 'S')}, 5, nil, false},
		"started by git":      {[]proc.Process{p(5, 1, 5, 'S'), p(6, 5, 5, 'S'), p(7, 6, 5, 'S')}, 5, []int{7}, true},
		"waits for a child":   {[]proc.Process{p(5, 1, 5, 'S'), p(6, 5, 6, 'S')}, 5, []int{5}, false},
		"beside a job":        {[]proc.Process{p(5, 1, 5, 'S'), p(6, 1, 6, 'S')}, 5, []int{5}, true},
		"only in a job":       {[]proc.Process{p(6, 1, 6, 'S')}, 5, []int{6}, false},
		"end of a pipeline":   {[]proc.Process{p(6, 1, 5, 'S')}, 5, []int{6}, true},
		"pipeline that works": {[]proc.Process{p(5, 1, 5, 'D'), p(6, 1, 5, 'S')}, 5, []int{5, 6}, false},
		"any group":           {[]proc.Process{p(5, 1, 5, 'S'), p(6, 1, 6, 'S')}, 0, []int{5}, false},
	} {
		if got := sleepsAt(tt.found, tt.group, func(pid int) bool { return slices.Contains(tt.has, pid) }); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
