package wire_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"wolffia/wire"
)

func TestNetRequest(t *testing.T) {
	at := netip.MustParseAddrPort("127.64.0.1:53")
	for _, want := range []wire.NetRequest{
		{Op: wire.NetDial, Address: at},
		{Op: wire.NetDial, Address: netip.MustParseAddrPort("[::1]:8080")},
		{Op: wire.NetListen, Address: at, Listener: 1 << 40},
		{Op: wire.NetListen, Path: "/tmp/agent", Listener: 3},
		{Op: wire.NetAccept, Listener: 3},
		{Op: wire.NetPacket, Address: at},
	} {
		b := (&wire.StartRequest{Network: &want}).Encode()
		if got := wire.NetOpOf(b); got != want.Op {
			t.Errorf("%+v: operation %d", want, got)
		}
		got, err := wire.ParseStart(b)
		if err != nil {
			t.Errorf("%+v: %v", want, err)
			continue
		}
		if diff := cmp.Diff(&want, got.Network, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
			t.Error(diff)
		}
		for cut := range len(b) {
			if _, err := wire.ParseStart(b[:cut]); !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("%+v, cut to %d bytes: %v", want, cut, err)
			}
		}
		if _, err := wire.ParseStart(append(b, 0)); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%+v, a byte more: %v", want, err)
		}
	}
	for name, bad := range map[string]wire.NetRequest{
		"no operation":        {Address: at},
		"unknown operation":   {Op: 200, Address: at},
		"dial nothing":        {Op: wire.NetDial},
		"listen nowhere":      {Op: wire.NetListen},
		"listen at two":       {Op: wire.NetListen, Address: at, Path: "/x"},
		"datagrams, no place": {Op: wire.NetPacket},
	} {
		if _, err := wire.ParseStart((&wire.StartRequest{Network: &bad}).Encode()); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%s: got %v, want wire.ErrProtocol", name, err)
		}
	}
	if op := wire.NetOpOf((&wire.StartRequest{Args: []string{"x"}}).Encode()); op != 0 {
		t.Errorf("a program: operation %d", op)
	}
}

func TestDatagram(t *testing.T) {
	peer := netip.MustParseAddrPort("127.0.0.1:4711")
	b := append(wire.AppendDatagram(nil, peer), "question"...)
	got, data, err := wire.ParseDatagram(b)
	if err != nil || got != peer || string(data) != "question" {
		t.Errorf(`wire.ParseDatagram: got %v, %q, %v; want %v, "question", nil`, got, data, err, peer)
	}
	for _, bad := range [][]byte{nil, b[:4], {0, 0, 0}, {1, 0, 5, 1, 2, 3, 4, 5}, {1, 0, 200}} {
		if _, _, err := wire.ParseDatagram(bad); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%v: got %v, want wire.ErrProtocol", bad, err)
		}
	}
}

func FuzzParseNetwork(f *testing.F) {
	f.Add(wire.AppendAddresses(nil, netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[::1]:2")))
	f.Add((&wire.StartRequest{Network: &wire.NetRequest{Op: wire.NetListen, Path: "/x", Listener: 9}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if local, peer, err := wire.ParseAddresses(b); err == nil {
			again := wire.AppendAddresses(nil, local, peer)
			if l, p, err := wire.ParseAddresses(again); err != nil || l != local || p != peer {
				t.Errorf("wire.ParseAddresses: got local %v, peer %v, l %v, p %v, err %v; want err == nil and l == %v and p == %v",
					local, peer, l, p, err, local, peer)
			}
		}
		_, _, _ = wire.ParseDatagram(b)
		if req, err := wire.ParseStart(b); err == nil && (req.Network != nil) != (wire.NetOpOf(b) != 0) {
			t.Error("NetOpOf and ParseStart differ")
		}
	})
}
