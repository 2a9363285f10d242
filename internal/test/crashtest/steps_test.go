package crashtest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/runtime"
)

// stepsVariable is package step's, which has it only with the tag.
const stepsVariable = "WOLFFIA_CRASHTEST_STEPS"

// A moment is a step to which a process has come, for the nth time in its round.
type moment struct {
	role string // caller, shim, tree, keep
	name string
	nth  int
}

func (m moment) String() string { return fmt.Sprintf("%s/%s/%d", m.role, m.name, m.nth) }

// An arrival is a process that waits at a moment until it is let go.
type arrival struct {
	moment
	sandbox string // empty: a caller's
	conn    net.Conn
}

func (a *arrival) release() { _ = a.conn.Close() }

// Steps is where processes wait: they come in one after the other, and are let
// go at once but for those that somebody wants.
type steps struct {
	listener *net.UnixListener

	mu    sync.Mutex
	wants func(*arrival) bool // nil: none is wanted; guarded by mu
	count map[moment]int      // with nth 0; guarded by mu
	held  chan *arrival
}

func newSteps(t testing.TB) *steps {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@wolffia-crashtest-%d-%s", os.Getpid(), runtime.NewID())})
	if err != nil {
		t.Fatal(err)
	}
	s := &steps{listener: l, held: make(chan *arrival, 1024)}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.meet(conn) // ends with the line, or its limit
		}
	}()
	return s
}

// env is what a process needs to come here.
func (s *steps) env() string {
	return stepsVariable + "=" + strings.TrimPrefix(s.listener.Addr().String(), "@")
}

// meet hears who has come to where.
func (s *steps) meet(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := bufio.NewReader(conn).ReadString('\n')
	f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if err != nil || len(f) == 0 {
		_ = conn.Close() // it was killed
		return
	}
	a := &arrival{moment: moment{role: "caller", name: f[len(f)-1]}, conn: conn}
	if len(f) == 3 && slices.Contains([]string{"shim", "tree", "usr", "keep"}, f[0]) {
		a.role = f[0]
		a.sandbox, _, _ = strings.Cut(f[1], "-")
	}
	s.mu.Lock()
	if s.wants == nil {
		s.mu.Unlock()
		a.release()
		return
	}
	s.count[a.moment]++
	a.nth = s.count[a.moment]
	wanted := s.wants(a)
	if wanted {
		s.held <- a // has room
	}
	s.mu.Unlock()
	if !wanted {
		a.release()
	}
}

// begin starts a round: arrivals that are wanted are sent to held, which the
// caller receives from until end, and releases.
func (s *steps) begin(wants func(*arrival) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wants, s.count = wants, map[moment]int{}
}

// end lets everybody go from now on.
func (s *steps) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wants = nil
	for { // those that no test has received
		select {
		case a := <-s.held:
			a.release()
		default:
			return
		}
	}
}
