package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// insideCommand begins the arguments of this program as one end of a connection that is
// measured.
const insideCommand = "inside"

// A speed is what measure finds.
type speed struct {
	Down, Up float64 // MB/s
	Connects times   // to connect, and send and receive a byte
}

// Requests of measure to serve: a byte, and a size.
const (
	askDown = 'd' // the server sends so many bytes
	askUp   = 'u' // the server receives so many bytes, then sends one
	askByte = 'b' // the server sends one
)

// inside measures the way to a server ("measure ADDRESS", ADDRESS with a name), is one ("serve
// ADDRESS"), or both ("loop"). "wait" before them prints a line, then waits for one.
func inside(args []string) error {
	if args[0] == "wait" {
		fmt.Println("waits")
		if _, err := io.ReadAll(os.Stdin); err != nil {
			return err
		}
		args = args[1:]
	}
	switch args[0] {
	case "serve":
		l, err := net.Listen("tcp", args[1])
		if err != nil {
			return err
		}
		fmt.Println("serves")
		return serve(l)
	case "loop":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() { _ = serve(l) }()
		return measured(l.Addr().String())
	case "measure":
		return measured(args[1])
	}
	return fmt.Errorf("%q: not a command", args[0])
}

// measured prints what measure finds.
func measured(address string) error {
	s, err := measure(address)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// serve serves until the listener is closed.
func serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = answer(c)
		}()
	}
}

// zeros is what is sent.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// sink is where it goes, with a buffer of its own.
type sink struct{}

func (sink) Write(b []byte) (int, error) { return len(b), nil }

const chunk = 256 << 10

func answer(c net.Conn) error {
	var request [9]byte
	if _, err := io.ReadFull(c, request[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint64(request[1:]))
	var err error
	switch request[0] {
	case askDown:
		err = pump(c, zeros{}, size)
	case askUp:
		err = pump(sink{}, c, size)
	}
	if err == nil && request[0] != askDown {
		_, err = c.Write([]byte{0})
	}
	return err
}

// pump moves size bytes through a buffer, as programs do.
func pump(w io.Writer, r io.Reader, size int64) error {
	// Without the methods by which io.Copy has the kernel do it.
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{io.LimitReader(r, size)}, make([]byte, chunk))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// measure measures the way to a server. A name is resolved once.
func measure(address string) (*speed, error) {
	const (
		little   = 64 << 20
		much     = 512 << 20
		connects = 300
		warm     = 20
	)
	var to *net.TCPAddr
	for end := time.Now().Add(10 * time.Second); ; { // the way may not be there yet
		c, err := net.Dial("tcp", address)
		if err == nil {
			to = c.RemoteAddr().(*net.TCPAddr)
			_ = c.Close()
			break
		}
		if time.Now().After(end) {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	one := func(what byte, size int64) (d time.Duration, err error) {
		begin := time.Now()
		c, err := net.DialTCP("tcp", nil, to)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		if _, err := c.Write(binary.BigEndian.AppendUint64([]byte{what}, uint64(size))); err != nil {
			return 0, err
		}
		switch what {
		case askDown:
			err = pump(sink{}, c, size)
		case askUp:
			err = pump(c, zeros{}, size)
		}
		if err == nil && what != askDown {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return time.Since(begin), err
	}
	s := new(speed)
	for i := range connects + warm {
		d, err := one(askByte, 0)
		if err != nil {
			return nil, err
		}
		if i >= warm {
			s.Connects = append(s.Connects, d)
		}
	}
	for what, to := range map[byte]*float64{askDown: &s.Down, askUp: &s.Up} {
		for _, size := range []int64{little, much} { // the second one for what is fast
			d, err := one(what, size)
			if err != nil {
				return nil, err
			}
			if *to = float64(size) / 1e6 / d.Seconds(); d > time.Second/4 {
				break
			}
		}
	}
	return s, nil
}
