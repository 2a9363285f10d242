package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"wolffia/image"
	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/internal/host/boot"
)

// pull pulls the image of that name, and prints a puller.Result. how is pull; pull-with-bar, which
// also draws a progress bar on standard error; or pull-public, which connects to public addresses
// only. With as it imports the image, and records the name as[0] if that is not empty. The first
// line of standard input is that of puller.Pull; when the input ends, it cleans up and ends.
func pull(how, stateDir, maxSize, name string, as []string) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := bufio.NewReaderSize(os.Stdin, puller.MaxLogin+1)
	login, err := in.ReadSlice('\n')
	login = bytes.Clone(login)
	go func() { // ends with the caller, or with this process
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	var id string
	if err == nil {
		id, err = pulled(ctx, how, stateDir, maxSize, name, bytes.TrimSpace(login), as)
	}
	if err := json.NewEncoder(os.Stdout).Encode(puller.Result{ID: id, Failure: boot.Failed(err)}); err != nil {
		os.Exit(1)
	}
}

func pulled(ctx context.Context, how, stateDir, maxSize, name string, login []byte, as []string) (string, error) {
	size, err := strconv.ParseInt(maxSize, 10, 64)
	if err != nil {
		return "", err
	}
	opts := &image.Options{Limits: store.Limits{Size: size}, Public: how == "pull-public", Login: login}
	if len(as) > 0 {
		opts.Import, opts.As = true, as[0]
	}
	if how == "pull-with-bar" {
		bar := &bar{begin: time.Now()}
		opts.Progress = bar.set
		defer bar.clear()
	}
	img, err := image.Pull(ctx, store.Open(stateDir), name, opts)
	if err != nil {
		return "", err
	}
	return img.ID, nil
}

// A bar is a progress bar on standard error. It appears with the first bytes of a layer that are
// read more than a second after begin.
type bar struct {
	begin time.Time
	b     *progressbar.ProgressBar
}

func (b *bar) set(done, total int64) {
	if time.Since(b.begin) < time.Second {
		return
	}
	if b.b == nil {
		b.b = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("pulling"),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
		)
	}
	_ = b.b.Set64(min(done, total))
}

func (b *bar) clear() {
	if b.b != nil {
		_ = b.b.Clear()
	}
}
