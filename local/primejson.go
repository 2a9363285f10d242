package local

import (
	"encoding/json"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/wire"
)

// PrimeJSON has encoding/json make its tables for what a create, a start and a command encode and
// decode. Made at first use, they take a millisecond. It is for a process that has other work
// before it creates its only sandbox. It returns at once, and works in the background.
func PrimeJSON() {
	go primeJSON( // ends by itself
		[]any{&boot.PooledRequest{Config: &statedir.Config{}}, &boot.Params{}, &boot.Request{}},
		[]any{&boot.Report{}, &boot.Reply{}, &wire.ExitStatus{}},
	)
}

// PrimeJSONForUse is PrimeJSON for a process that uses a sandbox that exists. It saves a third of
// a millisecond.
func PrimeJSONForUse() {
	go primeJSON( // ends by itself
		[]any{&boot.Request{}, &wire.StartRequest{}},
		[]any{&statedir.Config{}, &boot.Reply{}, &wire.ExitStatus{}},
	)
}

// primeJSON decodes and encodes values of these types, the decoded first.
func primeJSON(encoded, decoded []any) {
	for _, v := range decoded {
		_ = json.Unmarshal([]byte("{}"), v)
	}
	for _, v := range encoded {
		_, _ = json.Marshal(v)
	}
}
