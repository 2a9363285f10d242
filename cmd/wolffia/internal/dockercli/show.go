package dockercli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	units "github.com/docker/go-units"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/build"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/image/store"
	"wolffia/runtime"
	"wolffia/service/container"
	"wolffia/service/container/files"
	"wolffia/service/container/view"
)

// functions are those of docker's templates.
var functions = template.FuncMap{
	"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
	"join": strings.Join, "split": strings.Split, "lower": strings.ToLower, "upper": strings.ToUpper,
	"truncate": func(s string, n int) string { return s[:min(n, len(s))] },
	"println":  fmt.Sprintln,
}

// parse reads a template of --format.
func parse(format string) (*template.Template, error) {
	t, err := template.New("").Funcs(functions).Parse(strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(format))
	if err != nil {
		return nil, invalid("template parsing error: %w", err)
	}
	return t, nil
}

// A row is what a line of ps or images shows, by docker's names. What others have written is
// printable.
type row map[string]string

// Label returns a label.
func (r row) Label(name string) string { return r["label "+name] }

// rows prints rows: with a template, as JSON, or as a table with the columns of head, which are
// names of rows.
func (c *client) rows(all []row, format string, head []string) error {
	titles := row{
		"ID": "CONTAINER ID", "Image": "IMAGE", "Command": "COMMAND", "CreatedAt": "CREATED AT",
		"RunningFor": "CREATED", "Status": "STATUS", "Ports": "PORTS", "Names": "NAMES",
		"State": "STATE", "Labels": "LABELS", "Networks": "NETWORKS", "Mounts": "MOUNTS", "Size": "SIZE",
		"Repository": "REPOSITORY", "Tag": "TAG", "Digest": "DIGEST", "CreatedSince": "CREATED",
	}
	if slices.Contains(head, "Repository") {
		titles["ID"] = "IMAGE ID"
	}
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 10, 1, 3, ' ', 0)
	text, isTable := strings.CutPrefix(format, "table")
	switch {
	case format == "json":
		text = "{{json .}}"
	case format == "" || strings.TrimSpace(text) == "":
		isTable, text = true, "{{."+strings.Join(head, "}}\t{{.")+"}}"
	}
	t, err := parse(strings.TrimSpace(text))
	if err != nil {
		return err
	}
	if isTable {
		all = append([]row{titles}, all...)
	}
	for _, r := range all {
		if format == "json" {
			maps.DeleteFunc(r, func(k, _ string) bool { return strings.HasPrefix(k, "label ") })
		}
		if err := t.Execute(table, r); err != nil {
			return invalid("template: %w", err)
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !isTable && format != "" { // no alignment
		out = *bytes.NewBuffer(bytes.TrimRight(out.Bytes(), " "))
	}
	_, err = c.Out.Write(out.Bytes())
	return err
}

func psCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	every := fl.BoolP("all", "a", false, "Show all containers (default shows just running)")
	quiet := fl.BoolP("quiet", "q", false, "Only display container IDs")
	whole := fl.Bool("no-trunc", false, "Don't truncate output")
	last := fl.IntP("last", "n", -1, "Show n last created containers (includes all states)")
	latest := fl.BoolP("latest", "l", false, "Show the latest created container (includes all states)")
	format := fl.String("format", "", "Format output using a Go template")
	filters := fl.StringArrayP("filter", "f", nil, "Filter output based on conditions provided")
	return func([]string) error {
		e, err := c.open()
		if err != nil {
			return err
		}
		list, err := e.List(c.ctx, all)
		if err != nil {
			return err
		}
		if *latest {
			*last = 1
		}
		by := view.Filter{}
		for _, f := range *filters {
			k, v, _ := strings.Cut(f, "=")
			by[k] = append(by[k], v)
		}
		list, err = by.Containers(list, *every || *last >= 0)
		if err != nil {
			return err
		}
		if *last >= 0 {
			list = list[:min(*last, len(list))]
		}
		var found []row
		for _, one := range list {
			r := rowOf(one, *whole)
			if *quiet {
				if err := c.print(r["ID"] + "\n"); err != nil {
					return err
				}
			}
			found = append(found, r)
		}
		if *quiet {
			return nil
		}
		return c.rows(found, *format, []string{"ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names"})
	}
}

func rowOf(one *container.Container, whole bool) row {
	id, command := one.ID(), strings.Join(one.Argv, " ")
	if !whole {
		id = id[:12]
		if r := []rune(command); len(r) > 20 {
			command = string(r[:19]) + "…"
		}
	}
	var ports, labels []string
	for _, p := range slices.Sorted(maps.Keys(one.HostConfig.PortBindings)) {
		for _, b := range one.HostConfig.PortBindings[p] {
			if one.State == container.Running {
				ports = append(ports, b.HostIP+":"+b.HostPort+"->"+p)
			}
		}
	}
	r := row{
		"ID": id, "Image": one.Config.Image, "Command": strconv.Quote(command),
		"CreatedAt":  one.CreatedAt.Format("2006-01-02 15:04:05 -0700 MST"),
		"RunningFor": view.Age(one.CreatedAt) + " ago", "Status": view.Status(one), "State": string(one.State),
		"Ports": strings.Join(ports, ", "),
		"Names": one.Name(), "Networks": string(one.Network), "Mounts": strings.Join(one.HostConfig.Binds, ","),
		"Size": "0B",
	}
	for _, k := range slices.Sorted(maps.Keys(one.Config.Labels)) {
		labels = append(labels, k+"="+one.Config.Labels[k])
		r["label "+k] = one.Config.Labels[k]
	}
	r["Labels"] = strings.Join(labels, ",")
	for k := range r {
		r[k] = console.Printable(r[k])
	}
	return r
}

func inspectCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	format := fl.StringP("format", "f", "", "Format output using a Go template")
	kind := fl.String("type", "", "container or image")
	fl.BoolP("size", "s", false, "Display total file sizes (they are not counted)")
	return func(args []string) error {
		e, err := c.open()
		if err != nil {
			return err
		}
		found, failed := []view.Object{}, false
		for _, ref := range args {
			o, err := inspect(c, e, ref, *kind)
			switch {
			case errors.Is(err, runtime.ErrNotFound):
				c.say("Error: No such object: " + console.Printable(ref))
				failed = true
			case err != nil:
				return err
			default:
				found = append(found, o)
			}
		}
		if err := c.objects(found, *format); err != nil {
			return err
		}
		if failed {
			return console.ExitStatus(1)
		}
		return nil
	}
}

func inspect(c *client, e *container.Engine, ref, kind string) (view.Object, error) {
	if kind != "image" {
		one, err := e.Get(c.ctx, all, ref)
		if err == nil {
			img, err := store.Open(c.rt.StateDir()).Get(one.ImageID)
			if err != nil {
				return nil, err
			}
			return view.Inspect(one, img), nil
		}
		if kind != "" || !errors.Is(err, runtime.ErrNotFound) {
			return nil, err
		}
	}
	image, err := e.Image(ref)
	if err != nil {
		return nil, err
	}
	return view.InspectImage(image), nil
}

// objects prints objects as docker inspect does.
func (c *client) objects(found []view.Object, format string) error {
	if format == "" {
		text, err := json.MarshalIndent(found, "", "    ")
		if err != nil {
			return err
		}
		return c.print(string(text) + "\n")
	}
	if format == "json" {
		format = "{{json .}}"
	}
	for _, o := range found {
		text, err := executed(o, format)
		if err == nil {
			err = c.print(text + "\n")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// executed returns what a template makes of an object, whose keys are those of its JSON.
func executed(o any, format string) (string, error) {
	t, err := parse(format)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	var plain map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&plain); err != nil {
		return "", err
	}
	if id, is := plain["Id"]; is {
		plain["ID"] = id
	}
	var out strings.Builder
	if err := t.Execute(&out, plain); err != nil {
		return "", invalid("template parsing error: %w", err)
	}
	return out.String(), nil
}

func logsCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	follow := fl.BoolP("follow", "f", false, "Follow log output")
	tail := fl.StringP("tail", "n", "all", "Number of lines to show from the end of the logs")
	return func(args []string) error {
		lines := -1
		if *tail != "all" {
			n, err := strconv.Atoi(*tail)
			if err != nil {
				return invalid("invalid argument %q for --tail", *tail)
			}
			lines = n
		}
		one, err := c.get(args[0])
		if err != nil {
			return err
		}
		return c.engine.Logs(c.ctx, all, one, &container.Sight{
			Stdout: c.Out, Stderr: c.Err, Follow: *follow,
			Past: true, Tail: lines,
		})
	}
}

func portCommand(c *client, _ *pflag.FlagSet) func([]string) error {
	return func(args []string) error {
		one, err := c.get(args[0])
		if err != nil {
			return err
		}
		wanted := ""
		if len(args) > 1 {
			wanted = withProto(args[1])
		}
		for _, p := range slices.Sorted(maps.Keys(one.HostConfig.PortBindings)) {
			for _, b := range one.HostConfig.PortBindings[p] {
				line := b.HostIP + ":" + b.HostPort
				if wanted == "" {
					line = p + " -> " + line
				} else if p != wanted {
					continue
				}
				if err := c.print(line + "\n"); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func copyCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	fl.BoolP("quiet", "q", false, "Suppress progress output during copy")
	return func(args []string) error {
		if _, err := c.open(); err != nil {
			return err
		}
		c.Signals.Wait()
		places, tars := [2]string{args[0], args[1]}, [2]bool{args[0] == "-", args[1] == "-"}
		for i, p := range places {
			ref, path, is := strings.Cut(p, ":")
			if !is || strings.ContainsAny(ref, "/.") && strings.HasPrefix(p, ".") || strings.HasPrefix(p, "/") {
				continue
			}
			one, err := c.get(ref)
			if err != nil {
				return err
			}
			in, err := c.engine.Inside(c.ctx, all, one)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(path, "/") { // as docker has it
				path = "/" + path
			}
			switch {
			case tars[0] && i == 1:
				return files.Put(c.ctx, in, path, c.Input(nil))
			case tars[1] && i == 0:
				return files.Get(c.ctx, in, path, c.Out)
			}
			places[i] = one.Sandbox.ID + ":" + path
		}
		return c.copy(c.ctx, c.Host, c.rt, places[0], places[1])
	}
}

func imagesCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	every := fl.BoolP("all", "a", false, "Show all images (default hides intermediate images)")
	quiet := fl.BoolP("quiet", "q", false, "Only show image IDs")
	whole := fl.Bool("no-trunc", false, "Don't truncate output")
	format := fl.String("format", "", "Format output using a Go template")
	return func(args []string) error {
		e, err := c.open()
		if err != nil {
			return err
		}
		list, err := e.Images(*every)
		if err != nil {
			return err
		}
		var found []row
		for _, i := range list {
			id, size := i.ID, units.HumanSizeWithPrecision(float64(i.Size), 3)
			if !*whole {
				id = store.Short(i.ID)
			}
			created, _ := time.Parse(time.RFC3339Nano, i.Created)
			tags, _ := view.Names(i)
			if len(tags) == 0 && len(args) == 0 {
				tags = []string{"<none>:<none>"}
			}
			for _, tag := range tags {
				at := strings.LastIndex(tag, ":")
				if len(args) > 0 && tag[:at] != args[0] && tag != args[0] {
					continue
				}
				found = append(found, row{
					"ID": id, "Repository": console.Printable(tag[:at]), "Tag": console.Printable(tag[at+1:]),
					"Digest": "<none>", "Size": size,
					"CreatedSince": view.Age(created) + " ago",
					"CreatedAt":    created.Format("2006-01-02 15:04:05 -0700 MST"),
				})
			}
		}
		if !*quiet {
			return c.rows(found, *format, []string{"Repository", "Tag", "ID", "CreatedSince", "Size"})
		}
		for _, r := range found {
			if err := c.print(r["ID"] + "\n"); err != nil {
				return err
			}
		}
		return nil
	}
}

func pullCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	quiet := fl.BoolP("quiet", "q", false, "Suppress verbose output")
	return func(args []string) error {
		for _, name := range args {
			if err := c.pull(name, *quiet); err != nil {
				return err
			}
			canonical, err := store.Canonical(name)
			if err == nil {
				err = c.print(canonical + "\n")
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func buildCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	var tags, args []string
	var file, target string
	var noCache, pull, quiet bool
	fl.StringArrayVarP(&tags, "tag", "t", nil, "Name and optionally a tag in the 'name:tag' format")
	fl.StringArrayVar(&args, "build-arg", nil, "Set build-time variables")
	fl.StringVarP(&file, "file", "f", "", "Name of the Dockerfile (Default is 'PATH/Dockerfile')")
	fl.StringVar(&target, "target", "", "Set the target build stage to build")
	fl.BoolVar(&noCache, "no-cache", false, "Do not use cache when building the image")
	fl.BoolVar(&pull, "pull", false, "Always attempt to pull a newer version of the image")
	fl.BoolVarP(&quiet, "quiet", "q", false, "Suppress the build output and print image ID on success")
	return func(dirs []string) error {
		if _, err := c.open(); err != nil {
			return err
		}
		if err := c.configure(); err != nil {
			return err
		}
		c.Signals.Wait()
		o := &build.Options{Target: target, NoCache: noCache, Pull: "missing", Args: map[string]string{}}
		o.Config = &runtime.SandboxConfig{Network: c.base.Network, Egress: c.base.Egress, Resources: c.base.Resources}
		if pull {
			o.Pull = "always"
		}
		vars, err := variables(args)
		if err != nil {
			return err
		}
		o.Args = container.Variables(vars)
		if o.Dir, err = filepath.Abs(dirs[0]); err != nil {
			return err
		}
		o.File = filepath.Join(o.Dir, "Dockerfile")
		if file != "" {
			if o.File, err = filepath.Abs(file); err != nil {
				return err
			}
		}
		o.Shown = o.File
		for _, t := range tags {
			name, err := store.Canonical(t)
			if err != nil {
				return err
			}
			o.Names = append(o.Names, name)
		}
		c.Quiet = c.Quiet || quiet
		id, err := build.Image(c.ctx, c.Host, c.rt, o)
		switch {
		case err != nil:
			return err
		case quiet:
			return c.print(id + "\n")
		}
		text := "Successfully built " + store.Short(id) + "\n"
		for _, t := range tags {
			text += "Successfully tagged " + t + "\n"
		}
		return c.print(text)
	}
}

func removeImageCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	fl.BoolP("force", "f", false, "Force removal of the image (not of one that a container uses)")
	return func(args []string) error {
		e, err := c.open()
		if err != nil {
			return err
		}
		for _, ref := range args {
			if err := e.RemoveImage(c.ctx, ref); err != nil {
				return err
			}
			if err := c.print("Untagged: " + ref + "\n"); err != nil {
				return err
			}
		}
		return nil
	}
}

func tagCommand(c *client, _ *pflag.FlagSet) func([]string) error {
	return func(args []string) error {
		e, err := c.open()
		if err != nil {
			return err
		}
		return e.TagImage(c.ctx, args[0], args[1])
	}
}

func versionCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	format := fl.StringP("format", "f", "", "Format output using a Go template")
	return func([]string) error {
		server := view.Version(c.Version)
		if *format == "" {
			return c.print(fmt.Sprintf("Client: wolffia\n Version:           %[1]s\n API version:       %[2]s\n\nServer: wolffia, without a daemon\n Engine:\n  Version:          %[1]s\n  API version:      %[2]s\n", c.Version, view.APIVersion))
		}
		return c.objects([]view.Object{{"Client": server, "Server": server}}, *format)
	}
}

func infoCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	format := fl.StringP("format", "f", "", "Format output using a Go template")
	return func([]string) error {
		e, err := c.open()
		if err != nil {
			return err
		}
		info, err := view.Info(c.ctx, e, all, c.Version)
		if err != nil {
			return err
		}
		if *format != "" {
			return c.objects([]view.Object{info}, *format)
		}
		return c.print(fmt.Sprintf("Server:\n Containers: %v\n  Running: %v\n  Stopped: %v\n Images: %v\n Server Version: %v\n Storage Driver: %v\n Runtimes: %v\n Operating System: %v\n Architecture: %v\n",
			info["Containers"], info["ContainersRunning"], info["ContainersStopped"], info["Images"],
			info["ServerVersion"], info["Driver"], info["DefaultRuntime"], info["OperatingSystem"],
			info["Architecture"]))
	}
}
