package container

import (
	"encoding/json"
	"net"
	"net/netip"
	"path"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"wolffia/image/store"
	"wolffia/runtime"
)

// Words are a program with its arguments; in JSON also one text.
type Words []string

// UnmarshalJSON implements [json.Unmarshaler].
func (w *Words) UnmarshalJSON(b []byte) error {
	var text *string
	if json.Unmarshal(b, &text) == nil {
		if *w = nil; text != nil {
			*w = Words{*text}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// A Config is what docker's create call says of a container, as far as it exists here. The names
// in JSON are docker's.
type Config struct {
	Image        string
	User         string // NAME or UID, also with :GROUP; empty: the image's
	WorkingDir   string // absolute; empty: the image's
	Env          []string
	Cmd          Words
	Entrypoint   Words // empty: the image's
	Labels       map[string]string
	Tty          bool
	OpenStdin    bool
	StdinOnce    bool
	AttachStdin  bool
	AttachStdout bool
	AttachStderr bool
	StopSignal   string              // empty: SIGTERM
	StopTimeout  *int                // s; nil: 10
	ExposedPorts map[string]struct{} // PORT/tcp
	Volumes      map[string]struct{} // what is written there is the container's own, as all else
	HostConfig   HostConfig
}

// A HostConfig is what the host gives a container.
type HostConfig struct {
	Binds           []string // SOURCE:TARGET[:ro|rw]
	Mounts          []Mount
	NetworkMode     string
	PortBindings    map[string][]PortBinding // by PORT/tcp
	PublishAllPorts bool
	AutoRemove      bool
	Memory          int64 // bytes
	NanoCpus        int64 // 1e-9 of a processor
	PidsLimit       *int64
	Init            *bool // PID 1 is an init anyway
}

// A Mount is one of docker's --mount.
type Mount struct {
	Type     string // bind or volume
	Source   string
	Target   string
	ReadOnly bool `json:",omitempty"`
}

// A PortBinding is a port of the host.
type PortBinding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}

// argv returns what the main process runs.
func (c *Config) argv(img *store.Config) []string {
	entry, cmd := []string(c.Entrypoint), []string(c.Cmd)
	if len(entry) == 0 {
		entry = img.Entrypoint
		if len(cmd) == 0 {
			cmd = img.Cmd
		}
	} else if len(entry) == 1 && entry[0] == "" { // --entrypoint ''
		entry = nil
	}
	return slices.Concat(entry, cmd)
}

// Variables returns a list of K=V as a map. A K without a value is left out, as docker does.
func Variables(list []string) map[string]string {
	env := map[string]string{}
	for _, v := range list {
		if k, v, ok := strings.Cut(v, "="); ok && k != "" {
			env[k] = v
		}
	}
	return env
}

func invalid(format string, args ...any) error {
	return runtime.Errorf(runtime.ErrInvalid, format, args...)
}

// Mounted returns the binds and mounts, but those without a source, which are the container's own.
func (h *HostConfig) Mounted() (mounts []Mount, err error) {
	all := slices.Clone(h.Mounts)
	for _, b := range h.Binds {
		source, rest, ok := strings.Cut(b, ":")
		target, mode, _ := strings.Cut(rest, ":")
		m := Mount{Type: "volume", Source: source, Target: target}
		for _, o := range strings.Split(mode, ",") {
			switch o {
			case "", "rw", "z", "Z": // labels of SELinux are not needed
			case "ro":
				m.ReadOnly = true
			default:
				ok = false
			}
		}
		if !ok || target == "" {
			return nil, invalid("bind %q: it must be SOURCE:TARGET, also with :ro or :rw", b)
		}
		if strings.HasPrefix(source, "/") {
			m.Type = "bind"
		}
		all = append(all, m)
	}
	for _, m := range all {
		switch {
		case !path.IsAbs(m.Target):
			return nil, invalid("mount at %q: the target must be an absolute path", m.Target)
		case m.Type != "bind" && m.Type != "volume":
			return nil, runtime.Errorf(runtime.ErrUnsupported,
				"mount of type %q at %s: only bind and volume exist here", m.Type, m.Target)
		case m.Type == "bind" || m.Source != "":
			m.Target = path.Clean(m.Target)
			mounts = append(mounts, m)
		}
	}
	return mounts, nil
}

// PortOf returns the number of a port such as 80/tcp.
func PortOf(s string) (int, error) {
	number, proto, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(number)
	switch {
	case proto != "" && proto != "tcp":
		return 0, runtime.Errorf(runtime.ErrUnsupported, "port %s: only tcp ports can be published", s)
	case err != nil || !runtime.IsPort(n):
		return 0, invalid("port %q: it must be from 1 to 65535", s)
	}
	return n, nil
}

// publish returns the ports of the host, of which a free one is taken where none is named. They
// are noted in c. What names no address listens at the loopback address only; so does docker's
// 0.0.0.0, unless wide.
func (c *Config) publish(wide bool) (all []runtime.Publish, err error) {
	noted := map[string][]PortBinding{}
	if c.HostConfig.PublishAllPorts {
		for port := range c.ExposedPorts {
			noted[port] = []PortBinding{{}}
		}
	}
	for port, to := range c.HostConfig.PortBindings {
		if len(to) > 0 {
			noted[port] = slices.Clone(to)
		}
	}
	for port, to := range noted {
		n, err := PortOf(port)
		if err != nil {
			return nil, err
		}
		for i, b := range to {
			p := runtime.Publish{Port: n}
			if p.Address, err = address(b.HostIP, wide); err != nil {
				return nil, err
			}
			if b.HostPort == "" || b.HostPort == "0" {
				p.Local, err = freePort(p.Address)
			} else {
				p.Local, err = PortOf(b.HostPort)
			}
			if err != nil {
				return nil, err
			}
			to[i] = PortBinding{p.Address, strconv.Itoa(p.Local)}
			all = append(all, p)
		}
	}
	c.HostConfig.PortBindings = noted
	return all, nil
}

// address returns where a port of the host listens.
func address(asked string, wide bool) (string, error) {
	const loopback = "127.0.0.1"
	if asked == "" || asked == "0.0.0.0" && !wide {
		return loopback, nil
	}
	ip, err := netip.ParseAddr(asked)
	switch {
	case err != nil:
		return "", invalid("publish at %q: it must be an IP address", asked)
	case !ip.IsLoopback() && !wide:
		return "", runtime.Errorf(runtime.ErrDenied,
			"publish at %s: only the loopback address can be: others could reach it", asked)
	}
	return asked, nil
}

// freePort returns a port that is free now.
func freePort(at string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		return 0, runtime.Errorf(runtime.ErrUnavailable, "publish: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// checkNetwork returns why a container cannot have a network mode where containers have the
// network has.
func checkNetwork(mode string, has runtime.Network) error {
	switch mode {
	case "", "default", "none", string(has):
		return nil
	case "host", "bridge":
		if has == runtime.NetworkHost {
			return nil
		}
		return runtime.Errorf(runtime.ErrDenied,
			"--network %s: containers have network %q here: leave --network out, and allow names with allow-host "+
				"in wolffia's configuration or wolffia serve --allow-host; network: host there gives them the host's", mode, has)
	}
	return runtime.Errorf(runtime.ErrUnsupported, "--network %s: networks with names do not exist here", mode)
}

// resources returns the limits.
func (h *HostConfig) resources() (r runtime.Resources, err error) {
	r = runtime.Resources{Memory: h.Memory, CPUs: float64(h.NanoCpus) / 1e9}
	if h.PidsLimit != nil {
		r.PIDs = max(*h.PidsLimit, 0) // -1: none
	}
	if r.Memory < 0 || r.CPUs < 0 {
		return r, invalid("limits must not be negative")
	}
	return r, nil
}

// CheckPlatform refuses a platform that this host is not.
func CheckPlatform(name string) error {
	own := "linux/" + goruntime.GOARCH
	if name == "" || name == "linux" || name == own {
		return nil
	}
	return runtime.Errorf(runtime.ErrUnsupported, "platform %.100q: only %s runs here", name, own)
}
