package guest

import (
	"encoding/json"
	"os"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// makeSockets makes sockets and hands their descriptors to the host, by the unix socket at path, until the host
// closes that, or the channel c, over which no bytes go, is killed.
func (n *network) makeSockets(c *connection, path string) {
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
