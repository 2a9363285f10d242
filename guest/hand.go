package guest

import (
	"encoding/json"
	"os"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// A socketMaker is the handler of a channel of wire.NetHand, over which no bytes go: it makes sockets
// and hands their descriptors to the host.
type socketMaker struct{ *connection }

// run serves the unix socket at path until the host closes it, or the channel is killed.
func (h *socketMaker) run(path string) {
	conn, err := rawsock.DialPackets(path)
	if err != nil {
		h.finish(err)
		return
	}
	h.mu.Lock()
	if h.socket = conn; h.killed {
		h.linger()
	}
	h.mu.Unlock()
	local, _ := rawsock.Addresses(conn)
	_ = h.n.w.Send(wire.Started, h.channel, wire.AppendAddresses(nil, local, local))
	for err == nil {
		err = answer(conn)
	}
	_ = conn.Close()
	h.finish(nil)
}

// answer answers one request. An error ends the connection.
func answer(conn *os.File) error {
	request := make([]byte, wire.MaxHand)
	n, err := conn.Read(request) // io.EOF: the host has closed it
	if err != nil {
		return err
	}
	kind, at, err := wire.ParseHand(request[:n])
	if err != nil {
		return err
	}
	socket, err := rawsock.Open(rawsock.Kind(kind), at)
	if err != nil {
		b, err := json.Marshal(netFailure(err))
		if err != nil {
			return err
		}
		_, err = conn.Write(b)
		return err
	}
	defer socket.Close() // the host has it then
	return rawsock.SendFile(conn, socket)
}
