package gitsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Commits of the tests: of two on one line the shorter is an ancestor of the longer. "a1" is an
// ancestor of "a12", "b1" is not.
func lineage(old, of string) bool { return strings.HasPrefix(of, old) }

// tableOf parses "HEAD main a1 topic b1 tags/v1 a": the branch of HEAD or a commit, then
// references and their commits.
func tableOf(text string) table {
	f := strings.Fields(text)
	full := func(name string) string {
		for _, k := range []string{"tags/", "notes/", "remotes/", "heads/", "replace/"} {
			if strings.HasPrefix(name, k) {
				return "refs/" + name
			}
		}
		return heads + name
	}
	t := table{Refs: make(map[string]string), Head: full(f[0])}
	if at, is := strings.CutPrefix(f[0], "@"); is {
		t.Head = at
	}
	for n := 1; n < len(f); n += 2 {
		t.Refs[full(f[n])] = f[n+1]
	}
	return t
}

// text is an answer as the table of the test has it.
func (a answer) text() string {
	name := func(r string) string { return strings.TrimPrefix(strings.TrimPrefix(r, heads), "refs/") }
	or := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	var parts []string
	for _, m := range a.out {
		parts = append(parts, fmt.Sprintf("out %s %s>%s", name(m.Ref), or(m.Old), or(m.New)))
	}
	for _, m := range a.in {
		parts = append(parts, fmt.Sprintf("in %s %s>%s", name(m.Ref), or(m.Old), or(m.New)))
	}
	for _, r := range slices.Sorted(maps.Keys(a.aside)) {
		parts = append(parts, fmt.Sprintf("aside %s %s>%s", name(a.aside[r].Ref), or(a.aside[r].Old), or(a.aside[r].New)))
	}
	for _, r := range slices.Sorted(maps.Keys(a.shown)) {
		parts = append(parts, fmt.Sprintf("shown %s %s", name(r), a.shown[r]))
	}
	if a.headOut != "" {
		parts = append(parts, "head out "+name(a.headOut))
	}
	if a.headIn != "" {
		parts = append(parts, "head in "+name(a.headIn))
	}
	return strings.Join(slices.Concat(parts, a.said, a.stays), "; ")
}

func TestPlan(t *testing.T) {
	const start = "main main a topic b tags/v1 a"
	rebasing := func(q *question) { q.insideBusy = "a rebase" }
	for _, c := range []struct {
		name, base, inside, host string
		set                      func(q *question)
		want                     string
	}{
		{name: "nothing", base: start, inside: start, host: start},
		{name: "the host moves", base: start, inside: start, host: "main main a1 topic b tags/v1 a", want: "in main a>a1"},
		{name: "the host deletes", base: start, inside: start, host: "main main a tags/v1 a", want: "in topic b>-"},
		{name: "the host makes", base: start, inside: start, host: start + " x a", want: "in x ->a"},
		{name: "forward", base: start, inside: "main main a1 topic b tags/v1 a", host: start, want: "out main a>a1"},
		{name: "made", base: start, inside: start + " x a1", host: start, want: "out x ->a1"},
		{name: "rewritten", base: start, inside: "main main c topic b tags/v1 a", host: start, want: "out main a>c; main was rewritten in the sandbox: it was a"},
		{name: "deleted", base: start, inside: "main main a tags/v1 a", host: start, want: "out topic b>-; topic was deleted in the sandbox: it was b"},
		{name: "rewritten after an earlier sync", base: "main main a1", inside: "main main a2", host: "main main a1", want: "out main a1>a2; main was rewritten in the sandbox: it was a1"},
		{name: "both, the sandbox further", base: "main main a", inside: "main main a12", host: "main main a1", want: "out main a1>a12"},
		{name: "both, the host further", base: "main main a", inside: "main main a1", host: "main main a12", want: "in main a1>a12"},
		{name: "both the same", base: "main main a", inside: "main main a1", host: "main main a1"},
		{
			name: "both otherwise", base: "main main a", inside: "main main a1", host: "main main a2",
			want: "aside wolffia/box/main ->a1; shown remotes/host/main a2; main: both have changed it: the sandbox's commits are at wolffia/box/main (git merge wolffia/box/main)",
		},
		{name: "deleted inside, moved on the host", base: start, inside: "main main a tags/v1 a", host: "main main a topic b1 tags/v1 a", want: "in topic ->b1"},
		{
			name: "deleted on the host, moved inside", base: start, inside: "main main a topic b1 tags/v1 a", host: "main main a tags/v1 a",
			want: "aside wolffia/box/topic ->b1; topic: it was deleted on the host meanwhile: the sandbox's commits are at wolffia/box/topic",
		},
		{name: "deleted on both", base: start, inside: "main main a tags/v1 a", host: "main main a tags/v1 a"},
		{
			name: "blocked", base: start, inside: "main main a topic b1 tags/v1 a", host: start,
			set: func(q *question) {
				q.blocked = map[string]string{heads + "topic": "it is checked out in another working tree"}
			},
			want: "aside wolffia/box/topic ->b1; shown remotes/host/topic b; topic: it is checked out in another working tree: the sandbox's commits are at wolffia/box/topic",
		},
		{
			name: "aside moves on", base: "main main a", inside: "main main a12", host: "main main a2 wolffia/box/main a1",
			set:  func(q *question) { q.exported = map[string]export{heads + "main": {heads + "wolffia/box/main", "a1"}} },
			want: "aside wolffia/box/main a1>a12; shown remotes/host/main a2; main: both have changed it: the sandbox's commits are at wolffia/box/main (git merge wolffia/box/main)",
		},
		{
			name: "aside is the user's by now", base: "main main a", inside: "main main a12", host: "main main a2 wolffia/box/main c",
			set:  func(q *question) { q.exported = map[string]export{heads + "main": {heads + "wolffia/box/main", "a1"}} },
			want: "aside wolffia/box/main-a12-4d6b4dc9 ->a12; shown remotes/host/main a2; main: both have changed it: the sandbox's commits are at wolffia/box/main-a12-4d6b4dc9 (git merge wolffia/box/main-a12-4d6b4dc9)",
		},
		{name: "own branches aside do not come back", base: start, inside: start, host: start + " wolffia/box/x a1"},
		{name: "other sandboxes' do", base: start, inside: start, host: start + " wolffia/box1/x a1", want: "in wolffia/box1/x ->a1"},

		{name: "tag", base: start, inside: start + " tags/v2 a", host: start, want: "out tags/v2 ->a"},
		{name: "tag moved", base: start, inside: "main main a topic b tags/v1 b", host: start, want: "out tags/v1 a>b"},
		{name: "tag of both", base: start, inside: start + " tags/v2 a", host: start + " tags/v2 a1", want: "refs/tags/v2 stays inside: both have changed it"},
		{name: "tag with a branch's name", base: start, inside: start + " tags/topic a", host: start, want: "refs/tags/topic stays inside: the name does not cross: refs/heads/topic has the same short name"},
		{name: "branch with a tag's name", base: start, inside: start + " v1 a", host: start, want: "out v1 ->a"},
		{
			name: "branch with a remote's name", base: start, inside: start + " origin/main a", host: start + " remotes/origin/main a",
			want: "in remotes/origin/main ->a; aside wolffia/box/origin/main ->a; origin/main: the name does not cross: refs/remotes/origin/main has the same short name: the sandbox's commits are at wolffia/box/origin/main",
		},
		{name: "notes", base: "main main a notes/commits n", inside: "main main a notes/commits n1", host: "main main a notes/commits n", want: "out notes/commits n>n1"},
		{name: "notes of both", base: "main main a notes/commits n", inside: "main main a notes/commits n1", host: "main main a notes/commits n2", want: "refs/notes/commits stays inside: both have changed it"},
		{name: "remote", base: "main main a remotes/origin/main a", inside: "main main a remotes/origin/main a1", host: "main main a remotes/origin/main a", want: "out remotes/origin/main a>a1"},
		{name: "remote, not forward", base: "main main a remotes/origin/main a", inside: "main main a remotes/origin/main c", host: "main main a remotes/origin/main a"},
		{name: "remote, deleted", base: "main main a remotes/origin/main a", inside: "main main a", host: "main main a remotes/origin/main a"},
		{name: "remote of the sandbox", base: "main main a", inside: "main main a remotes/evil/main a", host: "main main a"},
		{name: "remotes/host", base: "main main a", inside: "main main a remotes/host/main a1", host: "main main a"},
		{name: "others", base: "main main a", inside: "main main a replace/x a1", host: "main main a"},
		{
			name: "a directory in the place of a file", base: start, inside: start + " fix/login a1", host: start + " fix a",
			want: "in fix ->a; aside wolffia/box/fix/login ->a1; fix/login: the name does not cross: refs/heads/fix is in its place: the sandbox's commits are at wolffia/box/fix/login",
		},
		{name: "a file becomes a directory", base: start, inside: "main main a topic/x b tags/v1 a", host: start, want: "out topic b>-; out topic/x ->b; topic was deleted in the sandbox: it was b"},
		{
			name: "case", base: start, inside: start + " Topic a", host: start, set: func(q *question) { q.folded = true },
			want: "aside wolffia/box/Topic ->a; Topic: the name does not cross: refs/heads/topic differs in case only: the sandbox's commits are at wolffia/box/Topic",
		},

		{name: "switch", base: start, inside: "topic main a topic b tags/v1 a", host: start, want: "head out topic"},
		{name: "switch on the host", base: start, inside: start, host: "topic main a topic b tags/v1 a", want: "head in topic"},
		{name: "detached", base: start, inside: "@a1 main a topic b tags/v1 a", host: start, want: "head out a1"},
		{
			name: "both switch", base: start, inside: "topic main a topic b tags/v1 a", host: "x main a topic b tags/v1 a x a",
			want: "in x ->a; HEAD stays: both have switched, the host to x, the sandbox to topic",
		},
		{
			name: "rebase inside", base: start, inside: "@a1 main a topic b tags/v1 a x a1", host: start, set: rebasing,
			want: "out x ->a1; HEAD stays: a rebase is in progress in the sandbox: wolffia shell box to go on, wolffia rm -f box to end it",
		},
		{
			name: "operation on the host", base: start, inside: "topic main a topic b tags/v1 a", host: start, set: func(q *question) { q.hostBusy = "a merge" },
			want: "HEAD stays: a merge is in progress here",
		},
		{
			name: "renamed", base: "main main a", inside: "trunk trunk a", host: "main main a",
			want: "out main a>-; out trunk ->a; head out trunk; main was deleted in the sandbox: it was a",
		},
		{
			name: "the branch of HEAD deleted during a rebase", base: start, inside: "@a1 topic b tags/v1 a", host: start, set: rebasing,
			want: "main was deleted in the sandbox, and is checked out here: it stays; HEAD stays: a rebase is in progress in the sandbox: wolffia shell box to go on, wolffia rm -f box to end it",
		},
		{
			name: "HEAD at a name that does not cross", base: start, inside: "x;y main a topic b tags/v1 a x;y a1", host: start,
			want: "aside wolffia/box/x-y-b0c8c65a ->a1; x;y: the name does not cross: it has the character ';', which a shell can act on: the sandbox's commits are at wolffia/box/x-y-b0c8c65a; HEAD stays: the branch's name does not cross",
		},
		{name: "unborn", base: start, inside: "o main a topic b tags/v1 a", host: start, want: "head out o"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := question{base: tableOf(c.base), inside: tableOf(c.inside), host: tableOf(c.host), ancestor: lineage, name: "box", remotes: map[string]bool{"origin": true}}
			if c.set != nil {
				c.set(&q)
			}
			got, err := plan(q)
			if err != nil || got.text() != c.want {
				t.Errorf("got  %q, %v\nwant %q", got.text(), err, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, n := range slices.Concat(badNames, []string{"a..b", "a/.b", "a.lock", "a//b", "a.", "@", "a@{1}", "stash", "refs", "tags/x", "remotes/x", "a b", "a\x01", "a\xffb", strings.Repeat("0", 64)}) {
		if nameFault(n) == "" {
			t.Errorf("%q crosses", n)
		}
		if c := cleaned(n); nameFault(c) != "" {
			t.Errorf("%q becomes %q, which does not cross: %s", n, c, nameFault(c))
		}
	}
	for _, n := range slices.Concat(goodNames, []string{"main", "a@b", "HEADS", "e\u0301"}) {
		if why := nameFault(n); why != "" {
			t.Errorf("%q does not cross: %s", n, why)
		}
	}
	if cleaned("a;b") == cleaned("a:b") {
		t.Error("two names become one")
	}
}

func TestTooManyMoves(t *testing.T) {
	q := question{base: tableOf("main main a"), inside: tableOf("main main a"), host: tableOf("main main a"), ancestor: lineage, name: "box"}
	for n := range maxMoves + 1 {
		q.inside.Refs[fmt.Sprintf("%sb%d", heads, n)] = "a"
	}
	if _, err := plan(q); err == nil {
		t.Error("too many references cross")
	}
}

// Whatever git inside prints, it is parsed or refused.
func FuzzInside(f *testing.F) {
	f.Add([]byte("1 index\nrefs/heads/main\n" + strings.Repeat("a", 40) + " refs/heads/main \n.\n" + strings.Repeat("b", 40) + " On main: x\n.\n"))
	f.Add([]byte("1 index\nrefs/heads/main\n.\n.\n:100644 100644 " + strings.Repeat("a", 40) + " " + strings.Repeat("b", 40) + " M\x00src/a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, staged, err := parseInside(b, 40)
		if err != nil {
			return
		}
		for r, at := range got.Refs {
			if !strings.HasPrefix(r, "refs/") || strings.ContainsAny(r, " \n\x00") || !objectName.MatchString(at) {
				t.Errorf("%q at %q", r, at)
			}
		}
		_, _ = stagedSet(staged)
	})
}
