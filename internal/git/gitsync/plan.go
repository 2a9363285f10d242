package gitsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxMoves bounds the references that one sync moves on the host.
const maxMoves = 10_000

var errMoves = fmt.Errorf("more than %d refs were changed inside: take what you need with wolffia apply --git=BRANCH", maxMoves)

const bothChanged = "both have changed it"

// A table is what one side has: references, and HEAD.
type table struct {
	Refs map[string]string `json:"refs"` // to the names of objects; without symbolic ones
	Head string            `json:"head"` // a branch with refs/heads/, or the name of a commit
}

// at returns the commit that HEAD is at; "" before the first one.
func (t table) at() string {
	if t.branch() != "" {
		return t.Refs[t.Head]
	}
	return t.Head
}

// branch returns the reference that HEAD names, or "" if it is detached.
func (t table) branch() string {
	if strings.HasPrefix(t.Head, "refs/") {
		return t.Head
	}
	return ""
}

// after returns the references after moves.
func (t table) after(moves []move) map[string]string {
	refs := maps.Clone(t.Refs)
	for _, m := range moves {
		if refs[m.Ref] = m.New; m.New == "" {
			delete(refs, m.Ref)
		}
	}
	return refs
}

// A move is a change of one reference. "" is a reference that does not exist.
type move struct {
	Ref string `json:"ref"`
	New string `json:"new"`
	Old string `json:"old"`
}

// An export is a branch that the host has the sandbox's commits at, since they could not go to the
// branch itself.
type export struct {
	To string `json:"to"`
	At string `json:"at"`
}

// A question is what plan decides on.
type question struct {
	base, inside, host table
	ancestor           func(old, of string) bool // whether old is an ancestor of of; both are on the host
	name               string                    // of the sandbox
	blocked            map[string]string         // references of the host, and HEAD, to why they cannot move
	exported           map[string]export         // by the reference inside
	insideBusy         string                    // the operation in progress inside, such as "a merge"
	hostBusy           string
	remotes            map[string]bool // that the host's configuration has
	folded             bool            // the host's file system does not tell cases apart
}

// An answer is the result of plan.
type answer struct {
	out     []move            // on the host
	in      []move            // inside
	aside   map[string]move   // by the reference inside: the move of a branch below refs/heads/wolffia/
	shown   map[string]string // references below refs/remotes/host that the sandbox gets
	agreed  map[string]string // references that both sides have afterwards
	headOut string            // the host's new HEAD; "": unchanged
	headIn  string
	said    []string // lines about completed changes
	stays   []string // lines about omitted changes, as long as the cause lasts
}

func (a *answer) hold(format string, args ...any) {
	a.stays = append(a.stays, fmt.Sprintf(format, args...))
}

func (a *answer) say(format string, args ...any) {
	a.said = append(a.said, fmt.Sprintf(format, args...))
}

// A planner is one run of plan.
type planner struct {
	question
	answer
	space *space
	moves int
}

// plan decides what moves where. It is a pure function: see section "What crosses" of docs/git.md.
func plan(q question) (answer, error) {
	p := &planner{question: q, space: newSpace(q.host.Refs, q.folded)}
	p.aside, p.shown, p.agreed = make(map[string]move), make(map[string]string), make(map[string]string)
	for _, r := range p.order() {
		if err := p.ref(r); err != nil {
			return answer{}, err
		}
	}
	p.head()
	return p.answer, nil
}

// order returns all references that may cross. What is deleted inside comes first: it makes room
// for others.
func (p *planner) order() []string {
	all := make(map[string]bool)
	for _, t := range []table{p.base, p.inside, p.host} {
		for r := range t.Refs {
			if kind(r) != "" && !strings.HasPrefix(r, hosts) {
				all[r] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		_, hasA := p.inside.Refs[a]
		_, hasB := p.inside.Refs[b]
		switch {
		case hasA && !hasB:
			return 1
		case hasB && !hasA:
			return -1
		}
		return strings.Compare(a, b)
	})
}

// own is the prefix of the branches that this sandbox's commits go aside to.
func (p *planner) own() string { return heads + "wolffia/" + p.name + "/" }

func (p *planner) ref(r string) error {
	base, in, host := p.base.Refs[r], p.inside.Refs[r], p.host.Refs[r]
	k := kind(r)
	switch {
	case in == "" && strings.HasPrefix(r, p.own()):
		return nil
	case in == host:
		p.agreed[r] = in
		return nil
	case in == base:
		p.in = append(p.in, move{r, host, in})
		return nil
	}
	if p.moves++; p.moves > maxMoves {
		return errMoves
	}
	if in != "" && host == "" {
		reason := nameFault(short(r))
		if reason == "" {
			reason = p.space.clash(r)
		}
		if reason != "" {
			p.keep(r, "the name does not cross: "+reason)
			return nil
		}
	}
	if k == remotes {
		name, _, _ := strings.Cut(short(r), "/")
		if !p.remotes[name] || in == "" || host != "" && !p.ancestor(host, in) {
			return nil // git's record of a remote only moves forward
		}
	}
	switch {
	case host == base:
		p.follow(r)
	case in == "": // deleted inside, moved on the host
		p.in = append(p.in, move{r, host, in})
	case host == "":
		p.keep(r, "it was deleted on the host meanwhile")
	case k != tags && p.ancestor(host, in):
		p.follow(r)
	case k != tags && p.ancestor(in, host):
		p.in = append(p.in, move{r, host, in})
	default:
		p.keep(r, bothChanged)
	}
	return nil
}

// follow moves a reference of the host to where the sandbox's is.
func (p *planner) follow(r string) {
	in, host := p.inside.Refs[r], p.host.Refs[r]
	if reason := p.blocked[r]; reason != "" {
		p.keep(r, reason)
		return
	}
	if in == "" && r == p.host.branch() && p.inside.Head == p.base.Head {
		p.say("%s was deleted in the sandbox, and is checked out here: it stays", short(r))
		p.in = append(p.in, move{r, host, in})
		return
	}
	if in == "" {
		p.space.remove(r)
	} else {
		p.space.add(r)
	}
	p.out = append(p.out, move{r, in, host})
	p.agreed[r] = in
	switch {
	case kind(r) != heads || host == "":
	case in == "":
		p.say("%s was deleted in the sandbox: it was %.12s", short(r), host)
	case !p.ancestor(host, in):
		p.say("%s was rewritten in the sandbox: it was %.12s", short(r), host)
	}
}

// keep keeps the host's reference as it is. The commits of a branch go to another one.
func (p *planner) keep(r, reason string) {
	in := p.inside.Refs[r]
	if in == "" || kind(r) != heads {
		p.hold("%s stays inside: %s", r, reason)
		return
	}
	to := p.place(r, in)
	p.space.add(to)
	p.aside[r] = move{to, in, p.host.Refs[to]}
	hint := ""
	if reason == bothChanged {
		hint = fmt.Sprintf(" (git merge %s)", short(to))
	}
	p.hold("%s: %s: the sandbox's commits are at %s%s", short(r), reason, short(to), hint)
	if host := p.host.Refs[r]; host != "" {
		p.shown[hosts+short(r)] = host
	}
}

// place returns the branch that the commits in go to. One that the sandbox's commits are at is
// moved while it is as the last sync left it; after that it is the user's.
func (p *planner) place(r, in string) string {
	name := short(r)
	usual := p.own() + PlainName(name)
	was, have := p.exported[r]
	if have && p.host.Refs[was.To] == was.At {
		return was.To
	}
	if at, is := p.host.Refs[usual]; is && at != in {
		usual = p.own() + cleaned(name+"\x00"+in)
	}
	if _, is := p.host.Refs[usual]; !is && p.space.clash(usual) != "" {
		usual = p.own() + cleaned(name)
	}
	return usual
}

func (p *planner) head() {
	base, in, host := p.base.Head, p.inside.Head, p.host.Head
	switch {
	case in == host:
	case in == base:
		p.headIn = host
	case host == base:
		reason := p.headFault()
		if reason == "" {
			p.headOut = in
			return
		}
		p.hold("HEAD stays: %s", reason)
		p.keepBranch()
	default:
		p.hold("HEAD stays: both have switched, the host to %s, the sandbox to %s", called(host), called(in))
		p.keepBranch()
	}
}

// headFault returns the reason why the host's HEAD does not follow, or "".
func (p *planner) headFault() string {
	to := p.inside.branch()
	switch {
	case p.insideBusy != "":
		return fmt.Sprintf("%s is in progress in the sandbox: wolffia shell %s to go on, wolffia rm -f %s to end it",
			p.insideBusy, p.name, p.name)
	case p.hostBusy != "":
		return p.hostBusy + " is in progress here"
	case p.blocked["HEAD"] != "":
		return p.blocked["HEAD"]
	case to == "":
		return ""
	case kind(to) != heads || nameFault(short(to)) != "":
		return "the branch's name does not cross"
	case p.blocked[to] != "":
		return short(to) + ": " + p.blocked[to]
	}
	at := p.host.after(p.out)[to]
	if have, is := p.inside.Refs[to]; is && at != have {
		return short(to) + " could not be taken over"
	} else if !is && at != "" {
		return short(to) + " has commits here"
	}
	return ""
}

// keepBranch keeps the branch that the host's HEAD stays on.
func (p *planner) keepBranch() {
	r := p.host.branch()
	at := slices.IndexFunc(p.out, func(m move) bool { return m.Ref == r && m.New == "" })
	if r == "" || at < 0 {
		return
	}
	p.out = slices.Delete(p.out, at, at+1)
	delete(p.agreed, r)
	p.said = slices.DeleteFunc(p.said,
		func(s string) bool { return strings.HasPrefix(s, short(r)+" was deleted in the sandbox: ") })
	p.say("%s was deleted in the sandbox, and is checked out here: it stays", short(r))
}

// called returns how a message names what HEAD is at.
func called(head string) string {
	if kind(head) != "" {
		return short(head)
	}
	return fmt.Sprintf("%.12s", head)
}
