package perm

import "testing"

// TestAssembleProject: what a codebase's own file says never gives more than the user's
// rules, wherever those come from, and less whenever it says so.
func TestAssembleProject(t *testing.T) {
	rules := func(texts ...string) (all []Rule) {
		for _, s := range texts {
			r, err := ParseRule(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	closed := &PolicyFile{Name: "p", Rules: []Rule{{Pattern: "/open/", Level: Read, Priority: PriorityFile}}}
	for _, tt := range []struct {
		says string
		req  Request
		want map[string]Level
	}{
		{
			"rules restrict and reveals reveal",
			Request{Project: rules("/docs/=read", ".env=write"), ProjectReveals: rules("/.env.test=read")},
			map[string]Level{"docs/x": Read, ".env": None, ".env.test": Read, "a": Write},
		},
		{
			"a rule of the user wins, however general",
			Request{Rules: rules("docs/=none"), Project: rules("/docs/x/y=write")},
			map[string]Level{"docs/x/y": None},
		},
		{
			"a rule of the user limits a reveal",
			Request{Rules: rules("*.test=view"), ProjectReveals: rules("/.env.test=write", "/a/.env=read")},
			map[string]Level{".env.test": View, "a/.env": Read},
		},
		{
			"so does a rule of the user's policy file",
			Request{File: &PolicyFile{Extends: DefaultPreset, Rules: []Rule{{Pattern: "/infra/", Level: None, Priority: PriorityFile}}}, Project: rules("/infra/a=write"), ProjectReveals: rules("/infra/.env=write")},
			map[string]Level{"infra/a": None, "infra/.env": None},
		},
		{
			"a reveal of the user outranks it, both ways",
			Request{Reveals: rules(".env=none", "/x.pem=write"), ProjectReveals: rules("/.env=write", "/x.pem=read")},
			map[string]Level{".env": None, "x.pem": Write},
		},
		{
			"the user's preset is the most that it gives",
			Request{Preset: "read-only", Project: rules("/out/=write"), ProjectReveals: rules("/.env=write")},
			map[string]Level{"out/x": Read, ".env": Read, "a": Read},
		},
		{
			"its own preset is not",
			Request{Preset: "read-only", ProjectPreset: true, Project: rules("/out/=write")},
			map[string]Level{"out/x": Write, "a": Read},
		},
		{
			"the user's preset is the most, also beside one of its own",
			Request{Preset: "view-only", ProjectPreset: true, UserPreset: "read-only", Project: rules("/out/=write"), ProjectReveals: rules("/.env=write", "/.git/config=write")},
			map[string]Level{"out/x": Read, ".env": Read, ".git/config": Read, "a": View},
		},
		{
			"a policy file that is closed stays closed",
			Request{File: closed, Project: rules("**=write"), ProjectReveals: rules("**=write")},
			map[string]Level{"open/x": Read, "a": None},
		},
	} {
		all, err := Assemble(&tt.req)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(all)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range tt.want {
			if got := p.Level(path, false); got != want {
				t.Errorf("%s: %s is %v, want %v", tt.says, path, got, want)
			}
		}
	}
}
