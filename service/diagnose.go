package service

import (
	"context"
	"errors"
	"io"

	"wolffia/runtime"
)

// MaxDiagnosis is the largest text of a diagnosis, in bytes.
const MaxDiagnosis = 1 << 20

// maxDenials is how many denials Denials returns at most.
const maxDenials = 1000

// Denials returns what the rules and the network have denied to a sandbox last, oldest first.
func (s *Service) Denials(ctx context.Context, caller Caller, id string) ([]Denied, error) {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return nil, err
	}
	list, _, err := newest(ctx, s.rt, id, maxDenials)
	return list, err
}

// RuntimeLog returns the end of the log of the processes that a sandbox has on the host; more says
// that there is more. The content is hostile. It names directories of the host, so that only a
// caller with All gets it; for others it is [runtime.ErrDenied].
func (s *Service) RuntimeLog(ctx context.Context, caller Caller, id string) (text []byte, more bool, err error) {
	if _, err := s.Get(ctx, caller, id); err != nil {
		return nil, false, err
	}
	if !caller.All {
		return nil, false, runtime.Errorf(runtime.ErrDenied, "the log of the sandbox's processes on the host is for keys without an owner")
	}
	log, err := s.rt.Log(id)
	if err != nil {
		return nil, false, err
	}
	defer log.Close()
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	begin := max(0, end-MaxDiagnosis)
	text, err = io.ReadAll(io.NewSectionReader(log, begin, end-begin))
	return text, begin > 0, err
}

// EntrypointLog returns the end of the output of a running sandbox's entrypoint; more says that
// there is more, or was. Without an entrypoint it is empty.
func (i *Inside) EntrypointLog(ctx context.Context) (text []byte, more bool, err error) {
	text, _, dropped, err := i.Logs(ctx, entrypointJob, 0)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil, false, nil
	}
	if n := len(text) - MaxDiagnosis; n > 0 {
		return text[n:], true, err
	}
	return text, dropped > 0, err
}
