package inside

import (
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// The loopback of a network namespace gets big packets.
func TestEnlargePackets(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	type result struct{ before, after uint32 }
	results := make(chan result)
	errs := make(chan error, 1)
	go func() {
		defer close(results)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			errs <- err
			return
		}
		before := packetSize(t)
		if before == 0 { // of a kernel before 6.3
			errs <- nil
			return
		}
		if err := enlargePackets(); err != nil {
			errs <- err
			return
		}
		results <- result{before, packetSize(t)}
	}()
	got, ok := <-results
	if !ok {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		t.Skip("this kernel has no big packets of IPv4")
	}
	if got.before != 65536 || got.after != bigPacket {
		t.Errorf("got %+v; want got.before == 65536 and got.after == bigPacket", got)
	}
}

// packetSize returns the loopback's biggest packet of TCP over IPv4; 0 if the kernel does not say.
func packetSize(t *testing.T) uint32 {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		t.Error(err)
		return 0
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		t.Error(err)
		return 0
	}
	for i := range messages {
		attributes, err := syscall.ParseNetlinkRouteAttr(&messages[i])
		if err != nil {
			continue // the end
		}
		for _, a := range attributes {
			if a.Attr.Type == unix.IFLA_GSO_IPV4_MAX_SIZE {
				return binary.NativeEndian.Uint32(a.Value)
			}
		}
	}
	return 0
}

// The loopback of a network namespace gets an address besides 127.0.0.1, once.
func TestAddAddress(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	addresses := func() (all []string, err error) {
		lo, err := net.InterfaceByIndex(loopback)
		if err != nil {
			return nil, err
		}
		found, err := lo.Addrs()
		for _, a := range found {
			all = append(all, a.String())
		}
		return all, err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			if err := addAddress(); err != nil {
				return err
			}
			all, err := addresses()
			if err == nil && !slices.Contains(all, "127.64.0.1/32") {
				t.Errorf("addresses %q", all)
			}
			if err := addAddress(); !errors.Is(err, unix.EEXIST) {
				t.Errorf("a second time: %v", err)
			}
			return err
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
