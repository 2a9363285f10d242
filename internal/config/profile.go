package config

// An agent is a coding agent that can be put into a sandbox.
type agent struct {
	name, title string
	// the list of hosts of its models and its login; "": the user chooses a model's host
	hosts string
}

// downloads are the lists of hosts that an agent's commands download packages from. Where others
// can upload as easily, such as @github, the user decides.
var downloads = []string{"@crates", "@go", "@npm", "@pypi"}

var agents = []agent{
	{"claude", "Claude Code", "@anthropic"},
	{"codex", "Codex", "@openai"},
	{"gemini", "Gemini CLI", "@gemini"},
	{"aider", "aider", ""},
	{"opencode", "opencode", ""},
	{"agent", "any agent", ""},
}

// Builtin returns the profiles that wolffia has.
func Builtin() (out []Profile) {
	for _, a := range agents {
		out = append(out, a.profile())
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

// profile returns the profile of an agent, with a home of its own that stays.
func (a *agent) profile() Profile {
	p := Profile{Name: a.name, Source: Source{Profile: a.name}}
	add := func(key string, values ...string) {
		p.Settings = append(p.Settings, Setting{Key: key, Values: values, Source: p.Source})
	}
	p.Description = "For " + a.title + ", with a home of its own: log in once inside."
	add("home", a.name)
	if a.hosts == "" {
		p.Description += " It has the host's network, with the services of this host that trust localhost."
		add(keyNetwork, "host")
	} else {
		p.Description += " It reaches its models and registries of packages; --allow-host adds others, such as @github."
		add(keyAllowHost, append([]string{a.hosts}, downloads...)...)
	}
	return p
}
