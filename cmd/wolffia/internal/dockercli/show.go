package dockercli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	units "github.com/docker/go-units"
	"github.com/spf13/pflag"

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

// execute writes what the template of --format makes of each value, a line for each.
func execute[T any](w io.Writer, format string, values []T) error {
	if format == "json" {
		format = "{{json .}}"
	}
	t, err := template.New("").Funcs(functions).Parse(strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(format))
	for _, v := range values {
		if err == nil {
			err = t.Execute(w, v)
		}
		if err == nil {
			_, err = io.WriteString(w, "\n")
		}
	}
	if err != nil {
		return invalid("template parsing error: %w", err)
	}
	return nil
}

// A row is what a line of ps or images shows, by docker's names.
type row map[string]string

// Label returns a label.
func (r row) Label(name string) string { return r["label "+name] }

const timeForm = "2006-01-02 15:04:05 -0700 MST"

// A list is what ps and images print. all, quiet, whole and format are their flags.
type list struct {
	all, quiet, whole bool
	format            string
	head              []string // the columns of a table, which are names of rows
	rows              []row
}

func (l *list) add(fl *pflag.FlagSet, what string, head ...string) {
	l.head = head
	fl.BoolVarP(&l.all, "all", "a", false, "Show all "+what)
	fl.BoolVarP(&l.quiet, "quiet", "q", false, "Only display IDs")
	fl.BoolVar(&l.whole, "no-trunc", false, "Don't truncate output")
	fl.StringVar(&l.format, "format", "", "Format output using a Go template")
}

// print prints the rows: ids, with a template, as JSON, or as a table. What others have written is
// printable then.
func (c *client) list(l *list) error {
	titles := row{
		"ID": "CONTAINER ID", "CreatedAt": "CREATED AT", "RunningFor": "CREATED", "CreatedSince": "CREATED",
		"Image": "IMAGE", "Command": "COMMAND", "Status": "STATUS", "Ports": "PORTS", "Names": "NAMES",
		"State": "STATE", "Labels": "LABELS", "Networks": "NETWORKS", "Mounts": "MOUNTS", "Size": "SIZE", "Repository": "REPOSITORY",
		"Tag": "TAG", "Digest": "DIGEST",
	}
	if l.head[0] == "Repository" {
		titles["ID"] = "IMAGE ID"
	}
	text, isTable := strings.CutPrefix(l.format, "table")
	switch text = strings.TrimSpace(text); {
	case l.quiet:
		text, isTable = "{{.ID}}", false
	case text == "":
		text, isTable = "{{."+strings.Join(l.head, "}}\t{{.")+"}}", true
	}
	for _, r := range l.rows {
		for k := range r {
			if r[k] = console.Printable(r[k]); l.format == "json" && strings.HasPrefix(k, "label ") {
				delete(r, k)
			}
		}
	}
	if isTable {
		l.rows = slices.Insert(l.rows, 0, titles)
	}
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 10, 1, 3, ' ', 0)
	if !isTable {
		return c.printed(execute(&out, text, l.rows), &out)
	}
	return c.printed(cmp.Or(execute(table, text, l.rows), table.Flush()), &out)
}

func psCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	l, by := new(list), view.Filter{}
	l.add(fl, "containers (default shows just running)",
		"ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names")
	last := fl.IntP("last", "n", -1, "Show n last created containers (includes all states)")
	latest := fl.BoolP("latest", "l", false, "Show the latest created container (includes all states)")
	fl.FuncP("filter", "f", "Filter output based on conditions provided", func(s string) error {
		k, v, _ := strings.Cut(s, "=")
		by[k] = append(by[k], v)
		return nil
	})
	return func([]string) error {
		if *latest {
			*last = 1
		}
		found, err := c.engine.List(c.ctx)
		if err == nil {
			found, err = by.Containers(found, l.all || *last >= 0)
		}
		if err != nil {
			return err
		}
		if *last >= 0 {
			found = found[:min(*last, len(found))]
		}
		for _, one := range found {
			l.rows = append(l.rows, rowOf(one, l.whole))
		}
		return c.list(l)
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
	for port, to := range view.Published(one) {
		ports = append(ports, to+"->"+port)
	}
	r := row{
		"ID": id, "Image": one.Config.Image, "Command": strconv.Quote(command),
		"CreatedAt": one.CreatedAt.Format(timeForm), "RunningFor": view.Age(one.CreatedAt) + " ago", "Status": view.Status(one), "State": string(one.State),
		"Ports": strings.Join(ports, ", "), "Names": one.Name(), "Networks": string(one.Network),
		"Mounts": strings.Join(one.HostConfig.Binds, ","), "Size": "0B",
	}
	for _, k := range slices.Sorted(maps.Keys(one.Config.Labels)) {
		labels = append(labels, k+"="+one.Config.Labels[k])
		r["label "+k] = one.Config.Labels[k]
	}
	r["Labels"] = strings.Join(labels, ",")
	return r
}

func portCommand(c *client, _ *pflag.FlagSet) func([]string) error {
	return c.of(func(one *container.Container, args []string) error {
		var text string
		for port, to := range view.Published(one) {
			switch {
			case len(args) == 0:
				text += port + " -> " + to + "\n"
			case port == withProto(args[0]):
				text += to + "\n"
			}
		}
		return c.print(text)
	})
}

func inspectCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	format := fl.StringP("format", "f", "", "Format output using a Go template")
	fl.StringVar(&c.group, "type", c.group, "container or image")
	fl.BoolP("size", "s", false, "Display total file sizes (they are not counted)")
	return func(args []string) error {
		found, failed := []view.Object{}, error(nil)
		for _, ref := range args {
			o, err := c.inspect(ref)
			switch {
			case errors.Is(err, runtime.ErrNotFound):
				c.say("Error: No such " + cmp.Or(c.group, "object") + ": " + console.Printable(ref))
				failed = console.ExitStatus(1)
			case err != nil:
				return err
			default:
				found = append(found, o)
			}
		}
		return cmp.Or(c.objects(found, *format), failed)
	}
}

func (c *client) inspect(ref string) (view.Object, error) {
	if c.group != "image" {
		one, err := c.engine.Get(c.ctx, ref)
		if err == nil {
			return view.Inspect(one)
		}
		if c.group != "" || !errors.Is(err, runtime.ErrNotFound) {
			return nil, err
		}
	}
	image, err := c.engine.Image(ref)
	if err != nil {
		return nil, err
	}
	return view.InspectImage(image), nil
}

// objects prints objects as docker inspect does. A template has the keys of their JSON.
func (c *client) objects(found []view.Object, format string) error {
	text, err := json.MarshalIndent(found, "", "    ")
	if format == "" || err != nil {
		return c.printed(err, bytes.NewBuffer(append(text, '\n')))
	}
	var plain []map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&plain); err != nil {
		return err
	}
	for _, o := range plain {
		if id, is := o["Id"]; is {
			o["ID"] = id
		}
	}
	var out bytes.Buffer
	return c.printed(execute(&out, format, plain), &out)
}

func copyCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	fl.BoolP("quiet", "q", false, "Suppress progress output during copy")
	return func(args []string) error {
		c.Signals.Wait()
		for i, p := range args {
			ref, path, is := strings.Cut(p, ":")
			if !is || strings.HasPrefix(p, "/") || strings.HasPrefix(p, ".") {
				continue
			}
			one, err := c.engine.Get(c.ctx, ref)
			if err != nil {
				return err
			}
			in, err := one.Inside(c.ctx)
			if err != nil {
				return err
			}
			path = "/" + strings.TrimPrefix(path, "/") // as docker has it
			switch {
			case args[1-i] != "-":
				args[i] = one.Sandbox.ID + ":" + path
			case i == 1:
				return files.Put(c.ctx, in, path, c.Input(nil))
			default:
				return files.Get(c.ctx, in, path, c.Out)
			}
		}
		return c.copy(c.ctx, c.Host, c.rt, args[0], args[1])
	}
}

func imagesCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	l := new(list)
	l.add(fl, "images (default hides intermediate images)", "Repository", "Tag", "ID", "CreatedSince", "Size")
	return func(args []string) error {
		found, err := c.engine.Images(l.all)
		if err != nil {
			return err
		}
		for _, i := range found {
			id, size := i.ID, units.HumanSizeWithPrecision(float64(i.Size), 3)
			if !l.whole {
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
				l.rows = append(l.rows, row{
					"ID": id, "Repository": tag[:at], "Tag": tag[at+1:], "Digest": "<none>", "Size": size,
					"CreatedSince": view.Age(created) + " ago", "CreatedAt": created.Format(timeForm),
				})
			}
		}
		return c.list(l)
	}
}

func versionCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	format := fl.StringP("format", "f", "", "Format output using a Go template")
	return func([]string) error {
		server := view.Version(c.Version)
		server["APIVersion"] = view.APIVersion // its name in templates
		if *format == "" {
			*format = `Client: wolffia\n Version:           {{.Client.Version}}\n` +
				` API version:       {{.Client.APIVersion}}\n\n` +
				`Server: wolffia, without a daemon\n Engine:\n  Version:          {{.Server.Version}}\n` +
				`  API version:      {{.Server.APIVersion}}`
		}
		return c.objects([]view.Object{{"Client": server, "Server": server}}, *format)
	}
}

func infoCommand(c *client, fl *pflag.FlagSet) func([]string) error {
	format := fl.StringP("format", "f", "", "Format output using a Go template")
	return func([]string) error {
		info, err := view.Info(c.ctx, c.engine, c.Version)
		if err != nil {
			return err
		}
		if *format == "" {
			*format = `Server:\n Containers: {{.Containers}}\n  Running: {{.ContainersRunning}}\n` +
				`  Stopped: {{.ContainersStopped}}\n Images: {{.Images}}\n` +
				` Server Version: {{.ServerVersion}}\n Storage Driver: {{.Driver}}\n` +
				` Runtimes: {{.DefaultRuntime}}\n Operating System: {{.OperatingSystem}}\n Architecture: {{.Architecture}}`
		}
		return c.objects([]view.Object{info}, *format)
	}
}
