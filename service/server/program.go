package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"time"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// A programRequest asks for a program that runs beside the owner's shell.
type programRequest struct {
	ownerRequest
	Command   []string          `json:"command"` // the program and its arguments: no shell
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env"`
	User      string            `json:"user"`      // in a sandbox with root
	TimeoutMS int64             `json:"timeoutMs"` // 0: never
}

// asked returns the command of a request.
func (r *programRequest) asked() (*runtime.Command, error) {
	for k, v := range r.Env {
		if err := runtime.CheckVariable(k, v); err != nil {
			return nil, err
		}
	}
	timeout, err := timeoutOf(r.TimeoutMS)
	return &runtime.Command{Command: r.Command, Cwd: r.Cwd, Env: r.Env, User: r.User, Timeout: timeout}, err
}

type runRequest struct {
	programRequest
	Stdin *service.File `json:"stdin"` // absent: none
	// MaxBytes is how many bytes of each stream are kept, from its beginning; 0: 16 MiB.
	MaxBytes int `json:"maxBytes"`
}

func runCommand(ctx context.Context, i *service.Inside, r *runRequest) (any, error) {
	cmd, err := r.asked()
	if err != nil {
		return nil, err
	}
	if r.MaxBytes < 0 || r.MaxBytes > runtime.DefaultMaxOutput {
		return nil, runtime.Errorf(runtime.ErrInvalid, "maxBytes %d: it must be from 0 to %d", r.MaxBytes, runtime.DefaultMaxOutput)
	}
	cmd.MaxOutput = r.MaxBytes
	if r.Stdin != nil {
		if r.Stdin.Offset != nil {
			return nil, runtime.Errorf(runtime.ErrInvalid, "stdin: it has no offset")
		}
		input, err := r.Stdin.Bytes()
		if err != nil {
			return nil, err
		}
		cmd.Stdin = bytes.NewReader(input)
	}
	result, err := i.Exec(ctx, cmd)
	if failed, ok := errors.AsType[*runtime.StartError](err); ok {
		return &programReply{&runtime.Result{ExitCode: failed.Code}, failed.Message}, nil
	}
	return &programReply{result, ""}, err
}

// A programReply is the reply to runCommand. startError says why there was nothing to run; then the
// exit code is 125 to 127.
type programReply struct {
	result     *runtime.Result
	startError string
}

func (r *programReply) encode(w *bufio.Writer) error {
	return ops.WriteResult(w, nil, ops.WithoutHost(r.result), startNote{shellOf(r.result), r.startError})
}

// A startNote is what follows the result of a program.
type startNote struct {
	shellReply
	StartError string `json:"startError,omitempty"`
}

// A programEnd is a programReply without output.
type programEnd struct {
	endReply
	StartError string `json:"startError,omitempty"`
}

func streamCommand(ctx context.Context, i *service.Inside, r *programRequest) (any, error) {
	cmd, err := r.asked()
	return live(func(to *events) error {
		return sendOutput(to, func(stdout, stderr *output) (any, error) {
			result, err := i.ExecTo(ctx, cmd, stdout, stderr)
			if failed, ok := errors.AsType[*runtime.StartError](err); ok {
				return programEnd{endOf(&runtime.Result{ExitCode: failed.Code}), failed.Message}, nil
			}
			if err != nil {
				return nil, err
			}
			return programEnd{endReply: endOf(result)}, nil
		})
	}), err
}

// timeoutOf returns a timeout of ms.
func timeoutOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > maxTimeout {
		return 0, runtime.Errorf(runtime.ErrInvalid, "timeoutMs %d: out of range 0 to %d", ms, maxTimeout)
	}
	return time.Duration(ms) * time.Millisecond, nil
}
