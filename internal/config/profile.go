package config

import (
	"path/filepath"
	"slices"

	"wolffia/fields"
)

// An agent is a coding agent that can be put into a sandbox.
type agent struct {
	name, title string
	dirs        []string          // what it keeps below the home directory
	env         map[string]string // values that begin with ~ are paths
	hosts       string            // the list of hosts of its models and its login; "": the user chooses a model's host
}

// downloads are the lists of hosts that an agent's commands download packages from. Where others can
// upload as easily, such as @github, the user decides.
var downloads = []string{"@crates", "@go", "@npm", "@pypi"}

var agents = []agent{
	// With CLAUDE_CONFIG_DIR the file ~/.claude.json, which is replaced by rename and so
	// cannot be mounted by itself, is in the directory too.
	{"claude", "Claude Code", []string{".claude"}, map[string]string{"CLAUDE_CONFIG_DIR": "~/.claude"}, "@anthropic"},
	{"codex", "Codex", []string{".codex"}, nil, "@openai"},
	{"gemini", "Gemini CLI", []string{".gemini"}, nil, "@gemini"},
	{"aider", "aider", []string{".aider"}, nil, ""},
	{"opencode", "opencode", []string{".config/opencode", ".local/share/opencode"}, nil, ""},
	{"agent", "any agent", nil, nil, ""},
}

// Builtin returns the profiles that wolffia has, for the keys there are. home is the
// user's home directory.
func Builtin(keys []fields.Field, home string) (out []Profile) {
	for _, a := range agents {
		out = append(out, a.profile(keys, home))
	}
	plain := func(name, description string, settings ...Setting) {
		for i := range settings {
			settings[i].Source.Profile = name
		}
		out = append(out, Profile{Name: name, Description: description, Settings: settings, Source: Source{Profile: name}})
	}
	plain("ci", "For a job without a person: CI=true, and the command ends after an hour.",
		Setting{Key: "env", Values: []string{"CI=true"}}, Setting{Key: "timeout", Values: []string{"1h"}})
	plain("offline", "No network, whatever the files say.",
		Setting{Key: "network", Values: []string{"none"}})
	plain("review", "To read a codebase that is not yours: nothing can be changed, no network.",
		Setting{Key: "preset", Values: []string{"read-only"}}, Setting{Key: "network", Values: []string{"none"}})
	return out
}

// profile returns the profile of an agent: with a home of its own that stays, if there are
// such homes, else with what the agent keeps in the user's home directory.
func (a *agent) profile(keys []fields.Field, home string) Profile {
	p := Profile{Name: a.name, Source: Source{Profile: a.name}}
	add := func(key string, values ...string) {
		p.Settings = append(p.Settings, Setting{Key: key, Values: values, Source: p.Source})
	}
	network := " It has the host's network, with the services of this host that trust localhost."
	if a.hosts != "" {
		network = " It reaches its models and registries of packages; --allow-host adds others, such as @github."
	}
	switch {
	case key(keys, "home") != nil:
		p.Description = "For " + a.title + ", with a home of its own: log in once inside." + network
		add("home", a.name)
	case len(a.dirs) > 0:
		p.Description = "For " + a.title + ", which can change its own settings in your home, hooks too." + network
		var mounts []string
		for _, dir := range a.dirs {
			mounts = append(mounts, filepath.Join(home, dir)+":"+filepath.Join(home, dir)+":rw")
		}
		add("mount", mounts...)
	default:
		p.Description = "For " + a.title + "; add mounts of what it keeps." + network
	}
	var env []string
	for name, value := range a.env {
		if key(keys, "home") != nil {
			break // all of it stays; inside it may have another path than home
		}
		if rest, ok := cutTilde(value); ok {
			value = filepath.Join(home, rest)
		}
		env = append(env, name+"="+value)
	}
	if slices.Sort(env); env != nil {
		add("env", env...)
	}
	if a.hosts == "" {
		add(keyNetwork, "host")
	} else {
		add(keyAllowHost, append([]string{a.hosts}, downloads...)...)
	}
	return p
}

func cutTilde(s string) (rest string, ok bool) {
	if s == "" || s[0] != '~' {
		return s, false
	}
	return s[1:], true
}
