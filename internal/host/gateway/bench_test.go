package gateway

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"wolffia/network"
)

// benchWorld is a gateway whose connections are TCP sockets at both ends, as those of a sandbox in
// the kernel's namespaces are, beside a server on the loopback: straight is its address, through
// the one inside.
func benchWorld(b *testing.B, serve func(net.Conn)) (straight, through string) {
	b.Helper()
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Close() })
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	free, err := net.Listen("tcp4", "0.0.0.0:0") // the port inside is the server's: two addresses, one port
	if err != nil {
		b.Fatal(err)
	}
	port := addrPort(free.Addr()).Port()
	_ = free.Close()
	rule := "server.example:" + portText(port)
	w := newWorld(b, network.Policy{Allow: []string{rule}, Hosts: map[string]string{"server.example": "127.0.0.1"}}, func(o *Options) {
		o.Network = &loop{ports: map[uint16]uint16{}, plain: true}
	})
	real := server.Addr().String()
	w.servers[netip.MustParseAddrPort(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())] = real
	entry := w.g.names.assign("server.example", true)
	w.g.listenFor(entry)
	return real, netip.AddrPortFrom(entry.addr, port).String()
}

// both runs a benchmark on a plain connection of the loopback, and on one through the gateway.
func both(b *testing.B, serve func(net.Conn), run func(b *testing.B, addr string)) {
	straight, through := benchWorld(b, serve)
	b.Run("plain", func(b *testing.B) { run(b, straight) })
	b.Run("gateway", func(b *testing.B) { run(b, through) })
}

// BenchmarkThroughput: bytes from a server to a client.
func BenchmarkThroughput(b *testing.B) {
	const size = 64 << 20
	chunk := make([]byte, 256<<10)
	both(b, func(c net.Conn) {
		for {
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				return
			}
			for range size / len(chunk) {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
		}
	}, func(b *testing.B, addr string) {
		c, err := net.Dial("tcp4", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		buf := make([]byte, 256<<10)
		b.SetBytes(size)
		for b.Loop() {
			if _, err := c.Write([]byte{1}); err != nil {
				b.Fatal(err)
			}
			for left := size; left > 0; {
				n, err := c.Read(buf)
				if err != nil {
					b.Fatal(err)
				}
				left -= n
			}
		}
	})
}

// BenchmarkConnect: a connection, one byte there and back, and its end.
func BenchmarkConnect(b *testing.B) {
	both(b, func(c net.Conn) { _, _ = io.Copy(c, c) }, func(b *testing.B, addr string) {
		buf := make([]byte, 1)
		for b.Loop() {
			c, err := net.Dial("tcp4", addr)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
			_ = c.Close()
		}
	})
}

// BenchmarkManyStreams: as Throughput, with several connections at once.
func BenchmarkManyStreams(b *testing.B) {
	const size, streams = 16 << 20, 8
	chunk := make([]byte, 256<<10)
	both(b, func(c net.Conn) {
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}, func(b *testing.B, addr string) {
		b.SetBytes(size * streams)
		for b.Loop() {
			var running sync.WaitGroup
			for range streams {
				running.Go(func() {
					c, err := net.Dial("tcp4", addr)
					if err != nil {
						b.Error(err)
						return
					}
					defer c.Close()
					if n, err := io.Copy(io.Discard, c); n != size {
						b.Error(n, err)
					}
				})
			}
			running.Wait()
		}
	})
}

// BenchmarkHostAddresses: what each connection to a name that the host resolves costs beside.
func BenchmarkHostAddresses(b *testing.B) {
	for b.Loop() {
		if _, err := hostAddresses(); err != nil {
			b.Fatal(err)
		}
	}
}
