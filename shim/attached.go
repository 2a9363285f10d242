package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// receiveAttached waits until the keeper has started PID 1 in its engine, and receives
// the connection to it and, if the shim has a use for it, the directory of launch.HandPath.
func (s *shim) receiveAttached() (*launch.Spec, error) {
	s.step("start it in the engine")
	keeper := os.NewFile(boot.FDKept, "keeper")
	packet, stream, err := boot.ReceivePacket(keeper, make([]byte, boot.MaxPacket))
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "receive the connection to the sandbox from the keeper: %w", err)
	}
	if stream == nil {
		return nil, cmp.Or(keeperError(packet), runtime.Errorf(runtime.ErrUnavailable, "the keeper has ended"))
	}
	if rootfs.Reached(&s.boot.Config.SandboxConfig) {
		if _, s.net.dir, err = boot.ReceivePacket(keeper, make([]byte, boot.MaxPacket)); s.net.dir == nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "receive the directory of the sandbox's sockets from the keeper: %w", cmp.Or(err, io.ErrUnexpectedEOF))
		}
	}
	return &launch.Spec{ID: s.boot.ID, Config: &s.boot.Config.SandboxConfig, Attached: &launch.Attached{
		Stream: stream,
		Wait: func() error {
			packet, file, err := boot.ReceivePacket(keeper, make([]byte, boot.MaxPacket))
			_ = file.Close()
			if err == nil {
				err = keeperError(packet)
			}
			return err
		},
		Kill: func() error {
			err := boot.SendPacket(keeper, struct{}{}, nil)
			if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EAGAIN) {
				return nil // it has ended, or has more such requests than fit into the socket
			}
			return err
		},
	}}, nil
}

// keeperError returns the error in the keeper's last packet; nil if it has ended as it
// should.
func keeperError(packet []byte) error {
	var last boot.Report
	switch {
	case len(packet) == 0:
		return runtime.Errorf(runtime.ErrUnavailable, "the keeper ended without a report: see wolffia logs")
	case json.Unmarshal(packet, &last) == nil && last.Ready && last.Error == "":
		return nil
	case last.Error == "":
		return runtime.Errorf(runtime.ErrUnavailable, "the keeper sent a report that is not valid")
	}
	return last.Err()
}
