package bwrap_test

import (
	"testing"

	"wolffia/runtime"
	"wolffia/session/sessiontest"
)

func sessions() sessiontest.Config {
	return sessiontest.Config{
		New: func(t testing.TB) runtime.RuntimeWithExecutor { return backend.Fresh(t) },
		Reopen: func(t testing.TB, rt runtime.RuntimeWithSession) runtime.RuntimeWithSession {
			return backend.Reopen(t, rt)
		},
	}
}

func TestSessions(t *testing.T) {
	need(t)
	sessiontest.Run(t, sessions())
}

func BenchmarkSessions(b *testing.B) {
	need(b)
	sessiontest.Bench(b, sessions())
}
