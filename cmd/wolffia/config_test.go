package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/internal/config"
	"wolffia/network"
	"wolffia/perm/plainyaml"
	"wolffia/runtime/backends"
)

// Each flag of run, create and shell is a key, but those about one call; and what the table has of runtimes and limits is
// what there is.
func TestConfigKeys(t *testing.T) {
	h := &host.Host{Console: new(console.Console)}
	keys := fields.Keys()
	without := []string{"json", "help", sandboxflags.FlagProfile, sandboxflags.FlagNoConfig, "no-codebase", "user"}
	for _, cmd := range []interface{ Flags() *pflag.FlagSet }{runCommand(h), createCommand(h), shellCommand(h)} {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			is := slices.ContainsFunc(keys, func(k fields.Field) bool { return k.Name == f.Name })
			if is == slices.Contains(without, f.Name) {
				t.Errorf("--%s is a key: %v", f.Name, is)
			}
		})
	}
	runtimes := backends.Names()
	for name, want := range map[string][]string{
		"runtime": runtimes, "limits": {sandboxflags.LimitsStrict, sandboxflags.LimitsBestEffort}, "pull": {host.PullMissing, host.PullAlways, host.PullNever},
		"apply": {review.ApplyAsk, review.ApplyOnSuccess, review.ApplyAlways, review.ApplyNever}, "filter": append([]string{sandboxflags.FilterAuto}, fields.Find(fields.Run, "filter").Order()...),
	} {
		got := fields.Find(fields.Run, name).Order()
		slices.Sort(got)
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Errorf("--%s: the table has %v, the flag takes %v", name, got, want)
		}
	}
}

// TestConfigSchema: the schema and the parser accept the same files; the profiles and
// proposals of wolffia are among these.
func TestConfigSchema(t *testing.T) {
	keys := fields.Keys()
	text, err := json.Marshal(config.Schema(keys))
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	proposal := config.Propose(func(string) bool { return true })
	profiles := map[string]any{}
	for _, p := range config.Builtin() {
		body := map[string]any{"description": p.Description}
		for _, s := range p.Settings {
			if k := keys[slices.IndexFunc(keys, func(k fields.Field) bool { return k.Key == s.Key })]; k.Kind == fields.List {
				body[s.Key] = s.Values
				if _, err := (&network.Policy{Allow: s.Values}).Compile(); s.Key == sandboxflags.FlagAllowHost && err != nil {
					t.Errorf("profile %s: %v", p.Name, err)
				}
			} else {
				body[s.Key] = s.Values[0]
			}
		}
		profiles[p.Name] = body
	}
	builtin, err := json.Marshal(map[string]any{"profiles": profiles}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		proposal: true, string(builtin): true,
		"memory: 2g\nmount: [a]\nenv: {A: 1, B: }\nlabel: [a=b]\ncpus: 1.5\npids: 5\nttl: 90": true,
		"profile: p\nprofiles: {p: {network: host, description: d}, q: }\nallow: [mount]":     true,
		"nonsense: 1": false, "memory: true": false, "pids: 1.5": false, "pids: many": false, "mount: a": false, "mount: {a: b}": false,
		"env: a": false, "env: {a: [b]}": false, "network: wide": false, "preset: [read-only]": false,
		"profiles: {p: {profile: q}}": false, "profiles: [p]": false, "allow: mount": false, "[a]": false,
	} {
		_, perr := config.Parse(keys, config.Place{Name: "f", Dir: "/", Home: "/h"}, []byte(text))
		serr := resolved.Validate(plain(t, text))
		if (perr == nil) != ok || (serr == nil) != ok {
			t.Errorf("%q: parser %v, schema %v", text, perr, serr)
		}
	}
}

// plain returns a file's content as encoding/json would.
func plain(t *testing.T, text string) any {
	t.Helper()
	root, err := plainyaml.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var value func(n *plainyaml.Node) any
	value = func(n *plainyaml.Node) any {
		switch n.Kind {
		case plainyaml.Map:
			out := map[string]any{}
			for _, f := range n.Fields {
				out[f.Key] = value(f.Value)
			}
			return out
		case plainyaml.List:
			out := []any{}
			for _, item := range n.Items {
				out = append(out, value(item))
			}
			return out
		case plainyaml.Text:
			return n.Text
		case plainyaml.Null:
			return nil
		}
		var v any
		if err := json.Unmarshal([]byte(n.Text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	return value(root)
}
