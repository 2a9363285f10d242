package local

import (
	"encoding/json"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/wire"
)

// Rehearse has encoding/json make its tables for what a create, a start and a command encode and decode, which takes it a millisecond
// for the first time in a process. It does that beside the caller, who has other work before its first create, and returns at once.
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
