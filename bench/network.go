package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"wolffia/network"
	"wolffia/runtime"
)

// A netbench is the state of the part network.
type netbench struct {
	*bench
	port  string   // of the server on the host's loopback
	self  string   // a copy of this program, in the codebase
	plain []*speed // a connection on the host's loopback, in each round
	peers map[string][]*speed
}

// insideName is the name of this program in the codebase, and programInside its path inside.
const (
	insideName    = "bench-inside"
	programInside = runtime.DefaultMountPoint + "/" + insideName
)

// network compares connections through a filtered network with plain ones on the loopback, and with
// slirp4netns and pasta, turn by turn.
func (b *bench) network() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() { _ = serve(l) }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	n := &netbench{bench: b, port: port, self: filepath.Join(b.codebase, insideName), peers: map[string][]*speed{}}
	if err := copyProgram(n.self); err != nil {
		return err
	}
	defer os.Remove(n.self)
	if err := n.peersAndUs(); err != nil {
		return err
	}
	err = b.inGvisor(func(g *bench, _ string) error { return n.backend("gvisor", g) })
	if err != nil {
		fmt.Fprintf(b.table, "gvisor: not measured: %v\t\t\t\t\t\n", err)
	}
	return b.inDocker(func(d *bench) error { return n.backend("docker", d) })
}

// copyProgram copies this program.
func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Chmod(0o755), f.Close())
}

const rounds = 3

// peersAndUs measures plain connections, the peers and bubblewrap in each round.
func (n *netbench) peersAndUs() error {
	id, err := n.filtered(n.bench, nil)
	if err != nil {
		return err
	}
	defer func() { _ = n.rt.Destroy(n.ctx, id) }()
	ways := []struct {
		name  string
		needs string
		run   func() (*speed, error)
	}{
		{"plain", "", func() (*speed, error) {
			return n.here("127.0.0.1:" + n.port)
		}},
		{"bwrap", "", func() (*speed, error) { return n.measureIn(n.bench, id, "measure", "bench.example:"+n.port) }},
		{"slirp4netns", "slirp4netns", n.slirp4netns},
		{"pasta", "pasta", n.pasta},
	}
	failed := map[string]error{}
	for range rounds {
		for _, w := range ways {
			s, err := w.run()
			if err != nil && w.needs != "" {
				failed[w.name] = err
				continue
			} else if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			n.peers[w.name] = append(n.peers[w.name], s)
		}
	}
	n.plain = n.peers["plain"]
	n.rows("plain connection on the loopback", n.plain, false)
	for _, name := range []string{"slirp4netns", "pasta"} {
		if s := n.peers[name]; s != nil {
			n.rows(name, s, false)
		} else {
			fmt.Fprintf(n.table, "%s: not measured: %s\t\t\t\t\t\n", name, strings.ReplaceAll(strings.TrimSpace(failed[name].Error()), "\n", "; "))
		}
	}
	n.rows("bwrap, filtered", n.peers["bwrap"], true)
	if err := n.forward("bwrap", n.bench); err != nil {
		return err
	}
	return n.starts("bwrap", n.bench)
}

// backend measures another backend.
func (n *netbench) backend(name string, b *bench) error {
	id, err := n.filtered(b, nil)
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	var own, ours []*speed
	for range rounds {
		p, err := n.here("127.0.0.1:" + n.port)
		if err != nil {
			return err
		}
		l, err := n.measureIn(b, id, "loop")
		if err != nil {
			return err
		}
		s, err := n.measureIn(b, id, "measure", "bench.example:"+n.port)
		if err != nil {
			return err
		}
		n.plain, own, ours = append(n.plain, p), append(own, l), append(ours, s)
	}
	n.rows(name+", the loopback inside", own, false)
	n.rows(name+", filtered", ours, true)
	d, u, _ := best(ours)
	inD, inU, _ := best(own)
	fmt.Fprintf(n.table, "%s, filtered, of the loopback inside\t\t%.0f%%, %.0f%%\t\t\t\n", name, 100*d/inD, 100*u/inU)
	if err := n.forward(name, b); err != nil {
		return err
	}
	return n.starts(name, b)
}

// filtered creates a sandbox that can reach the server by name.
func (n *netbench) filtered(b *bench, more func(*runtime.SandboxConfig)) (string, error) {
	c := &runtime.SandboxConfig{
		CodebasePath: b.codebase, Permissions: b.rules, Network: runtime.NetworkFiltered,
		Egress: &network.Policy{Allow: []string{"bench.example:" + n.port}, Hosts: map[string]string{"bench.example": "127.0.0.1"}},
	}
	if more != nil {
		more(c)
	}
	s, err := b.rt.Create(b.ctx, c)
	if err != nil {
		return "", err
	}
	return s.ID, b.rt.Start(b.ctx, s.ID)
}

// measureIn measures from inside a sandbox.
func (n *netbench) measureIn(b *bench, id string, args ...string) (*speed, error) {
	r, err := b.rt.Exec(b.ctx, id, &runtime.ExecRequest{Command: append([]string{programInside, insideCommand}, args...), Env: map[string]string{"GODEBUG": "netdns=go"}})
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 {
		return nil, fmt.Errorf("%q in a sandbox: exit code %d: %s", args, r.ExitCode, r.Stderr)
	}
	s := new(speed)
	return s, json.Unmarshal(r.Stdout, s)
}

// here measures from a process of this host.
func (n *netbench) here(address string) (*speed, error) {
	return n.output(n.self, insideCommand, "measure", address)
}

// hang bounds a measurement of a peer: a guard.
const hang = 2 * time.Minute

// output runs a program that ends as this one as a client.
func (n *netbench) output(program string, args ...string) (*speed, error) {
	ctx, cancel := context.WithTimeout(n.ctx, hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                // pasta has a child
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // that could go on for ever
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %s", cmd.Args, err, said.String())
	}
	s := new(speed)
	return s, json.Unmarshal(out, s)
}

// slirp4netns measures a network namespace behind slirp4netns.
func (n *netbench) slirp4netns() (*speed, error) {
	ctx, cancel := context.WithTimeout(n.ctx, hang)
	defer cancel()
	client := exec.CommandContext(ctx, "unshare", "--user", "--map-root-user", "--net", n.self, insideCommand, "wait", "measure", "10.0.2.2:"+n.port)
	var said bytes.Buffer
	client.Stderr = &said
	stdin, err := client.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := client.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := client.Start(); err != nil {
		return nil, err
	}
	defer func() { _, _ = client.Process.Kill(), client.Wait() }()
	lines := bufio.NewReader(stdout)
	if _, err := lines.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("unshare: %w: %s", err, said.String())
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	slirp := exec.CommandContext(ctx, "slirp4netns", "--configure", "--mtu=65520", "--ready-fd=3", fmt.Sprint(client.Process.Pid), "tap0")
	slirp.ExtraFiles = []*os.File{theirs}
	var log bytes.Buffer
	slirp.Stdout, slirp.Stderr = &log, &log
	err = slirp.Start()
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = slirp.Process.Kill(), slirp.Wait() }()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("slirp4netns is not ready: %w", err)
	}
	if err := stdin.Close(); err != nil {
		return nil, err
	}
	out, err := io.ReadAll(lines)
	if err != nil {
		return nil, err
	}
	s := new(speed)
	if err := json.Unmarshal(out, s); err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	return s, nil
}

// pasta measures a network namespace behind pasta, which maps the gateway's address to the host's loopback.
func (n *netbench) pasta() (*speed, error) {
	gateway, err := defaultGateway()
	if err != nil {
		return nil, err
	}
	return n.output("pasta", "--quiet", "--config-net", "--ipv4-only", "-t", "none", "-u", "none", "-T", "none", "-U", "none", "--", n.self, insideCommand, "measure", gateway+":"+n.port)
}

// defaultGateway returns the address of the IPv4 gateway: proc_pid_net(5), route.
func defaultGateway() (string, error) {
	table, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "00000000" {
			continue
		}
		if b, err := hex.DecodeString(f[2]); err == nil && len(b) == 4 {
			slices.Reverse(b)
			return net.IP(b).String(), nil
		}
	}
	return "", errors.New("this host has no default route")
}

// best returns the best throughputs of the rounds, and all times of connections.
func best(all []*speed) (down, up float64, connects times) {
	for _, s := range all {
		down, up = max(down, s.Down), max(up, s.Up)
		connects = append(connects, s.Connects...)
	}
	slices.Sort(connects)
	return down, up, connects
}

// rows prints what was measured, for us with bars.
func (n *netbench) rows(name string, all []*speed, ours bool) {
	down, up, connects := best(all)
	bars := [3]string{}
	if ours {
		d, u, c := best(n.plain)
		bars = [3]string{"", "", fmt.Sprintf("<= 0.3 ms more than plain: %s", ms(connects.at(0.5)-c.at(0.5)))}
		for i, got := range []float64{down / d, up / u} {
			bars[i] = fmt.Sprintf(">= 60%% of plain: %.0f%%", 100*got)
		}
		for _, peer := range []string{"slirp4netns", "pasta"} {
			if p := n.peers[peer]; p != nil {
				d, u, _ := best(p)
				bars[0] += fmt.Sprintf(", >= %s: %.1fx", peer, down/d)
				bars[1] += fmt.Sprintf(", >= %s: %.1fx", peer, up/u)
			}
		}
	}
	fmt.Fprintf(n.table, "%s: download\t\t%.0f MB/s\t\t%s\t\n", name, down, bars[0])
	fmt.Fprintf(n.table, "%s: upload\t\t%.0f MB/s\t\t%s\t\n", name, up, bars[1])
	n.row(name+": connect and a byte", connects, bars[2])
	_ = n.table.Flush()
}

// starts compares the life of a sandbox with a filtered network and without, turn by turn.
func (n *netbench) starts(name string, b *bench) error {
	var without, with times
	const warm = 2
	for i := range 20 + warm {
		for _, m := range []struct {
			to     *times
			create func() (string, error)
		}{{&without, b.create}, {&with, func() (string, error) { return n.filtered(b, nil) }}} {
			var id string
			d, err := took(func() error {
				var err error
				if id, err = m.create(); err != nil {
					return err
				}
				return b.execIn(id, "true")
			})
			if err != nil {
				return err
			}
			if err := b.rt.Destroy(b.ctx, id); err != nil {
				return err
			}
			if i >= warm {
				*m.to = append(*m.to, d)
			}
		}
	}
	slices.Sort(without)
	slices.Sort(with)
	b.row(name+": create, mount the tree, true", without, "")
	b.row(name+": the same, filtered", with, fmt.Sprintf("%s more", ms(with.at(0.5)-without.at(0.5))))
	return nil
}

// forward measures connections from the host to a server inside, by a published port.
func (n *netbench) forward(name string, b *bench) error {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		return err
	}
	local := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return err
	}
	const port = 7000
	id, err := n.filtered(b, func(c *runtime.SandboxConfig) {
		c.Network, c.Egress = runtime.NetworkNone, nil
		c.Publish = []runtime.Publish{{Local: local.Port, Port: port}}
	})
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	p, err := b.rt.StartProcess(b.ctx, id, &runtime.Command{Command: []string{programInside, insideCommand, "serve", fmt.Sprintf("127.0.0.1:%d", port)}})
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := bufio.NewReader(p.Stdout()).ReadString('\n'); err != nil {
		return fmt.Errorf("the server inside does not start: %w", err)
	}
	var all []*speed
	for range rounds {
		s, err := n.here(local.String())
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	n.rows(name+", published port", all, false)
	return nil
}
