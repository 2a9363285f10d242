package shim

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"wolffia/internal/sys/proc"
)

// Bounds of a search for the owner of a socket, so that it takes some milliseconds: the sandbox
// chooses how much there is.
const (
	maxSocketTables = 1 << 20 // bytes of all tables of sockets
	maxOwnerSteps   = 1024    // descriptors that are looked at, with
	stepsOfThread   = 4       // as many for each thread
	stepsOfProcess  = 8       // and process
)

// owner returns the process of a sandbox that has the socket with these ends, by its number on
// the host, and its name; 0 and "" if it is not found. init is the sandbox's PID 1.
func owner(init int, local, remote netip.AddrPort) (pid int, program string) {
	inode := inodeOf(init, local, remote)
	if inode == "" {
		return 0, ""
	}
	steps := maxOwnerSteps
	for next := []int{init}; len(next) > 0 && steps > 0; {
		pid, next = next[0], next[1:]
		found, fds := has(pid, "socket:["+inode+"]", steps)
		if found {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return pid, strings.ToValidUTF8(strings.TrimSuffix(string(name), "\n"), "\uFFFD")
		}
		steps -= stepsOfProcess + fds
		children, threads := proc.SomeChildren(pid, max(0, steps/stepsOfThread))
		steps -= stepsOfThread * threads
		next = append(next, children...)
	}
	return 0, ""
}

// has reports whether a process has a descriptor of a file that /proc calls name, among so many at
// most, and how many it looked at.
func has(pid int, name string, most int) (found bool, fds int) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false, 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(most)
	for _, fd := range names {
		if target, err := os.Readlink(filepath.Join(dir.Name(), fd)); err == nil && target == name {
			return true, len(names)
		}
	}
	return false, len(names)
}

// inodeOf returns the inode of a socket in the network namespace of a process, as text; empty if
// it is not found. The tables are those of proc_net(5).
func inodeOf(pid int, local, remote netip.AddrPort) string {
	tables := []string{"tcp", "udp", "tcp6", "udp6"}
	if remote.Port() == 53 { // most ask DNS by UDP, and a table takes a millisecond or more
		tables = []string{"udp", "tcp", "udp6", "tcp6"}
	}
	left := int64(maxSocketTables)
	for _, table := range tables {
		f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "net", table))
		if err != nil {
			continue
		}
		text := &io.LimitedReader{R: f, N: left}
		inode := inodeIn(text, table, local, remote)
		left = text.N
		_ = f.Close()
		if inode != "" {
			return inode
		}
	}
	return ""
}

// inodeIn searches a table. A socket of UDP need not be connected, nor bound to an address.
func inodeIn(r io.Reader, table string, local, remote netip.AddrPort) string {
	from, to, any := ends(table, local), ends(table, remote), ends(table, netip.AddrPort{})
	anyFrom, _, _ := strings.Cut(any, ":")
	_, port, _ := strings.Cut(from, ":")
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		exact := f[1] == from && f[2] == to
		loose := strings.HasPrefix(table, "udp") && (f[1] == from || f[1] == anyFrom+":"+port) && (f[2] == to || f[2] == any)
		if (exact || loose) && f[9] != "0" {
			return f[9]
		}
	}
	return ""
}

// ends returns an IPv4 address and a port as a table has them, IPv6 tables as a mapped address;
// the zero AddrPort is the unspecified one.
func ends(table string, a netip.AddrPort) string {
	if !a.IsValid() {
		if strings.HasSuffix(table, "6") {
			return strings.Repeat("0", 32) + ":0000"
		}
		return "00000000:0000"
	}
	b := a.Addr().Unmap()
	if !b.Is4() {
		return ""
	}
	four := b.As4()
	text := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(four[:]), a.Port())
	if strings.HasSuffix(table, "6") {
		var mapped [4]byte
		mapped[2], mapped[3] = 0xff, 0xff
		text = strings.Repeat("0", 16) + fmt.Sprintf("%08X", binary.NativeEndian.Uint32(mapped[:])) + text
	}
	return text
}
