package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// receiveKept waits until the keeper has started PID 1 in its engine, and has
// the connection to it sent.
func (s *shim) receiveKept() (*launch.Spec, error) {
	s.step("start it in the engine")
	socket := os.NewFile(boot.FDKept, "keeper")
	packet, stream, err := boot.ReceivePacket(socket, make([]byte, boot.MaxPacket))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "hear from the keeper: %w", err)
	}
	if stream == nil {
		return nil, cmp.Or(keeperError(packet), error(runtime.Errorf(runtime.ErrUnavailable, "the keeper has ended")))
	}
	s.keeper = socket
	kept := &launch.Attached{
		Stream: stream,
		Wait: func() error {
			packet, file, err := boot.ReceivePacket(socket, make([]byte, boot.MaxPacket))
			_ = boot.CloseFile(file)
			if err == nil {
				err = keeperError(packet)
			}
			return err
		},
		Kill: func() error { return askKeeper(socket) },
	}
	return &launch.Spec{ID: s.boot.ID, Config: &s.boot.Config.SandboxConfig, Attached: kept}, nil
}

// keeperError is why a keeper has ended; nil if it has ended as it should.
func keeperError(packet []byte) error {
	var why boot.Report
	switch {
	case len(packet) == 0:
		return runtime.Errorf(runtime.ErrUnavailable, "the keeper ended without a word: see wolffia logs")
	case json.Unmarshal(packet, &why) == nil && why.Ready && why.Error == "":
		return nil
	case why.Error == "":
		return runtime.Errorf(runtime.ErrUnavailable, "the keeper says nonsense")
	}
	return why.Err()
}

// askKeeper asks for the end of the sandbox. A keeper that is gone has seen to
// it.
func askKeeper(socket *os.File) error {
	err := boot.SendPacket(socket, struct{}{}, nil)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EAGAIN) {
		return nil // gone, or asked so often already that it knows
	}
	return err
}
