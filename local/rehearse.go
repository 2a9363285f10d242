package local

import (
	"encoding/json"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/wire"
)

// Rehearse is for a process that is about to create its only sandbox, and has other work before that: it has encoding/json make its
// tables for what a create, a start and a command encode and decode, which takes it a millisecond for the first time. It returns at
// once, and does that in the background.
func Rehearse() {
	go func() { // ends by itself
		for _, v := range []any{&boot.SpareRequest{Config: &statedir.Config{}}, &boot.Params{}, &boot.Request{}} {
			_, _ = json.Marshal(v)
		}
		for _, v := range []any{&boot.Report{}, &boot.Reply{}, &wire.ExitStatus{}} {
			_ = json.Unmarshal([]byte("{}"), v)
		}
	}()
}
