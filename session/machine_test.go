package session

import "testing"

// What the table of effects has to keep to.
func TestEffects(t *testing.T) {
	running := map[state]bool{ // something runs in the shell
		starting: true, restoring: true, untrapping: true, reverting: true, overriding: true, executing: true, launching: true, saving: true,
	}
	task := map[state]bool{overriding: true, executing: true, launching: true} // on behalf of a request
	for in := range stateCount {
		for ev := range eventCount {
			got := effects[in][ev]
			switch {
			case ev == work && (got != ignored) != (in == idle || in == shuttingDown):
				t.Errorf("state %d, new work: effect %d", in, got)
			case ev != work && (got != ignored) != (running[in] || in == created && ev == done):
				t.Errorf("state %d, event %d: effect %d, and running is %v", in, ev, got, running[in])
			case got == retry && !(task[in] && ev == unread):
				t.Errorf("state %d, event %d: a request would run twice", in, ev)
			case task[in] && ev == unread && got != retry:
				t.Errorf("state %d: a request that the shell has not read is not repeated", in)
			case task[in] && ev == broken && got != fail:
				t.Errorf("state %d: a request whose end is not known has effect %d", in, got)
			case (got == reply) != (in == executing && (ev == done || ev == lost)):
				t.Errorf("state %d, event %d: effect %d is wrong for a reply", in, ev, got)
			}
		}
	}
}

// For all facts there is a next state, and it is one that the facts allow.
func TestNext(t *testing.T) {
	for bits := range 1 << 7 {
		is := func(n int) bool { return bits>>n&1 == 1 }
		for task := range snapshotTask + 1 {
			f := facts{
				ending: is(0), shuttingDown: is(1), shell: is(2), stateful: is(3), trapped: is(4), revert: is(5), override: is(6), task: task,
			}
			got := next(f)
			runs := got == restoring || got == untrapping || got == reverting || got == overriding || got == executing || got == launching
			var wrong string
			switch {
			case got == shuttingDown && (!f.shuttingDown || task != noTask):
				wrong = "it leaves when the task is done"
			case f.ending != (got == terminated):
				wrong = "terminated is for sessions that end, and those only"
			case runs && !f.shell:
				wrong = "nothing runs without a shell"
			case f.shell && got == starting:
				wrong = "there is a shell"
			case task == noTask && (got == starting || got == created || got == overriding || got == executing || got == launching || got == saving):
				wrong = "there is no task"
			case (got == executing || got == launching || got == overriding || got == created) && (f.stateful || f.trapped || f.revert):
				wrong = "the shell is not ready for a task"
			case (got == executing || got == launching) && f.override:
				wrong = "Dir and Env are not set"
			case (got == idle) != (!f.ending && !f.shuttingDown && task == noTask && !(f.shell && (f.stateful || f.trapped || f.revert))):
				wrong = "idle is for when there is nothing to do"
			}
			if wrong != "" {
				t.Errorf("%+v: state %d: %s", f, got, wrong)
			}
		}
	}
	// The way of a call through the machine that needs all of it.
	f := facts{task: execTask, override: true}
	for _, step := range []struct {
		want state
		then func()
	}{
		{starting, func() { f.shell, f.stateful = true, true }},
		{restoring, func() { f.stateful, f.revert = false, true }},
		{reverting, func() { f.revert = false }},
		{overriding, func() { f.override = false }},
		{executing, func() { f.task, f.trapped, f.revert = noTask, true, true }},
		{untrapping, func() { f.trapped = false }},
		{reverting, func() { f.revert = false }},
		{idle, func() { f.task = snapshotTask }},
		{saving, func() { f.task, f.ending = noTask, true }},
		{terminated, func() {}},
	} {
		if got := next(f); got != step.want {
			t.Fatalf("%+v: state %d, want %d", f, got, step.want)
		}
		step.then()
	}
}

// Each phase of a run has a reaction to each run event: those in the table of run.go,
// and no other.
func TestReactions(t *testing.T) {
	want := map[phase][runEventCount]reaction{ // timeUp, escalation, reportCheck, rest, release, output, reported, exited, callerGone
		unreadText: {interrupt, escalate, checkReport, resume, nothing, hold, end, end, interrupt},
		heldOutput: {interrupt, escalate, checkReport, nothing, resume, hold, end, end, interrupt},
		readText:   {interrupt, escalate, checkReport, resume, nothing, pass, end, end, interrupt},
		over:       {nothing, nothing, nothing, drain, nothing, drain, nothing, drain, drain},
	}
	for p := range phaseCount {
		for h := range runEventCount {
			if got := reactions[p][h]; got != want[p][h] {
				t.Errorf("phase %d, %d happens: reaction %d, want %d", p, h, got, want[p][h])
			}
		}
	}
}
