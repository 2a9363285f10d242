package runtimetest

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

// Bench measures what a user waits for:
//
//	Cycle          create, start, first command, destroy; with and without a codebase
//	Exec           one command in a sandbox that runs
//	Output         1 GB of output
//	Creates        100 sandboxes created and started at once
func Bench(b *testing.B, c Config) {
	b.Run("Cycle", func(b *testing.B) { benchCycle(newEnv(b, &c), b, func(*env) *runtime.SandboxConfig { return nil }) })
	b.Run("CycleCodebase", func(b *testing.B) {
		benchCycle(newEnv(b, &c), b, func(e *env) *runtime.SandboxConfig { return e.open(e.dir()) })
	})
	b.Run("Exec", func(b *testing.B) { benchExec(newEnv(b, &c), b) })
	b.Run("Output", func(b *testing.B) { benchOutput(newEnv(b, &c), b) })
	b.Run("Creates", func(b *testing.B) { benchCreates(newEnv(b, &c), b) })
}

// A series is how long each of many things took.
type series []time.Duration

// report names the median and the 99th percentile, in microseconds.
func (s series) report(b *testing.B, what string) {
	slices.Sort(s)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(s[(len(s)-1)*p/100].Nanoseconds())/1e3, fmt.Sprintf("%s-p%d-us", what, p))
	}
}

func benchCycle(e *env, b *testing.B, config func(*env) *runtime.SandboxConfig) {
	c := config(e)
	var ready, gone series
	for b.Loop() {
		begin := time.Now()
		s := e.create(c)
		e.OK(e.rt.Start(e.Ctx, s.ID))
		if r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"true"}}); r.ExitCode != 0 {
			b.Fatalf("exec: got r %+v; want r.ExitCode == 0", r)
		}
		ready = append(ready, time.Since(begin))
		begin = time.Now()
		e.OK(e.rt.Destroy(e.Ctx, s.ID))
		gone = append(gone, time.Since(begin))
	}
	ready.report(b, "ready")
	gone.report(b, "destroy")
}

func benchExec(e *env, b *testing.B) {
	id := e.start(nil).ID
	var took series
	for b.Loop() {
		begin := time.Now()
		e.exec(id, &runtime.ExecRequest{Command: []string{"true"}})
		took = append(took, time.Since(begin))
	}
	took.report(b, "exec")
}

func benchOutput(e *env, b *testing.B) {
	const size = 1 << 30
	id := e.start(nil).ID
	b.SetBytes(size) // MB/s
	for b.Loop() {
		p, err := e.rt.StartProcess(e.Ctx, id, &runtime.Command{Command: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}})
		e.OK(err)
		if n, err := io.Copy(io.Discard, p.Stdout()); n != size || err != nil {
			b.Fatalf("%d bytes, %v", n, err)
		}
		e.wait(p)
		e.OK(p.Close())
	}
}

func benchCreates(e *env, b *testing.B) {
	const n = 100
	for b.Loop() {
		begin := time.Now()
		for _, err := range suite.AtOnce(n, func(int) error {
			s, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{})
			if err != nil {
				return err
			}
			return e.rt.Start(e.Ctx, s.ID)
		}) {
			e.OK(err)
		}
		b.ReportMetric(time.Since(begin).Seconds()*1e3, "100-creates-ms")
		b.StopTimer()
		for _, s := range e.list() {
			e.OK(e.rt.Destroy(e.Ctx, s.ID))
		}
		b.StartTimer()
	}
}
