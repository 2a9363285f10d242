package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/image/store"
	"wolffia/internal/filecall"
	"wolffia/ops"
	"wolffia/perm"
	"wolffia/runtime"
)

type statusIn struct{}

type statusOut struct {
	Sandbox    string      `json:"sandbox" jsonschema:"id"`
	Name       string      `json:"name,omitempty"`
	Wolffia    string      `json:"wolffia" jsonschema:"version"`
	Runtime    string      `json:"runtime" jsonschema:"what isolates: bwrap, gvisor or docker"`
	Image      string      `json:"image,omitempty" jsonschema:"absent: the host's system directories, read-only, or, for a client over HTTP, an image in files of the host"`
	Codebase   string      `json:"codebase,omitempty" jsonschema:"path of the project on the host; absent if there is none, or the client is one over HTTP"`
	Copied     bool        `json:"copied,omitempty" jsonschema:"the project is a copy: the user applies what changes, or does not"`
	MountPoint string      `json:"mount_point" jsonschema:"where the project is inside"`
	WorkingDir string      `json:"working_directory" jsonschema:"where relative paths of file tools begin"`
	Filter     string      `json:"filter,omitempty" jsonschema:"what enforces the rules"`
	Rules      []ruleCount `json:"rules" jsonschema:"how many there are, by where they come from"`
	Network    string      `json:"network" jsonschema:"none: only the sandbox's own loopback; filtered: the hosts that are allowed by name; host: the host's network"`
	Limits     limits      `json:"limits"`
	Lasting    bool        `json:"lasting" jsonschema:"the sandbox stays when the client ends"`
	ExpiresAt  *time.Time  `json:"expires_at,omitempty"`
	Shell      *shell      `json:"shell,omitempty" jsonschema:"absent: bash was not called yet"`
	Jobs       []job       `json:"jobs"`
}

type ruleCount struct {
	From  string `json:"from"`
	Count int    `json:"count"`
}

type limits struct {
	Memory int64   `json:"memory_bytes,omitempty"`
	CPUs   float64 `json:"cpus,omitempty"`
	PIDs   int64   `json:"processes,omitempty"`
	Disk   int64   `json:"disk_bytes,omitempty" jsonschema:"that may be added to the project"`
	// OOMKills is how many processes were killed because of Memory.
	OOMKills int64 `json:"killed_for_memory,omitempty"`
}

type shell struct {
	Program  string `json:"program"`
	State    string `json:"state"`
	Cwd      string `json:"cwd"`
	Commands int64  `json:"commands"`
	Waiting  int    `json:"waiting"`
}

type explainIn struct {
	Path  string `json:"path" jsonschema:"as for read_file; a trailing / says that it is a directory"`
	Level string `json:"level,omitempty" jsonschema:"what is wanted: view, read or write, which is the default"`
}

type explainOut struct {
	Path      string `json:"path" jsonschema:"relative to the project's root"`
	Directory bool   `json:"directory"`
	Level     string `json:"level" jsonschema:"what the rules give: none (the name does not exist inside), view (name and attributes), read or write"`
	Rule      string `json:"rule,omitempty" jsonschema:"the rule that decides"`
	From      string `json:"from,omitempty" jsonschema:"where the rule comes from"`
	Reason    string `json:"reason,omitempty" jsonschema:"why the rule exists"`
	Allowed   bool   `json:"allowed" jsonschema:"the level that is wanted is given"`
	Flag      string `json:"flag,omitempty" jsonschema:"flag of wolffia mcp or serve that would allow it; absent if no flag does"`
	Allow     string `json:"allow,omitempty" jsonschema:"a command with which the user can allow it, at once"`
}

func (s *Server) addStatus() {
	tool(s, &sdk.Tool{
		Name: "status", Title: "Describe the sandbox",
		Description: "Describe the sandbox: where the project is, network, limits, rules, the shell and background jobs.",
		Annotations: reads(),
	}, (*call).status)
	tool(s, &sdk.Tool{
		Name: "explain_denial", Title: "Explain a rule",
		Description: "Say what the rules allow for a path of the project, which rule decides, and what the user could do to allow more. It works for hidden paths, and says nothing about whether a path exists.",
		Annotations: reads(),
	}, (*call).explainDenial)
}

// imageName returns the name of an image for the client. That of one in files has a path of this host.
func (o *Options) imageName(name string) string {
	if o.Remote && store.Local(name) {
		return ""
	}
	return name
}

func (c *call) status(ctx context.Context, _ statusIn) (reply, *statusOut, error) {
	s, err := c.Runtime.Get(ctx, c.id())
	if err != nil {
		return reply{}, nil, err
	}
	d, err := c.Inspect(ctx, c.id())
	if err != nil {
		return reply{}, nil, err
	}
	conf := &d.Config
	out := &statusOut{
		Sandbox: s.ID, Name: s.Name, Wolffia: c.Version, Runtime: s.Runtime, Image: c.imageName(s.Image), Codebase: valid([]byte(s.CodebasePath)),
		MountPoint: s.MountPoint, WorkingDir: workingDir(conf), Filter: string(s.Filter), Rules: counts(conf.Permissions),
		Copied: s.CopyOnWrite, Network: string(s.Network), Lasting: !conf.BoundToCaller, Jobs: []job{},
		Limits: limits{Memory: conf.Resources.Memory, CPUs: conf.Resources.CPUs, PIDs: conf.Resources.PIDs, Disk: conf.Resources.Disk},
	}
	if c.Remote {
		out.Codebase = ""
	}
	if d.Limits != nil {
		out.Limits.OOMKills = d.Limits.OOMKills
	}
	if !s.ExpiresAt.IsZero() {
		out.ExpiresAt = &s.ExpiresAt
	}
	session, err := c.Runtime.GetSession(ctx, c.session())
	switch {
	case err == nil:
		out.Shell = &shell{valid([]byte(session.Shell)), string(session.State), valid([]byte(session.Cwd)), session.Commands, session.Waiting}
	case !errors.Is(err, runtime.ErrNotFound):
		return reply{}, nil, err
	}
	all, err := c.jobs().List(ctx)
	if err != nil {
		return reply{}, nil, err
	}
	for _, j := range all {
		out.Jobs = append(out.Jobs, jobOf(j))
	}
	return reply{text: out.text()}, out, nil
}

// workingDir returns where commands start.
func workingDir(c *runtime.SandboxConfig) string { return cmp.Or(c.Cwd, c.MountPointOrDefault()) }

// counts counts rules by where they come from, in the order of their first one.
func counts(rules []perm.Rule) []ruleCount {
	list := []ruleCount{}
	at := map[string]int{}
	for i := range rules {
		from := cmp.Or(rules[i].Source, "other")
		j, known := at[from]
		if !known {
			j = len(list)
			at[from], list = j, append(list, ruleCount{From: from})
		}
		list[j].Count++
	}
	return list
}

func (o *statusOut) text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) { fmt.Fprintf(&b, name+": "+format+"\n", args...) }
	row("sandbox", "%s%s, runtime %s, %s", o.Sandbox, map[bool]string{true: " (" + o.Name + ")"}[o.Name != ""], o.Runtime,
		map[bool]string{true: "stays when the client ends", false: "ends with the client"}[o.Lasting])
	if o.Image != "" {
		row("image", "%s", o.Image)
	}
	if o.Codebase != "" {
		row("project", "%s, inside at %s", o.Codebase, o.MountPoint)
	} else if o.Filter != "" {
		row("project", "inside at %s", o.MountPoint)
	}
	if o.Copied {
		row("changes", "kept apart from the user's files, until the user applies them")
	}
	row("working directory", "%s", o.WorkingDir)
	row("network", "%s", o.Network)
	for _, r := range o.Rules {
		row("rules", "%d from %s", r.Count, r.From)
	}
	if o.Limits != (limits{}) {
		row("limits", "memory %d bytes, cpus %g, processes %d, disk %d bytes (0: no limit)", o.Limits.Memory, o.Limits.CPUs, o.Limits.PIDs, o.Limits.Disk)
	}
	if o.ExpiresAt != nil {
		row("expires", "%s", o.ExpiresAt.Format(time.RFC3339))
	}
	if o.Shell != nil {
		row("shell", "%s, %s, in %s, %d commands", o.Shell.Program, o.Shell.State, o.Shell.Cwd, o.Shell.Commands)
	}
	for i := range o.Jobs {
		b.WriteString(o.Jobs[i].line() + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (c *call) explainDenial(ctx context.Context, in explainIn) (reply, *explainOut, error) {
	want, err := perm.ParseLevel(cmp.Or(in.Level, perm.Write.String()))
	if err != nil {
		return reply{}, nil, fmt.Errorf("level %q: it must be view, read or write", in.Level)
	}
	d, err := c.Inspect(ctx, c.id())
	if err != nil {
		return reply{}, nil, err
	}
	if d.Config.CodebasePath == "" {
		return reply{}, nil, errors.New("the sandbox has no project: no rules apply in it")
	}
	rules, err := perm.Compile(d.Config.Permissions)
	if err != nil {
		return reply{}, nil, err
	}
	mountPoint := d.Config.MountPointOrDefault()
	rel, ok := ops.Within(in.Path, workingDir(&d.Config), mountPoint)
	if in.Path == "" || !ok {
		return reply{}, nil, fmt.Errorf("path %q is not below the project, which is %s inside: the rules do not apply to it, but the permissions of the sandbox's own files do", in.Path, mountPoint)
	}
	kind := perm.Directory
	if !strings.HasSuffix(in.Path, "/") && !c.isDir(ctx, path.Join(mountPoint, rel)) {
		kind = perm.Glob // not known: it may be hidden, or not there
	}
	e := ops.Explain(rules, rel, kind)
	out := &explainOut{Path: e.Path, Directory: e.Dir, Level: e.Level.String(), Allowed: e.Level >= want, Flag: e.Remedy(want)}
	if e.Rule != nil {
		out.Rule, out.From, out.Reason = e.Rule.String(), e.Rule.Source, e.Rule.Reason()
	}
	if out.Flag != "" {
		out.Allow = c.Allow(c.id()) + out.Flag
	}
	text := strings.TrimSuffix(e.String(), "\n")
	if out.Reason != "" {
		text += "\nwhat it is: " + out.Reason
	}
	switch {
	case out.Allowed:
		text += fmt.Sprintf("\n%s is allowed by the rules", want)
	case out.Allow != "":
		text += fmt.Sprintf("\nto allow %s, the user can run: %s\nor start the server with: wolffia %s %s", want, out.Allow, c.command(), out.Flag)
	default:
		text += fmt.Sprintf("\nno flag allows %s", want)
	}
	return reply{text: text}, out, nil
}

// command returns the command of wolffia that is the server.
func (s *Server) command() string {
	if s.Remote {
		return "serve"
	}
	return "mcp"
}

// isDir reports whether a path is a directory inside.
func (c *call) isDir(ctx context.Context, name string) bool {
	res, err := c.inside(ctx, &filecall.Request{Op: filecall.OpTree, Path: name, Max: 1}, nil)
	return err == nil && res.Path != ""
}
