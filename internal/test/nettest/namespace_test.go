package nettest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// stage is set in the processes of alone: "prepare TEST" in the one that makes the network,
// then "run TEST"; "fetch NAME" in a sandbox.
const stage = "WOLFFIA_TEST_NAMESPACED"

// limit bounds a test in its namespace: a guard against a hang.
const limit = 15 * time.Minute

func TestMain(m *testing.M) {
	what, test, _ := strings.Cut(os.Getenv(stage), " ")
	switch what {
	case "":
		code := m.Run()
		testbin.Remove()
		os.Exit(code)
	case "fetch":
		if err := fetch(test); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "prepare":
		if err := prepare("run " + test); err != nil {
			fmt.Fprintln(os.Stderr, "prepare a network:", err)
			os.Exit(1)
		}
	}
	// An engine has to see the mounts of this namespace, and to be able to show its own.
	if os.Geteuid() == 0 && strings.Contains(test, "Docker") {
		_ = os.Unsetenv(dockertest.Socket)
		os.Exit(dockertest.Main(m))
	}
	os.Exit(m.Run())
}

// alone runs the calling test, which must not be a part of another, once more in a
// process with namespaces of its own for networks, mounts, and, unless root runs the test,
// users. There it returns true. Here it returns false when that has ended, and has
// failed or skipped t as the other did.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(stage) == "run "+t.Name() {
		return true
	}
	testenv.Need(t, probe.UserNamespaces)
	bin := testbin.Dir(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+selection(t), "-test.v", "-test.timeout="+limit.String())
	cmd.Env = append(os.Environ(), stage+"=prepare "+t.Name(), "WOLFFIA_TEST_BIN="+bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	text, err := cmd.CombinedOutput()
	out := string(text)
	switch {
	case err != nil:
		t.Fatalf("in a namespace: %v\n%s", err, out)
	case strings.Contains(out, "--- SKIP: "+t.Name()+" "):
		t.Skip(out)
	case !strings.Contains(out, "--- PASS: "+t.Name()+" "):
		t.Fatalf("in a namespace: the test did not run:\n%s", out)
	}
	var left []string
	for line := range strings.Lines(out) {
		if _, what, is := strings.Cut(line, leftOut); is && !slices.Contains(left, strings.TrimSpace(what)) {
			left = append(left, strings.TrimSpace(what))
		}
	}
	if len(left) > 0 { // make test prints the beginning of what the test says
		t.Skipf("LEFT OUT, all else passed: %s\n%s", strings.Join(left, "; "), strings.ReplaceAll(out, "SOAK: ", "soak: "))
	}
	t.Log(out)
	return false
}

// leftOut begins what a part of a test says of what it skips, for alone.
const leftOut = "LEFT OUT: "

// public are the networks of the test's servers. They are ordinary ones of the internet, which this
// namespace does not reach. The others are those that a sandbox must not reach: servers answer
// there too, so that a missing check shows.
var (
	public   = []string{"45.45.45.0/24", "2600:45:45::/64"}
	internal = []string{
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "198.18.0.0/15", "192.0.2.0/24", "203.0.113.0/24",
		"168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "fd00::/8", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "2001:db8::/32", "fec0::/10", "100::/64",
	}
)

// own is an address of an interface of this namespace, which plays the host's own.
const own = "45.45.46.1"

// prepare makes the network of this namespace, then continues as the next stage without
// privileges.
func prepare(next string) error {
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	for _, network := range slices.Concat(public, internal) {
		p := netip.MustParsePrefix(network)
		if err := rtnetlink(unix.RTM_NEWROUTE, routeTo(p)); err != nil {
			return fmt.Errorf("make %s local: %w", network, err)
		}
	}
	if err := rtnetlink(unix.RTM_NEWADDR, addressOf(netip.MustParseAddr(own))); err != nil {
		return fmt.Errorf("add address %s: %w", own, err)
	}
	// The servers have the ports that clients expect.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"/etc/resolv.conf": "nameserver " + resolver + "\noptions timeout:2 attempts:1\n",
		"/etc/hosts":       "127.0.0.1 localhost\n",
	} {
		if err := replace(name, text); err != nil {
			return fmt.Errorf("replace %s: %w", name, err)
		}
	}
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := os.Setenv(stage, next); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// replace mounts a file with the text over another. The file has no name afterwards.
func replace(name, text string) error {
	f, err := os.CreateTemp("", "nettest")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return unix.Mount(f.Name(), name, "", unix.MS_BIND, "")
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// lo is the index of the loopback interface, in each network namespace.
const lo = 1

// routeTo is the rtnetlink message (rtnetlink(7)) of a local route: all addresses of the network are this
// machine's, and no interface lists them.
func routeTo(p netip.Prefix) []byte {
	b := []byte{family(p.Addr()), byte(p.Bits()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	b = append(b, attribute(unix.RTA_DST, p.Masked().Addr().AsSlice())...)
	return append(b, attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, lo))...)
}

// addressOf is that of an address of the loopback interface.
func addressOf(a netip.Addr) []byte {
	b := []byte{family(a), byte(a.BitLen()), 0, unix.RT_SCOPE_UNIVERSE}
	b = binary.NativeEndian.AppendUint32(b, lo)
	return append(b, attribute(unix.IFA_LOCAL, a.AsSlice())...)
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// attribute is an attribute of a message: length, kind, value, padding.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// rtnetlink sends a request and returns the kernel's error.
func rtnetlink(kind uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	h := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: kind, Seq: 1,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL,
	}
	msg := append(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.SizeofNlMsghdr), body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("rtnetlink answers %x", answer[:n])
	}
	if e := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); e != 0 {
		return syscall.Errno(-e)
	}
	return nil
}

// selection is the pattern of -test.run for the calling test, with the parts that the command line names. The
// command line's alternatives are for tests as a whole.
func selection(t *testing.T) string {
	t.Helper()
	depth, begin := 0, 0
	pattern := flag.Lookup("test.run").Value.String() + "|"
	for i, r := range pattern {
		switch {
		case strings.ContainsRune("([", r):
			depth++
		case strings.ContainsRune(")]", r):
			depth--
		case r == '|' && depth == 0:
			name, parts, some := strings.Cut(pattern[begin:i], "/")
			begin = i + 1
			if is, err := regexp.MatchString(name, t.Name()); err == nil && is && some {
				return "^" + t.Name() + "$/" + parts
			}
		}
	}
	return "^" + t.Name() + "$"
}
