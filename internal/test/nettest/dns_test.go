package nettest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver is the address of the name server that the namespace's resolv.conf names.
const resolver = "45.45.45.53"

// The addresses of the site, which plays a registry and everything else that is public.
const (
	site  = "45.45.45.10"
	site6 = "2600:45:45::10"
	// dead is a public address at which no server answers.
	dead = "45.45.45.99"
)

// hostile are names with addresses that a sandbox must not get by them. Where two are given,
// lookups get them in turn.
var hostile = map[string][]string{
	"loop":        {"127.0.0.1"},
	"loop2":       {"127.255.255.254"},
	"zero":        {"0.0.0.0"},
	"this":        {"0.0.0.1"},
	"ten":         {"10.1.2.3"},
	"sixteen":     {"172.16.1.1"},
	"home":        {"192.168.1.1"},
	"carrier":     {"100.64.0.1"},
	"link":        {"169.254.1.1"},
	"metadata":    {"169.254.169.254"},
	"metadata2":   {"100.100.100.200"},
	"metadata3":   {"168.63.129.16"},
	"benchmark":   {"198.18.0.1"},
	"documented":  {"203.0.113.1"},
	"protocol":    {"192.0.0.1"},
	"reserved":    {"240.0.0.1"},
	"broadcast":   {"255.255.255.255"},
	"multicast":   {"224.0.0.1"},
	"own":         {own},
	"gateway":     {"127.64.0.1"},
	"loop6":       {"::1"},
	"zero6":       {"::"},
	"ula":         {"fd00::1"},
	"metadata6":   {"fd00:ec2::254"},
	"link6":       {"fe80::1"},
	"site6local":  {"fec0::1"},
	"mapped":      {"::ffff:127.0.0.1"},
	"mapped10":    {"::ffff:10.1.2.3"},
	"compatible":  {"::127.0.0.1"},
	"nat64":       {"64:ff9b::7f00:1"},
	"nat64meta":   {"64:ff9b::a9fe:a9fe"},
	"sixtofour":   {"2002:7f00:1::1"},
	"teredo":      {"2001::1"},
	"documented6": {"2001:db8::1"},
	"discard":     {"100::1"},
	"multicast6":  {"ff02::1"},
}

// A nameServer answers for the zone "example" and records the questions.
type nameServer struct {
	mu     sync.Mutex
	asked  []string // names without final dot
	rebind int      // how many answers for rebind.* there were
}

// serveNames serves until the end of the test.
func serveNames(t *testing.T) *nameServer {
	t.Helper()
	s := new(nameServer)
	pc, err := net.ListenPacket("udp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(resolver, "53"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pc.Close(), l.Close() })
	go func() {
		for buf := make([]byte, 4096); ; {
			n, from, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			} else if err == nil {
				if answer := s.answer(buf[:n]); answer != nil {
					_, _ = pc.WriteTo(answer, from)
				}
			}
		}
	}()
	go accept(l, func(c net.Conn) {
		for {
			var head [2]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			msg := make([]byte, binary.BigEndian.Uint16(head[:]))
			if _, err := io.ReadFull(c, msg); err != nil {
				return
			}
			answer := s.answer(msg)
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
				return
			}
		}
	})
	return s
}

// accept serves each connection until the listener is closed.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Minute)) // a guard against a hang
			serve(c)
		}()
	}
}

// questions returns the names that were asked for and that match.
func (s *nameServer) questions(match func(name string) bool) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.asked {
		if match(name) {
			found = append(found, name)
		}
	}
	return found
}

// answer answers one message, nil if it is none.
func (s *nameServer) answer(msg []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(msg)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	alias, addresses, known := s.lookup(name, q.Type)
	reply := dnsmessage.Header{ID: head.ID, Response: true, Authoritative: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, reply)
	err = errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	owner := q.Name
	if alias != "" {
		target := dnsmessage.MustNewName(alias + ".")
		err = errors.Join(err, b.CNAMEResource(dnsmessage.ResourceHeader{Name: owner, Class: q.Class}, dnsmessage.CNAMEResource{CNAME: target}))
		owner = target
	}
	for _, text := range addresses {
		a := netip.MustParseAddr(text)
		h := dnsmessage.ResourceHeader{Name: owner, Class: q.Class}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			err = errors.Join(err, b.AResource(h, dnsmessage.AResource{A: a.As4()}))
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			err = errors.Join(err, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	out, ferr := b.Finish()
	if errors.Join(err, ferr) != nil {
		return nil
	}
	return out
}

// lookup returns what the zone has for a name. Below ok.example and no.example the first label
// says what; sandboxes are allowed the former.
func (s *nameServer) lookup(name string, kind dnsmessage.Type) (alias string, addresses []string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, name)
	labels := strings.Split(name, ".")
	if len(labels) < 3 || !slices.Contains([]string{"ok", "no"}, labels[len(labels)-2]) || labels[len(labels)-1] != "example" {
		return "", nil, false
	}
	switch first := labels[0]; first {
	case "alias":
		return "target.no.example", []string{site}, true
	case "aliasloop":
		return "localhost.no.example", []string{"127.0.0.1"}, true
	case "six":
		return "", []string{site6}, true
	case "two": // the first one does not answer
		return "", []string{dead, site}, true
	case "dead":
		return "", []string{dead}, true
	case "mixed":
		return "", []string{"10.1.2.3", site}, true
	case "empty":
		return "", nil, true
	case "missing":
		return "", nil, false
	case "rebind": // public, then loopback, in turn
		if kind != dnsmessage.TypeA {
			return "", nil, true
		}
		s.rebind++
		if s.rebind%2 == 0 {
			return "", []string{"127.0.0.1"}, true
		}
		return "", []string{site}, true
	default:
		if a, is := hostile[first]; is {
			return "", a, true
		}
		return "", []string{site}, true
	}
}
