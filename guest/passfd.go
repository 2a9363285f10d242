package guest

import (
	"encoding/json"
	"os"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// passSockets makes sockets and passes their descriptors to the host over the unix socket at path.
// It ends when the host closes that socket or kills the channel c, which carries no bytes.
func (n *network) passSockets(c *connection, path string) {
	conn, err := rawsock.DialPackets(path)
	if err != nil {
		c.finish(err)
		return
	}
	c.mu.Lock()
	if c.socket = conn; c.killed {
		c.linger()
	}
	c.mu.Unlock()
	local, _ := rawsock.Addresses(conn)
	_ = n.w.Send(wire.Started, c.channel, wire.AppendAddresses(nil, local, local))
	for err == nil {
		err = answer(conn)
	}
	_ = conn.Close()
	c.finish(nil)
}

// answer answers one request. An error ends the connection.
func answer(conn *os.File) error {
	request := make([]byte, wire.MaxFDPacket)
	n, err := conn.Read(request) // io.EOF: the host has closed the socket
	if err != nil {
		return err
	}
	kind, at, err := wire.ParseFDRequest(request[:n])
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
	defer socket.Close() // the host has its own descriptor then
	return rawsock.SendFile(conn, socket)
}
