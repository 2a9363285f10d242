package session_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"wolffia/wire"
	"wolffia/wire/client"
)

func benchmark(b *testing.B, text string, bytes int64) {
	s := open(b, "bash")
	var took []time.Duration
	b.SetBytes(bytes)
	for b.Loop() {
		begin := time.Now()
		p, err := s.conn.Start(&client.Request{
			StartRequest: wire.StartRequest{Args: []string{text}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name}},
			OnStdout:     func([]byte) {}, OnStderr: func([]byte) {},
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(took[0].Microseconds()), "min-us")
}

func BenchmarkBuiltin(b *testing.B)  { benchmark(b, ":", 0) }
func BenchmarkProgram(b *testing.B)  { benchmark(b, "/bin/true", 0) }
func BenchmarkGigabyte(b *testing.B) { benchmark(b, "head -c 1000000000 /dev/zero", 1e9) }

func BenchmarkForkExec(b *testing.B) {
	conn := connect(b)
	for b.Loop() {
		p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"/bin/true"}, Env: os.Environ()}, OnStdout: func([]byte) {}, OnStderr: func([]byte) {}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
