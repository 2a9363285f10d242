package bwrap_test

import (
	"testing"

	"wolffia/session/sessiontest"
)

func TestSessions(t *testing.T) {
	need(t)
	sessiontest.Run(t, backend.Sessions(backend.Fresh))
}

func BenchmarkSessions(b *testing.B) {
	need(b)
	sessiontest.Bench(b, backend.Sessions(backend.Fresh))
}
