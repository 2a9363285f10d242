package runtime

import (
	"context"
	"encoding/json"
	"io"
)

// MaxKeep is the largest [Command].Keep, in bytes.
const MaxKeep = 16 << 10

// A KeptProcess is a process whose caller has gone, or was in the sandbox that this one is a copy
// of.
type KeptProcess struct {
	PID  int    `json:"pid"` // inside
	Keep string `json:"label"`
}

// ListKept, as [Command].Adopt, has StartProcess return the list of Kept on Stdout, as JSON.
const ListKept = -1

// maxList bounds the list of kept processes, in bytes: it comes from the sandbox.
const maxList = 1 << 20

// Kept returns the processes of a sandbox that were started with [Command].Keep, run and have no
// caller, in no order.
func Kept(ctx context.Context, e Executor, sandboxID string) (all []KeptProcess, err error) {
	p, err := e.StartProcess(ctx, sandboxID, &Command{Adopt: ListKept})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	text, err := io.ReadAll(io.LimitReader(p.Stdout(), maxList))
	if err == nil {
		_, err = p.Wait(ctx)
	}
	if err == nil && json.Unmarshal(text, &all) != nil {
		err = Errorf(ErrUnavailable, "sandbox %s: its list of kept processes is damaged", sandboxID)
	}
	return all, err
}
