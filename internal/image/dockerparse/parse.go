// Package dockerparse parses Dockerfiles with BuildKit's own parser.
package dockerparse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"wolffia/image/maker"
	"wolffia/internal/image/dockerfile"
	"wolffia/runtime"
)

// maxText bounds the bytes of a Dockerfile.
const maxText = 1 << 20

// Parse parses a Dockerfile, which is hostile. An error is of class ErrInvalid, and begins with the
// number of a line and a colon, if it is one line's.
func Parse(text []byte) (*dockerfile.File, error) {
	if len(text) > maxText {
		return nil, runtime.Errorf(runtime.ErrInvalid, "it has %d bytes: at most %d are allowed", len(text), maxText)
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, located(err)
	}
	stages, args, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		return nil, located(err)
	}
	f := &dockerfile.File{Escape: string(tree.EscapeToken)}
	for i := range args {
		f.Args = append(f.Args, argsOf(&args[i])...)
	}
	for i := range stages {
		s := &stages[i]
		if s.BaseName == "" {
			continue
		}
		stage := dockerfile.Stage{Name: s.Name, Base: s.BaseName, Platform: s.Platform, Line: line(s.Location), Text: oneLine(s.SourceCode)}
		for _, c := range s.Commands {
			in, err := translate(c)
			if err != nil {
				return nil, runtime.Errorf(runtime.ErrInvalid, "%d: %w", line(c.Location()), err)
			}
			stage.Steps = append(stage.Steps, in)
		}
		f.Stages = append(f.Stages, stage)
	}
	return f, nil
}

// located gives an error its line.
func located(err error) error {
	var at *parser.LocationError
	if errors.As(err, &at) && len(at.Locations) > 0 && len(at.Locations[0]) > 0 {
		return runtime.Errorf(runtime.ErrInvalid, "%d: %w", at.Locations[0][0].Start.Line, err)
	}
	return runtime.WithClass(runtime.ErrInvalid, err)
}

func line(at []parser.Range) int {
	if len(at) == 0 {
		return 0
	}
	return at[0].Start.Line
}

// oneLine joins the lines of an instruction.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\\\n", " ")), " ")
}

func argsOf(c *instructions.ArgCommand) (all []dockerfile.Arg) {
	for _, a := range c.Args {
		all = append(all, dockerfile.Arg{Key: a.Key, Value: a.Value})
	}
	return all
}

func pairsOf(kvs instructions.KeyValuePairs) (all []dockerfile.Pair) {
	for _, kv := range kvs {
		all = append(all, dockerfile.Pair{Key: kv.Key, Value: kv.Value, Quoted: kv.NoDelim})
	}
	return all
}

// translate returns one instruction.
func translate(c instructions.Command) (in dockerfile.Instruction, err error) {
	in = dockerfile.Instruction{Name: strings.ToUpper(c.Name()), Line: line(c.Location())}
	if s, ok := c.(fmt.Stringer); ok {
		in.Text = oneLine(s.String())
	}
	switch c := c.(type) {
	case *instructions.EnvCommand:
		in.Pairs = pairsOf(c.Env)
	case *instructions.LabelCommand:
		in.Pairs = pairsOf(c.Labels)
	case *instructions.ArgCommand:
		in.Args = argsOf(c)
	case *instructions.MaintainerCommand:
		in.Value = c.Maintainer
	case *instructions.WorkdirCommand:
		in.Value = c.Path
	case *instructions.UserCommand:
		in.Value = c.User
	case *instructions.StopSignalCommand:
		in.Value = c.Signal
	case *instructions.ExposeCommand:
		in.Words = c.Ports
	case *instructions.VolumeCommand:
		in.Words = c.Volumes
	case *instructions.ShellCommand:
		in.Words = c.Shell
	case *instructions.CmdCommand:
		in.Words, in.Shell = c.CmdLine, c.PrependShell
	case *instructions.EntrypointCommand:
		in.Words, in.Shell = c.CmdLine, c.PrependShell
	case *instructions.OnbuildCommand:
		in.Words = []string{c.Expression}
	case *instructions.HealthCheckCommand:
		h := c.Health
		in.Health = &maker.Healthcheck{
			Test: h.Test, Interval: int64(h.Interval), Timeout: int64(h.Timeout), StartPeriod: int64(h.StartPeriod),
			StartInterval: int64(h.StartInterval), Retries: h.Retries,
		}
	case *instructions.CopyCommand:
		in.Copy = copyOf(&c.SourcesAndDest)
		in.Copy.From, in.Copy.Chown, in.Copy.Chmod, in.Copy.Exclude = c.From, c.Chown, c.Chmod, c.ExcludePatterns
		if c.Parents {
			in.Unsupported = "--parents"
		}
	case *instructions.AddCommand:
		in.Copy, in.Unsupported = addOf(c)
	case *instructions.RunCommand:
		err = run(c, &in)
	default:
		in.Unsupported = "the instruction"
	}
	return in, err
}

func copyOf(c *instructions.SourcesAndDest) *dockerfile.Copy {
	all := &dockerfile.Copy{Sources: c.SourcePaths, Dest: c.DestPath}
	for _, s := range c.SourceContents {
		all.Contents = append(all.Contents, dockerfile.Content{Name: s.Path, Data: s.Data, Expand: s.Expand})
	}
	return all
}

// addOf returns an ADD, and what in it is not supported.
func addOf(c *instructions.AddCommand) (all *dockerfile.Copy, unsupported string) {
	all = copyOf(&c.SourcesAndDest)
	all.Chown, all.Chmod, all.Exclude = c.Chown, c.Chmod, c.ExcludePatterns
	all.Unpack = c.Unpack == nil || *c.Unpack
	for _, s := range c.SourcePaths {
		if strings.Contains(s, "://") || strings.HasPrefix(s, "git@") {
			return all, "a source that is not a file; fetch it in a RUN"
		}
	}
	if c.Checksum != "" || c.KeepGitDir != nil {
		return all, "--checksum and --keep-git-dir"
	}
	return all, ""
}

// run translates a RUN. Its here-documents are those of BuildKit: a RUN that is one is a text for
// the shell, or a program if it begins with #!.
func run(c *instructions.RunCommand, in *dockerfile.Instruction) error {
	// each value as it is: the types are known only then
	if err := c.Expand(func(word string) (string, error) { return word, nil }); err != nil {
		return err
	}
	in.Words, in.Shell, in.Network = c.CmdLine, c.PrependShell, instructions.GetNetwork(c)
	if instructions.GetSecurity(c) != instructions.SecuritySandbox {
		in.Unsupported = "--security"
	}
	if in.Network == instructions.NetworkHost {
		in.Unsupported = "--network=host"
	}
	if len(instructions.GetDevices(c)) > 0 {
		in.Unsupported = "--device"
	}
	for _, m := range instructions.GetMounts(c) {
		switch {
		case m.Type == instructions.MountTypeTmpfs || m.Type == instructions.MountTypeSSH:
			in.Unsupported = "--mount=type=" + string(m.Type)
		case m.Type == instructions.MountTypeBind && !m.ReadOnly:
			in.Unsupported = "--mount=type=bind,rw"
		case m.Type == instructions.MountTypeCache && (m.From != "" || m.ReadOnly || m.UID != nil && *m.UID != 0 || m.GID != nil && *m.GID != 0):
			in.Unsupported = "--mount=type=cache with from, uid, gid or ro"
		}
		in.Mounts = append(in.Mounts, dockerfile.Mount{
			Type: string(m.Type), From: m.From, Source: m.Source, Target: m.Target, ID: m.CacheID, Required: m.Required, Env: m.Env,
		})
	}
	if len(c.Files) == 0 {
		return nil
	}
	if len(c.CmdLine) != 1 || !c.PrependShell {
		return errors.New("a here-document needs the shell form")
	}
	first := &c.Files[0]
	if parser.MustParseHeredoc(c.CmdLine[0]) == nil {
		for _, f := range c.Files {
			in.Words[0] += "\n" + f.Data + f.Name
		}
		return nil
	}
	data := first.Data
	if first.Chomp {
		data = parser.ChompHeredocContent(data)
	}
	in.Words = []string{data}
	if strings.HasPrefix(data, "#!") {
		in.Words, in.Script, in.Shell = nil, []byte(data), false
	}
	return nil
}
