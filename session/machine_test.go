package session

import "testing"

// Each state has an effect of each event: those of the table in machine.go, and no other.
func TestEffects(t *testing.T) {
	want := map[state][eventCount]effect{ // work, done, lost, unread, broken
		idle:       {goOn, ignored, ignored, ignored, ignored},
		starting:   {ignored, goOn, fail, fail, fail},
		restoring:  {ignored, goOn, withoutState, withoutState, withoutState},
		created:    {ignored, goOn, ignored, ignored, ignored},
		untrapping: {ignored, goOn, goOn, goOn, goOn},
		reverting:  {ignored, goOn, goOn, goOn, goOn},
		overriding: {ignored, verify, fail, retry, fail},
		executing:  {ignored, reply, reply, retry, fail},
		launching:  {ignored, answer, fail, retry, fail},
		saving:     {ignored, save, save, save, save},
		leaving:    {goOn, ignored, ignored, ignored, ignored},
		gone:       {},
	}
	if len(want) != int(stateCount) {
		t.Errorf("%d of %d states are tested", len(want), stateCount)
	}
	for in := range stateCount {
		for ev := range eventCount {
			if got := effects[in][ev]; got != want[in][ev] {
				t.Errorf("state %d, event %d: effect %d, want %d", in, ev, got, want[in][ev])
			}
		}
	}
}

// Whatever the facts are there is a next state, and it is one that the facts allow.
func TestNext(t *testing.T) {
	for bits := range 1 << 7 {
		is := func(n int) bool { return bits>>n&1 == 1 }
		for task := range snapshotTask + 1 {
			f := facts{
				ending: is(0), leaving: is(1), shell: is(2), stateful: is(3), trapped: is(4), revert: is(5), override: is(6), task: task,
			}
			got := next(f)
			runs := got == restoring || got == untrapping || got == reverting || got == overriding || got == executing || got == launching
			var wrong string
			switch {
			case got == leaving && (!f.leaving || task != noTask):
				wrong = "it leaves when the task is done"
			case f.ending != (got == gone):
				wrong = "gone is for sessions that end, and those only"
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
			case (got == idle) != (!f.ending && !f.leaving && task == noTask && !(f.shell && (f.stateful || f.trapped || f.revert))):
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
		{gone, func() {}},
	} {
		if got := next(f); got != step.want {
			t.Fatalf("%+v: state %d, want %d", f, got, step.want)
		}
		step.then()
	}
}

// Each phase of a run has a reaction to each happening: those in the table of run.go,
// and no other.
func TestReactions(t *testing.T) {
	want := map[phase][happeningCount]reaction{ // timeUp, escalation, lookOver, rest, release, output, reported, exited, givenUp
		unreadText: {interrupt, escalate, look, resume, nothing, hold, end, end, interrupt},
		heldOutput: {interrupt, escalate, look, nothing, resume, hold, end, end, interrupt},
		readText:   {interrupt, escalate, look, resume, nothing, pass, end, end, interrupt},
		over:       {nothing, nothing, nothing, drain, nothing, drain, nothing, drain, drain},
	}
	for p := range phaseCount {
		for h := range happeningCount {
			if got := reactions[p][h]; got != want[p][h] {
				t.Errorf("phase %d, %d happens: reaction %d, want %d", p, h, got, want[p][h])
			}
		}
	}
}
