package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"wolffia/runtime"
)

// floodSize is the output that is measured, in bytes.
const floodSize = 1 << 30

// floodText prints it.
var floodText = fmt.Sprintf("head -c %d /dev/zero", floodSize)

// flood measures output beside that of a local cat, turn by turn, and what the shim keeps of it.
func (b *bench) flood() error {
	const rounds = 5
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	s, err := b.rt.CreateSession(b.ctx, id, nil)
	if err != nil {
		return err
	}
	ways := []struct {
		name string
		run  func() (int64, error)
	}{
		{"cat through a pipe", catFlood},
		{"Go API", func() (int64, error) {
			return b.processFlood(id, &runtime.Command{Command: []string{"sh", "-c", floodText}})
		}},
		{"session, Go API", func() (int64, error) {
			return b.processFlood(id, &runtime.Command{Command: []string{floodText}, Session: s.Name})
		}},
		{"session, SessionExecStream", func() (int64, error) { return b.pieceFlood(s.ID) }},
	}
	took := make([]times, len(ways))
	for range rounds {
		for i, way := range ways {
			begin := time.Now()
			n, err := way.run()
			if err == nil && n != floodSize {
				err = fmt.Errorf("%d bytes instead of %d", n, floodSize)
			}
			if err != nil {
				return fmt.Errorf("1 GiB of output, %s: %w", way.name, err)
			}
			took[i] = append(took[i], time.Since(begin))
		}
	}
	for i, way := range ways {
		slices.Sort(took[i])
		bar := ""
		if i > 0 {
			bar = fmt.Sprintf(">= 60%% of cat: %.0f%%", 100*took[0].at(0.5).Seconds()/took[i].at(0.5).Seconds())
		}
		speed := func(d time.Duration) string { return fmt.Sprintf("%.0f MB/s", floodSize/1e6/d.Seconds()) }
		fmt.Fprintf(b.table, "1 GiB of output, %s\t%s\t%s\t%s\t%s\t\n", way.name, speed(took[i][0]), speed(took[i].at(0.5)), speed(took[i].at(0.99)), bar)
	}
	rss, err := memory(id)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.table, "  memory after it, all processes of the sandbox\t\t%.1f MB PSS\t\tflat\t\n", rss)
	return nil
}

// catFlood reads the output from a local cat.
func catFlood() (int64, error) {
	cat := exec.Command("sh", "-c", floodText+" | cat")
	out, err := cat.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cat.Start(); err != nil {
		return 0, err
	}
	n, err := io.CopyBuffer(sink{}, struct{ io.Reader }{out}, make([]byte, chunk))
	return n, errors.Join(err, cat.Wait())
}

// processFlood reads the output from a process's stream.
func (b *bench) processFlood(id string, spec *runtime.Command) (int64, error) {
	p, err := b.rt.StartProcess(b.ctx, id, spec)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	return io.Copy(sink{}, p.Stdout())
}

// pieceFlood gets the output in pieces, each of which is new memory.
func (b *bench) pieceFlood(session runtime.SessionID) (n int64, err error) {
	output := make(chan []byte)
	ended := make(chan error, 1)
	go func() { // ends with the command
		ended <- b.rt.SessionExecStream(b.ctx, session, &runtime.SessionExecRequest{Command: []string{floodText}}, output)
	}()
	for piece := range output {
		n += int64(len(piece))
	}
	return n, <-ended
}
