package config

import "slices"

// An Agent is a coding agent that can be put into a sandbox.
type Agent struct {
	Name, Title string
	// the list of hosts of its models and its login; "": the user chooses a model's host
	hosts string
	// Install is the command line that installs it; "": it is no certain agent.
	Install string
	env     []string // K=V: that switch its own sandbox and its updates off
	// Args switch its own sandbox off, and Yolo its questions: before the user's arguments.
	Args, Yolo []string
}

// downloads are the lists of hosts that an agent's commands download packages from. Where others
// can upload as easily, such as @github, the user decides.
var downloads = []string{"@crates", "@go", "@npm", "@pypi"}

// agents are those that wolffia knows, by the name of the program, the most usual first.
var agents = []Agent{
	{
		"claude", "Claude Code", "@anthropic", "npm install -g @anthropic-ai/claude-code",
		[]string{"DISABLE_AUTOUPDATER=1"},
		[]string{"--settings", `{"sandbox":{"enabled":false}}`},
		[]string{"--dangerously-skip-permissions"},
	},
	{
		"codex", "Codex", "@openai", "npm install -g @openai/codex", nil,
		[]string{"-c", "sandbox_mode=danger-full-access"},
		[]string{"-c", "approval_policy=never"},
	},
	{
		"gemini", "Gemini CLI", "@gemini", "npm install -g @google/gemini-cli",
		[]string{"GEMINI_SANDBOX=false"},
		nil,
		[]string{"--approval-mode=yolo"},
	},
	{"aider", "aider", "", "pipx install aider-chat", nil, nil, []string{"--yes-always"}},
	{"opencode", "opencode", "", "npm install -g opencode-ai", nil, nil, []string{"--auto"}},
	{"amp", "Amp", "", "npm install -g @sourcegraph/amp", nil, nil, []string{"--dangerously-allow-all"}},
	{"copilot", "GitHub Copilot CLI", "", "npm install -g @github/copilot", nil, nil, []string{"--allow-all"}},
	{
		"cursor-agent", "Cursor CLI", "", "see cursor.com/cli", nil,
		[]string{"--sandbox", "disabled"},
		[]string{"--force"},
	},
	{"goose", "goose", "", "see the documents of goose", nil, nil, nil},
	{"agent", "any agent", "", "", nil, nil, nil},
}

// Agents returns the agents that have a command, the most usual first.
func Agents() []Agent {
	return slices.DeleteFunc(slices.Clone(agents), func(a Agent) bool { return a.Install == "" })
}

// Builtin returns the profiles that wolffia has.
func Builtin() (out []Profile) {
	for i := range agents {
		out = append(out, agents[i].profile())
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
func (a *Agent) profile() Profile {
	p := Profile{Name: a.Name, Source: Source{Profile: a.Name}}
	add := func(key string, values ...string) {
		p.Settings = append(p.Settings, Setting{Key: key, Values: values, Source: p.Source})
	}
	p.Description = "For " + a.Title + ", with a home of its own: log in once inside."
	add("home", a.Name)
	if len(a.env) > 0 {
		add("env", a.env...)
	}
	if a.hosts == "" {
		p.Description += " It has the host's network, with the services of this host that trust localhost."
		add(keyNetwork, "host")
	} else {
		p.Description += " It reaches its models and registries of packages; --allow-host adds others, such as @github."
		add(keyAllowHost, append([]string{a.hosts}, downloads...)...)
	}
	return p
}
