package guest

import (
	"errors"
	"fmt"

	"wolffia/wire"
)

// maxParts bounds the bytes of all start requests that have arrived in part.
const maxParts = 8 * wire.MaxStart

var errManyParts = errors.New("too many large requests at the same time: retry when others have started, or pass large data by standard input or in a file")

// parts are the start requests that have arrived in part, by channel. Each of many clients
// may be sending one; what does not fit is refused when its last piece has come, since
// until then its channel would be taken for a new one's.
type parts struct {
	of   map[uint32]*part
	size int // bytes of all
}

type part struct {
	data    []byte
	refused error
}

// begun reports whether a part of a channel's request has arrived.
func (p *parts) begun(channel uint32) bool { return p.of[channel] != nil }

func (p *parts) add(channel uint32, piece []byte) {
	if p.of == nil {
		p.of = map[uint32]*part{}
	}
	one := p.of[channel]
	if one == nil {
		one = new(part)
		p.of[channel] = one
	}
	switch {
	case one.refused != nil:
		return
	case len(one.data)+len(piece) > wire.MaxStart:
		one.refused = fmt.Errorf("start request is longer than %d bytes", wire.MaxStart)
	case p.size+len(piece) > maxParts:
		one.refused = errManyParts
	default:
		one.data = append(one.data, piece...)
		p.size += len(piece)
		return
	}
	p.size -= len(one.data)
	one.data = nil
}

// remove returns a request that has begun, and removes it.
func (p *parts) remove(channel uint32) ([]byte, error) {
	one := p.of[channel]
	delete(p.of, channel)
	p.size -= len(one.data)
	return one.data, one.refused
}
