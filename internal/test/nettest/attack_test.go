package nettest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/network"
	"wolffia/runtime"
)

// An attack is a call of testdata/attack.py, which has to be refused.
type attack struct {
	call string // function and arguments
	// reason is a part of the reason of an event that the attack leads to, with name as its name
	// and allow as its flag. It is empty where the kernel refuses, and nothing reaches wolffia.
	reason, name, allow string
	sample              bool // is tried with the other backends in every run
}

const (
	good  = "good.ok.example"
	other = "other.no.example"
)

// attacks are tried one after the other in one sandbox.
func attacks() []attack {
	const (
		noRule  = "no rule allows"
		noName  = "not a host name"
		noCheck = "--no-sni-check " + good
	)
	list := []attack{
		{call: "sni", reason: "another server name", name: good, allow: noCheck, sample: true},
		{call: "sni_case", reason: "another server name", name: good, allow: noCheck},
		{call: "no_sni", reason: "no server name", name: good, allow: noCheck},
		{call: "ech", reason: "ECH", name: good, allow: noCheck, sample: true},
		{call: "esni", reason: "ECH", name: good, allow: noCheck},
		{call: "two_sni", reason: "TLS", name: good, allow: noCheck},
		{call: "split_sni", reason: "TLS", name: good, allow: noCheck},
		{call: "not_tls", reason: "not TLS", name: good, allow: noCheck},
		{call: "http_on_443", reason: "not TLS", name: good, allow: noCheck},
		{call: "tls_on_other_port", reason: "another server name", name: good, allow: noCheck},
		{call: "host", reason: "another host", name: good, allow: noCheck, sample: true},
		{call: "no_host", reason: "HTTP", name: good, allow: noCheck},
		{call: "two_hosts", reason: "HTTP", name: good, allow: noCheck},
		{call: "absolute", reason: "another host", name: good, allow: noCheck},
		{call: "second", reason: "another host", name: good, allow: noCheck},
		{call: "pipelined", reason: "another host", name: good, allow: noCheck},
		{call: "smuggled"},
		{call: "smuggled_length", reason: "HTTP", name: good, allow: noCheck},
		{call: "prior_knowledge"},
		{call: "h2c"},
		{call: "unknown_name", reason: noRule, name: other, allow: "--allow-host " + other, sample: true},
		{call: "port", reason: "no rule allows the port", name: "web.one.example", allow: "--allow-host web.one.example"},
		{call: "elsewhere mixed.ok.example", reason: "private", name: "mixed.ok.example", allow: "--allow-host mixed.ok.example@private"},
		{call: "bad_address missing.ok.example", reason: "cannot resolve", name: "missing.ok.example"},
		{call: "bad_address empty.ok.example", reason: "cannot resolve", name: "empty.ok.example"},
		{call: "bad_address aliasloop.ok.example", reason: "loopback", name: "aliasloop.ok.example", allow: "--add-host aliasloop.ok.example:127.0.0.1"},
		{call: "bad_address dead.no.example", reason: noRule, name: "dead.no.example", allow: "--allow-host dead.no.example"},
		{call: "bad_address target.no.example", reason: noRule, name: "target.no.example", allow: "--allow-host target.no.example"},
		{call: "elsewhere rebind.ok.example", reason: "loopback", name: "rebind.ok.example", allow: "--add-host rebind.ok.example:127.0.0.1", sample: true},
		{call: "raw", sample: true},
		{call: "raw6"},
		{call: "loopbacks", reason: "an address without a name"},
		{call: "unassigned", reason: "an address without a name", sample: true},
		{call: "notations"},
		{call: "connect_sni", reason: "another server name", name: good, allow: noCheck, sample: true},
		{call: "connect_host", reason: "another host", name: good, allow: noCheck},
		{call: "proxy_get http://other.no.example/hello", reason: noRule, name: other, allow: "--allow-host " + other, sample: true},
		{call: "proxy_get http://other.no.example/hello good.ok.example", reason: noRule, name: other, allow: "--allow-host " + other},
		{call: "proxy_get http://127.0.0.1/hello", reason: "an address without a name"},
		{call: "proxy_get http://2130706433/hello", reason: noName},
		{call: "proxy_get http://good.ok.example@127.0.0.1/hello"},
		{call: "proxy_get https://good.ok.example/hello"},
		{call: "proxy_get file:///etc/passwd"},
		{call: "proxy_get ftp://good.ok.example/"},
		{call: "proxy_get /hello"},
		{call: "proxy_get *"},
		{call: "socks 3 other.no.example 80", reason: noRule, name: other, allow: "--allow-host " + other, sample: true},
		{call: "socks 3 good.ok.example 81", reason: "no rule allows the port", name: good, allow: "--allow-host " + good + ":81"},
		{call: "socks 3 127.0.0.1 80", reason: "an address without a name"},
		{call: "socks 3 localhost 80", reason: noRule},
		{call: "socks 1 127.0.0.1 80", reason: "an address without a name"},
		{call: "socks 1 10.1.2.3 80", reason: "an address without a name", allow: "--add-host NAME:10.1.2.3"},
		{call: "socks 1 " + site + " 80", reason: "an address without a name", allow: "--add-host NAME:" + site},
		{call: "socks 4 ::1 80", reason: "an address without a name"},
		{call: "socks 4 ::ffff:127.0.0.1 80", reason: "an address without a name"},
		{call: "socks 3 loop.ok.example 80", reason: "loopback", name: "loop.ok.example", allow: "--add-host loop.ok.example:127.0.0.1"},
		{call: "socks 3 good.ok.example 80 2"},
		{call: "socks 3 good.ok.example 80 3"},
		{call: "socks_sni", reason: "another server name", name: good, allow: noCheck},
		{call: "tunnel", reason: noRule, sample: true},
		{call: "dns_garbage", sample: true},
		{call: "udp", sample: true},
		{call: "device", sample: true},
		{call: "netlink", sample: true},
		{call: "raw_sockets", sample: true},
		{call: "abstract nettest-abstract", sample: true},
		{call: "vsock"},
		{call: "transparent"},
	}
	for _, target := range []struct{ to, reason string }{
		{"127.0.0.1:80", "an address without a name"},
		{"[::1]:80", "an address without a name"},
		{"localhost:80", noRule},
		{"10.1.2.3:80", "an address without a name"},
		{"169.254.169.254:80", "an address without a name"},
		{own + ":80", "an address without a name"},
		{"[::ffff:127.0.0.1]:80", "an address without a name"},
		{"2130706433:80", noName},
		{"0177.0.0.1:80", noName},
		{"0x7f.1:80", noName},
		{"127.1:80", noName},
		{"0:80", noName},
		{"127.64.0.1:53", "an address without a name"},
		{other + ":443", noRule},
		{good + ":81", "no rule allows the port"},
		{"good.ok.example.:81", "no rule allows the port"},
		{"GOOD.OK.example:81", "no rule allows the port"},
		{"loop.ok.example:80", "loopback"},
		{"metadata.ok.example:80", "metadata"},
		{"own.ok.example:80", "the host itself"},
		{"good.ok.example@127.0.0.1:80", ""},
		{"good.ok.example%00.no.example:80", ""},
		{"127.0.0.1%2f.ok.example:80", ""},
		{":80", ""},
		{"good.ok.example", ""},
		{"good.ok.example:99999", ""},
		{"/run/sock:80", ""},
	} {
		list = append(list, attack{call: "connect " + target.to, reason: target.reason, sample: target.to == "127.0.0.1:80"})
	}
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		a := attack{call: "bad_address " + name + ".ok.example", reason: "the name leads to", name: name + ".ok.example", sample: name == "metadata" || name == "own" || name == "ula"}
		if address := hostile[name][0]; !strings.HasPrefix(address, "::") {
			a.allow = "--add-host " + a.name + ":" + address
			if network.IsPrivate(network.Forbidden(netip.MustParseAddr(address))) {
				a.allow = "--allow-host " + a.name + network.PrivateSuffix
			}
		}
		list = append(list, a)
	}
	return list
}

// TestAttacks: nothing gets out of a sandbox but connections to the names that rules have, and
// what wolffia refuses it reports, with a flag where one helps.
func TestAttacks(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, python, "curl")
	if alone(t) {
		tryAttacks(t, "bwrap")
	}
}

// TestAttacksInGvisor is TestAttacks with another kernel.
func TestAttacksInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	testenv.Tools(t, python, "curl")
	if alone(t) {
		tryAttacks(t, "gvisor")
	}
}

// TestAttacksInDocker is TestAttacks in an engine.
func TestAttacksInDocker(t *testing.T) {
	testenv.Root(t) // who may start an engine in a namespace
	testenv.Tools(t, "dockerd", python, "curl")
	if alone(t) {
		testenv.Need(t, probe.Docker)
		tryAttacks(t, "docker")
	}
}

func tryAttacks(t *testing.T, backend string) {
	t.Helper()
	w := newWorld(t)
	hidden, err := net.Listen("unix", "@nettest-abstract") // of the host
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	s := w.create(t, backend, "--allow-host", "*.ok.example:"+ports, "--allow-host", "web.one.example:80")
	for _, a := range attacks() {
		if backend != "bwrap" && !a.sample && !testenv.Full() {
			continue
		}
		t.Run(a.call, func(t *testing.T) {
			r := s.sh(t, "exec /usr/bin/python3 /conf/attack.py "+quoted(a.call))
			if last := lastLine(r.Stdout); r.ExitCode != 0 || !strings.HasPrefix(last, "refused") {
				t.Errorf("is not refused: %v", r)
			}
			if a.reason == "" {
				return
			}
			if r.refused(func(e *runtime.Refusal) bool {
				return strings.Contains(e.Reason, a.reason) && (a.name == "" || e.Name == a.name) && (a.allow == "" || e.Allow == a.allow)
			}) == nil {
				t.Errorf("no event has the reason %q, the name %q and the flag %q: %v", a.reason, a.name, a.allow, r)
			}
		})
	}
	for _, v := range w.visits.astray() {
		t.Errorf("the sandbox has connected to %v", v)
	}
	for _, host := range []string{other, "web.one.example"} {
		if n := w.visits.of(host); n > 0 {
			t.Errorf("%d requests for %s have come", n, host)
		}
	}
	// A name is resolved once for a connection: A and AAAA.
	if names := w.names.questions(func(name string) bool { return name == "rebind.ok.example" }); len(names) > 2*20 {
		t.Errorf("%d questions for 20 connections to rebind.ok.example", len(names))
	}
	// Only names that rules have, and only for connections.
	if names := w.names.questions(func(name string) bool { return !strings.HasSuffix(name, ".ok.example") || len(name) > 40 }); len(names) > 0 {
		t.Errorf("the host has been asked for %q", names)
	}
	s.works(t)
}

// works checks that the sandbox reaches a name that a rule has.
func (s *sandbox) works(t *testing.T) {
	t.Helper()
	const tries = 5 // the world's own name server can be late while other floods run
	var r *result
	for range tries {
		if r = s.sh(t, strings.TrimSpace(clients[0].script)+" && echo fine", "NAME="+good); strings.Contains(r.Stdout, "fine") {
			return
		}
		if !slices.ContainsFunc(r.Refused, func(f runtime.Refusal) bool { return f.Reason == "the host cannot resolve the name" }) {
			break
		}
	}
	t.Errorf("the network does not work: %v", r)
}

// quoted quotes each word of a call for the shell.
func quoted(call string) string {
	words := strings.Fields(call)
	for i, word := range words {
		words[i] = "'" + word + "'"
	}
	return strings.Join(words, " ")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// A flood is a call of testdata/attack.py that takes as much of wolffia as it can get.
type flood struct {
	call string
	// held floods hold what they have until their standard input ends.
	held   bool
	full   bool // for a full run only
	sample bool // with all backends in every run
	reason string
}

var floods = []flood{
	{call: "slow", reason: "10 s", sample: true},
	{call: "slow 80", reason: "10 s"},
	{call: "slow_proxy", reason: "10 s"},
	{call: "huge", sample: true},
	{call: "half_open", sample: true},
	{call: "many 10000", held: true, sample: true, reason: "1024 connections"},
	{call: "many 10000 127.64.0.1 3128", held: true, full: true},
	{call: "many 10000 127.64.0.1 53", held: true, full: true},
	{call: "unread 200", held: true},
	{call: "names", full: true, reason: "65536"},
}

// shimBound is how many bytes the process of wolffia that serves the network of a sandbox may
// take, whatever the sandbox does: 1024 connections with their buffers, 65,536 names, and what the
// runtime of Go holds twice before it collects.
const shimBound = 128 << 20

// TestFloods: what a sandbox can take of the host's memory by its network is bounded, and the
// network works again afterwards.
func TestFloods(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, python, "curl")
	if alone(t) {
		tryFloods(t, "bwrap")
	}
}

// TestFloodsInGvisor is TestFloods with another kernel.
func TestFloodsInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	testenv.Tools(t, python, "curl")
	if alone(t) {
		tryFloods(t, "gvisor")
	}
}

func tryFloods(t *testing.T, backend string) {
	t.Helper()
	w := newWorld(t)
	for _, f := range floods {
		t.Run(f.call, func(t *testing.T) {
			if !testenv.Full() && (f.full || backend != "bwrap" && !f.sample) {
				t.Skip("SOAK: WOLFFIA_TEST_FULL=1 runs it")
			}
			t.Parallel()
			s := w.create(t, backend, "--allow-host", "*.ok.example:"+ports)
			s.works(t) // and its name has an address, however many more there will be
			shim := shimOf(t, s.id)
			out, most := s.flood(t, &f, shim)
			t.Logf("the shim takes %d MiB at most, with %s", most>>20, out)
			if last := lastLine(out); !strings.HasPrefix(last, "refused") {
				t.Errorf("the flood ends with %s", out)
			}
			if most > shimBound {
				t.Errorf("the shim takes %d MiB, more than %d MiB", most>>20, shimBound>>20)
			}
			s.works(t)
			// In gVisor the relay of connections has a limit of its own before the gateway's.
			if f.reason != "" && backend == "bwrap" && !strings.Contains(s.must(t, "audit", "--json", s.id), f.reason) {
				t.Errorf("the log has no %q", f.reason)
			}
		})
	}
}

// flood runs a flood and returns what it prints, and the maximum of the memory that the process
// took.
func (s *sandbox) flood(t *testing.T, f *flood, pid string) (out string, most int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*slow) // 70,000 names, in gVisor, beside other tests
	defer cancel()
	args := append([]string{"exec", "-i", "--timeout", "14m", s.id, "--", "/usr/bin/python3", "-u", "/conf/attack.py"}, strings.Fields(f.call)...)
	cmd := exec.CommandContext(ctx, s.wolffia, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.codebase, s.env, 10*time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	if f.held { // the first line comes when all is taken
		first, err := lines.ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("%s: %v: %s", f.call, err, said.String())
		}
		out = first
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	rest, rerr := io.ReadAll(lines)
	err = cmd.Wait()
	out += string(rest)
	if err != nil || rerr != nil {
		t.Errorf("%s: got err %v, rerr %v, out %s, %s; want err == nil and rerr == nil", f.call, err, rerr, out, said.String())
	}
	return out, peak(t, pid)
}

// shimOf returns the process number of a sandbox's shim.
func shimOf(t *testing.T, id string) string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if words := strings.Split(string(line), "\x00"); err == nil && len(words) > 1 && words[1] == "shim" && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, id+"-") }) {
			return e.Name()
		}
	}
	t.Fatalf("no process is the shim of %s", id)
	return ""
}

// peak returns the maximum of the resident memory of a process so far, in bytes.
func peak(t *testing.T, pid string) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}
