package gateway

import (
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// ttl is how many seconds an answer may be kept. A name keeps its address, but the policy may
// change.
const ttl = 10

// Types of records that ask for the endpoints of a name. Package dnsmessage lacks the last two.
const (
	typeSVCB  dnsmessage.Type = 64
	typeHTTPS dnsmessage.Type = 65
)

// A reply is the decision on a question of DNS.
type reply struct {
	code dnsmessage.RCode
	addr netip.Addr // of IPv4; invalid: no record
}

// answer returns the answer to a query of DNS, and nil for bytes that are not a query. decide gets
// the name with final dot, in the query's spelling. The answer has at most 512 bytes.
func answer(query []byte, decide func(name string, kind dnsmessage.Type) reply) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil || header.Response {
		return nil
	}
	if header.OpCode != 0 {
		return build(header, nil, reply{code: dnsmessage.RCodeNotImplemented})
	}
	q, err := p.Question()
	if err != nil {
		return build(header, nil, reply{code: dnsmessage.RCodeFormatError})
	}
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone { // the package returns it as it is
		return build(header, nil, reply{code: dnsmessage.RCodeFormatError})
	}
	if q.Class != dnsmessage.ClassINET {
		return build(header, &q, reply{code: dnsmessage.RCodeRefused})
	}
	return build(header, &q, decide(q.Name.String(), q.Type))
}

// build returns a message that answers one with the header.
func build(to dnsmessage.Header, q *dnsmessage.Question, r reply) []byte {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: to.ID, Response: true, OpCode: to.OpCode, RecursionDesired: to.RecursionDesired,
		RecursionAvailable: true, RCode: r.code,
	})
	b.EnableCompression()
	if q != nil {
		if b.StartQuestions() != nil || b.Question(*q) != nil {
			return nil
		}
		if r.addr.Is4() {
			head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
			if b.StartAnswers() != nil || b.AResource(head, dnsmessage.AResource{A: r.addr.As4()}) != nil {
				return nil
			}
		}
	}
	message, err := b.Finish()
	if err != nil {
		return nil
	}
	return message
}
