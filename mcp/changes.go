package mcp

import (
	"context"
	"fmt"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"wolffia/ops"
	"wolffia/runtime"
)

type changesIn struct {
	Paths    []string `json:"paths,omitempty" jsonschema:"only what is at and below these, as for read_file; default: all of the project"`
	Diff     bool     `json:"diff,omitempty" jsonschema:"also return a unified diff"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"of the diff; default 30000, at most 1000000"`
}

type changesOut struct {
	Changes   []change `json:"changes" jsonschema:"sorted by path, at most 500"`
	More      int      `json:"more,omitempty" jsonschema:"how many are left out"`
	Diff      string   `json:"diff,omitempty"`
	Truncated bool     `json:"truncated,omitempty" jsonschema:"the diff is longer: name paths, or ask for more with max_bytes"`
}

// A change is what a result tells of a runtime.Change.
type change struct {
	Path    string `json:"path" jsonschema:"relative to the project's root"`
	From    string `json:"from,omitempty" jsonschema:"where it was before it was renamed"`
	Kind    string `json:"kind" jsonschema:"added, modified, deleted, renamed, type or mode"`
	Type    string `json:"type" jsonschema:"file, directory, symlink or other"`
	Added   int    `json:"added" jsonschema:"lines"`
	Deleted int    `json:"deleted" jsonschema:"lines"`
	Trouble string `json:"trouble,omitempty" jsonschema:"why it cannot be applied to the user's files as things are"`
}

// maxChangeList is how many changes a result has, maxSelected how long the paths of a diff can be together, in bytes.
const (
	maxChangeList = 500
	maxSelected   = 8 << 10
)

// copyInstructions are for a client whose sandbox has a copied codebase.
const copyInstructions = `
The project is a copy: the user's files stay as they are until the user has looked at what you have changed and
applies it. changes lists it.`

// addChanges adds the tool for a sandbox with a copied codebase. There is none that applies: that is for
// the user.
func (s *Server) addChanges() {
	tool(s, &sdk.Tool{
		Name: "changes", Title: "List what was changed",
		Description: "List what this sandbox has changed in the project, against the user's files as they are now, and with diff also how. The user reviews the same list, and applies it or not.",
		Annotations: reads(),
	}, (*call).changes)
}

func (c *call) changes(ctx context.Context, in changesIn) (reply, *changesOut, error) {
	s, err := c.Runtime.Get(ctx, c.id())
	if err != nil {
		return reply{}, nil, err
	}
	rt, can := c.Runtime.(runtime.Workspace)
	if !can || !s.CopyOnWrite {
		return reply{}, nil, fmt.Errorf("the sandbox works on the user's files themselves: nothing is kept apart from them")
	}
	most, err := count("max_bytes", in.MaxBytes, DefaultOutput, MaxOutput)
	if err != nil {
		return reply{}, nil, err
	}
	d, err := c.Inspect(ctx, c.id())
	if err != nil {
		return reply{}, nil, err
	}
	var paths []string
	for _, p := range in.Paths {
		rel, ok := ops.Within(p, workingDir(&d.Config), s.MountPoint)
		if p == "" || !ok {
			return reply{}, nil, fmt.Errorf("path %q is not in the project, which is %s inside", p, s.MountPoint)
		}
		paths = append(paths, rel)
	}
	all, err := rt.Changes(ctx, s.ID, runtime.ChangesOptions{Paths: paths, Lines: true})
	if err != nil {
		return reply{}, nil, err
	}
	out := &changesOut{Changes: []change{}}
	var own []string // not git's
	size := 0
	for i := range all {
		if x := &all[i]; !isGits(x.Path) {
			out.Changes = append(out.Changes, changeOf(x))
			own, size = append(own, x.Path), size+len(x.Path)
		}
	}
	if in.Diff && len(own) > 0 {
		if len(own) < len(all) && size <= maxSelected {
			paths = own
		}
		text, more, err := ops.Diff(ctx, rt, s.ID, runtime.DiffOptions{Paths: paths}, most)
		if err != nil {
			return reply{}, nil, err
		}
		if more {
			text = text[:wholeEnd(text)]
		}
		out.Diff, out.Truncated = valid(text), more
	}
	if n := len(out.Changes) - maxChangeList; n > 0 {
		out.Changes, out.More = out.Changes[:maxChangeList], n
	}
	return reply{text: out.text()}, out, nil
}

// isGits reports whether a change is that of a git repository's own files, which are never applied as files.
func isGits(name string) bool { return strings.EqualFold(path.Base(name), ".git") }

func changeOf(x *runtime.Change) change {
	c := change{
		Path: valid([]byte(x.Path)), From: valid([]byte(x.From)), Kind: string(x.Kind), Type: string(x.Type), Added: x.Added, Deleted: x.Deleted,
	}
	for _, why := range []string{x.Conflict, x.Denied, x.Unapplied} {
		if why != "" {
			c.Trouble = valid([]byte(why))
		}
	}
	return c
}

func (o *changesOut) text() string {
	if len(o.Changes) == 0 {
		return "nothing was changed"
	}
	var b strings.Builder
	for i := range o.Changes {
		x := &o.Changes[i]
		fmt.Fprintf(&b, "%s %s", x.Kind, x.Path)
		if x.From != "" {
			b.WriteString(", before: " + x.From)
		}
		if x.Added+x.Deleted > 0 {
			fmt.Fprintf(&b, " +%d -%d", x.Added, x.Deleted)
		}
		if x.Trouble != "" {
			b.WriteString(" (cannot be applied as things are: " + x.Trouble + ")")
		}
		b.WriteByte('\n')
	}
	if o.More > 0 {
		fmt.Fprintf(&b, "and %d more: name paths to see them\n", o.More)
	}
	if o.Diff != "" {
		b.WriteString("\n" + o.Diff)
	}
	if o.Truncated {
		b.WriteString("\nthe diff is longer: name paths, or ask for more with max_bytes")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
