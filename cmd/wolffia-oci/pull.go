// Wolffia-image pulls images for wolffia, which starts it. It is a program of
// its own so that wolffia starts fast: see package image.
//
//	wolffia-image pull STATE-DIR MAX-SIZE NAME
//
// prints a puller.Result; pull-with-bar also draws a progress bar on standard
// error, and pull-public connects to public addresses only. When its standard input ends, it cleans up and ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"wolffia/image"
	"wolffia/image/puller"
	"wolffia/image/store"
	"wolffia/internal/host/boot"
)

func main() {
	if len(os.Args) != 5 || !slices.Contains([]string{"pull", "pull-with-bar", "pull-public"}, os.Args[1]) {
		fmt.Fprintln(os.Stderr, "wolffia-image: usage is internal: run wolffia image pull")
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the caller, or with this process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	id, err := pull(ctx, os.Args[2], os.Args[3], os.Args[4], os.Args[1])
	if err := json.NewEncoder(os.Stdout).Encode(puller.Result{ID: id, Failure: boot.Failed(err)}); err != nil {
		os.Exit(1)
	}
}

func pull(ctx context.Context, stateDir, maxSize, name, how string) (string, error) {
	size, err := strconv.ParseInt(maxSize, 10, 64)
	if err != nil {
		return "", err
	}
	opts := &image.Options{Limits: store.Limits{Size: size}, Public: how == "pull-public"}
	if how == "pull-with-bar" {
		bar := &bar{}
		opts.Progress = bar.set
		defer bar.clear()
	}
	img, err := image.Pull(ctx, store.Open(stateDir), name, opts)
	if err != nil {
		return "", err
	}
	return img.ID, nil
}

// A bar is a progress bar on standard error. It appears with the first byte of a layer.
// The zero bar is ready to use.
type bar struct{ b *progressbar.ProgressBar }

func (b *bar) set(done, total int64) {
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
