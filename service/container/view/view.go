// Package view says of a container what docker says of its own, as JSON or as words.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	units "github.com/docker/go-units"

	"wolffia/image/store"
	"wolffia/runtime"
	"wolffia/service/container"
)

// An Object is a JSON object of docker's.
type Object = map[string]any

// stamp returns a time as docker has it; zero: never.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// portsOf returns the published ports by the port inside, as inspect has them; an exposed one that
// is not published has nil.
func portsOf(c *container.Container) map[string][]container.PortBinding {
	all := map[string][]container.PortBinding{}
	for p := range c.ExposedPorts {
		all[p] = nil
	}
	if c.State.Runs() {
		maps.Copy(all, c.HostConfig.PortBindings)
	}
	return all
}

// Published yields each published port inside, as 80/tcp, with an address of the host.
func Published(c *container.Container) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		all := portsOf(c)
		for _, port := range slices.Sorted(maps.Keys(all)) {
			for _, b := range all[port] {
				if !yield(port, b.HostIP+":"+b.HostPort) {
					return
				}
			}
		}
	}
}

// network returns the name of a container's network.
func networkOf(c *container.Container) string {
	if c.Network == runtime.NetworkHost {
		return "host"
	}
	return string(c.Network)
}

// mounts returns what is mounted, as docker has it.
func mountsOf(c *container.Container) []Object {
	all := []Object{}
	mounts, _ := c.HostConfig.Mounted()
	for _, m := range mounts {
		o := Object{
			"Type": m.Type, "Source": m.Source, "Destination": m.Target, "Mode": "", "RW": !m.ReadOnly,
			"Propagation": "rprivate",
		}
		if m.Type == "volume" {
			maps.Copy(o, Object{"Name": m.Source, "Source": "", "Driver": "local", "Propagation": ""})
		}
		all = append(all, o)
	}
	return all
}

// endpoint returns a container's place in its network. What it publishes is at the host's loopback
// address, which clients take for the gateway.
func endpoint() Object {
	return Object{
		"NetworkID": "", "EndpointID": "", "Gateway": "127.0.0.1", "IPAddress": "", "IPPrefixLen": 0, "MacAddress": "",
		"IPAMConfig": nil, "Links": nil, "Aliases": nil, "IPv6Gateway": "", "GlobalIPv6Address": "",
		"GlobalIPv6PrefixLen": 0, "DriverOpts": nil,
	}
}

// with returns the object that the JSON of v is, with more.
func with(v any, more Object) Object {
	o := Object{}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		panic(err) // a bug
	}
	maps.Copy(o, more)
	return o
}

// Inspect returns what docker inspect says of a container.
func Inspect(c *container.Container) (Object, error) {
	img, err := c.MadeOf()
	if err != nil {
		return nil, err
	}
	config := with(&c.Config, Object{
		"Hostname": c.Sandbox.ID, "Domainname": "", "Env": slices.Concat(img.Config.Env, c.Env),
		"WorkingDir": container.DirOf(&c.Config, &img.Config), "Labels": labelsOf(c),
	})
	host := config["HostConfig"]
	delete(config, "HostConfig")
	return Object{
		"Id": c.ID(), "Created": stamp(c.CreatedAt), "Path": c.Argv[0], "Args": c.Argv[1:], "Image": c.ImageID,
		"Name": "/" + c.Name(), "RestartCount": 0, "Driver": "overlay", "Platform": "linux", "LogPath": "",
		"GraphDriver": Object{"Name": "overlay", "Data": Object{}}, "Mounts": mountsOf(c), "Config": config,
		"State": Object{
			"Status": c.State, "Running": c.State.Runs(), "Paused": c.State == container.Paused, "Restarting": false,
			"OOMKilled": false, "Dead": false, "Pid": 0, "ExitCode": c.Exit.Code, "Error": "",
			"StartedAt": stamp(c.Started), "FinishedAt": stamp(c.Exit.At),
		},
		"HostConfig": with(host, Object{
			"NetworkMode": cmp.Or(c.HostConfig.NetworkMode, "default"), "Privileged": false, "Runtime": c.Runtime,
			"RestartPolicy": Object{"Name": "no", "MaximumRetryCount": 0},
			"LogConfig":     Object{"Type": "json-file", "Config": Object{}},
		}),
		"NetworkSettings": Object{
			"Ports": portsOf(c), "IPAddress": "", "Gateway": "", "Networks": Object{networkOf(c): endpoint()},
		},
	}, nil
}

func labelsOf(c *container.Container) map[string]string {
	return maps.Collect(maps.All(c.Config.Labels)) // not null
}

// Status says what a container does, as docker ps does.
func Status(c *container.Container) string {
	switch c.State {
	case container.Running:
		return "Up " + Age(c.Started)
	case container.Paused:
		return "Up " + Age(c.Started) + " (Paused)"
	case container.Exited:
		return fmt.Sprintf("Exited (%d) %s ago", c.Exit.Code, Age(c.Exit.At))
	}
	return "Created"
}

// Age returns how long ago a time was, in docker's words.
func Age(t time.Time) string {
	if t.IsZero() {
		return "N/A"
	}
	return units.HumanDuration(time.Since(t))
}

// Summary returns what docker ps says of a container.
func Summary(c *container.Container) Object {
	ports := []Object{}
	for p, to := range portsOf(c) {
		n, err := container.PortOf(p)
		if err != nil {
			continue
		}
		for _, b := range to {
			public, _ := strconv.Atoi(b.HostPort)
			ports = append(ports, Object{"IP": b.HostIP, "PrivatePort": n, "PublicPort": public, "Type": "tcp"})
		}
		if len(to) == 0 {
			ports = append(ports, Object{"PrivatePort": n, "Type": "tcp"})
		}
	}
	return Object{
		"Id": c.ID(), "Names": []string{"/" + c.Name()}, "Image": c.Config.Image, "ImageID": c.ImageID,
		"Command": strings.Join(c.Argv, " "),
		"Created": c.CreatedAt.Unix(), "Ports": ports, "Labels": labelsOf(c), "State": c.State,
		"Status":          Status(c),
		"HostConfig":      Object{"NetworkMode": networkOf(c)},
		"NetworkSettings": Object{"Networks": Object{networkOf(c): endpoint()}}, "Mounts": mountsOf(c),
	}
}

// Names returns an image's names as docker has them: NAME:TAG, and NAME@DIGEST.
func Names(e *store.Entry) (tags, digests []string) {
	tags, digests = []string{}, []string{}
	for _, n := range slices.Sorted(maps.Keys(e.Names)) {
		familiar := store.Familiar(n)
		switch repo, digest, pinned := strings.Cut(familiar, "@"); {
		case store.Local(n):
		case pinned:
			digests = append(digests, repo+"@"+digest)
		default:
			tags = append(tags, familiar)
			if d := e.Names[n].Digest; d != "" {
				digests = append(digests, familiar[:strings.LastIndex(familiar, ":")]+"@"+d)
			}
		}
	}
	return tags, digests
}

// InspectImage returns what docker image inspect says.
func InspectImage(i *store.Entry) Object {
	tags, digests := Names(i)
	return Object{
		"Id": i.ID, "RepoTags": tags, "RepoDigests": digests, "Parent": i.Parent, "Comment": "",
		"Created": i.Created, "Container": "", "DockerVersion": "", "Author": "",
		"Config": Object{
			"User": i.Config.User, "Env": i.Config.Env, "Cmd": i.Config.Cmd, "Entrypoint": i.Config.Entrypoint,
			"WorkingDir": i.Config.WorkingDir,
			"Labels":     Object{}, "ExposedPorts": nil, "Volumes": nil,
		},
		"Architecture": arch(), "Os": "linux", "Size": i.Size, "VirtualSize": i.Size,
		"GraphDriver": Object{"Name": "overlay", "Data": Object{}},
		"RootFS":      Object{"Type": "layers", "Layers": append([]string{}, i.Layers...)},
		"Metadata":    Object{"LastTagTime": stamp(time.Time{})},
	}
}

// SummarizeImage returns what docker images says.
func SummarizeImage(i *store.Entry) Object {
	tags, digests := Names(i)
	created, _ := time.Parse(time.RFC3339Nano, i.Created)
	return Object{
		"Id": i.ID, "ParentId": i.Parent, "RepoTags": tags, "RepoDigests": digests, "Created": created.Unix(),
		"Size": i.Size, "VirtualSize": i.Size,
		"SharedSize": -1, "Labels": Object{}, "Containers": len(i.Sandboxes),
	}
}

// APIVersion is the version of docker's API that this is a part of.
const APIVersion = "1.41"

// Version returns what docker version says of the server.
func Version(version string) Object {
	return Object{
		"Version": version, "ApiVersion": APIVersion, "MinAPIVersion": "1.24", "Os": "linux", "Arch": arch(),
		"GitCommit": "", "GoVersion": "", "KernelVersion": "",
		"Platform": Object{"Name": "wolffia"},
		"Components": []Object{{
			"Name": "Engine", "Version": version,
			"Details": Object{"ApiVersion": APIVersion, "MinAPIVersion": "1.24", "Os": "linux", "Arch": arch()},
		}},
	}
}

func arch() string { return goruntime.GOARCH }

// Info returns what docker info says.
func Info(ctx context.Context, e *container.Engine, version string) (Object, error) {
	list, err := e.List(ctx)
	if err != nil {
		return nil, err
	}
	images, err := e.Images(false)
	if err != nil {
		return nil, err
	}
	in := map[container.State]int{}
	for _, c := range list {
		in[c.State]++
	}
	return Object{
		"ID": "", "Containers": len(list), "ContainersRunning": in[container.Running],
		"ContainersPaused":  in[container.Paused],
		"ContainersStopped": in[container.Created] + in[container.Exited], "Images": len(images),
		"Driver": "overlay", "ServerVersion": version, "OperatingSystem": "wolffia", "OSType": "linux",
		"Architecture": arch(), "NCPU": goruntime.NumCPU(), "MemTotal": 0,
		"Name": "wolffia", "DefaultRuntime": "wolffia", "LoggingDriver": "json-file", "CgroupDriver": "none",
		"Labels": []string{}, "Warnings": []string{},
		"SecurityOptions":    []string{"name=seccomp,profile=default", "name=rootless"},
		"IndexServerAddress": "https://index.docker.io/v1/",
		"RegistryConfig":     Object{}, "Plugins": Object{}, "Swarm": Object{"LocalNodeState": "inactive"},
	}, nil
}

// A Filter are the conditions of docker's lists: values by key, of which one must hold for each
// key.
type Filter map[string][]string

// Check returns an [runtime.ErrUnsupported] for a key that is none of those.
func (f Filter) Check(keys ...string) error {
	for k := range f {
		if !slices.Contains(keys, k) {
			return runtime.Errorf(runtime.ErrUnsupported, "invalid filter '%s'", k)
		}
	}
	return nil
}

// Containers returns the containers that a filter leaves; without all, and without a condition on
// the state, only those that run.
func (f Filter) Containers(list []*container.Container, all bool) ([]*container.Container, error) {
	all = all || len(f["status"])+len(f["exited"]) > 0
	return slices.DeleteFunc(list, func(c *container.Container) bool {
		for k, values := range f {
			holds := func(v string) bool { return has(c, k, v) }
			lacks := func(v string) bool { return !holds(v) }
			if k == "label" && slices.ContainsFunc(values, lacks) || k != "label" && !slices.ContainsFunc(values, holds) {
				return true
			}
		}
		return !all && !c.State.Runs()
	}), f.Check("id", "name", "label", "status", "ancestor", "exited")
}

// has reports whether a condition holds.
func has(c *container.Container, key, value string) bool {
	switch key {
	case "id":
		return strings.HasPrefix(c.ID(), value)
	case "name":
		return strings.Contains("/"+c.Name(), value) || "^/"+c.Name()+"$" == value || "^"+c.Name()+"$" == value
	case "label":
		k, v, is := strings.Cut(value, "=")
		has, there := c.Config.Labels[k]
		return there && (!is || has == v)
	case "status":
		return string(c.State) == value
	case "exited":
		return c.State == container.Exited && strconv.Itoa(c.Exit.Code) == value
	}
	return value == c.Config.Image || value+":latest" == c.Config.Image || strings.HasPrefix(c.ImageID,
		value) || strings.HasPrefix(strings.TrimPrefix(c.ImageID, "sha256:"), value)
}

// HasImage reports whether an image has what a filter asks for: reference, NAME or NAME:TAG, and
// dangling.
func HasImage(by Filter, i *store.Entry) bool {
	tags, _ := Names(i)
	for _, v := range by["dangling"] {
		if (len(tags) == 0) != (v == "true" || v == "1") {
			return false
		}
	}
	return len(by["reference"]) == 0 || slices.ContainsFunc(by["reference"], func(want string) bool {
		return slices.ContainsFunc(tags, func(tag string) bool {
			whole, _ := path.Match(want, tag)
			name, _ := path.Match(want, tag[:strings.LastIndex(tag, ":")])
			return whole || name
		})
	})
}
