package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/image"
	"wolffia/image/maker"
	"wolffia/image/store"
	"wolffia/internal/host/boot"
)

// makeImage reads a maker.Request of size bytes from standard input, and writes a maker.Result to
// maker.FDResult. When standard input ends, it cleans up and ends.
func makeImage(size string) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unix.Umask(0o022)
	result, err := made(ctx, cancel, size)
	if err != nil {
		result = &maker.Result{Failure: boot.Failed(errors.Join(err, ctx.Err()))}
	}
	if err := json.NewEncoder(os.NewFile(maker.FDResult, "result")).Encode(result); err != nil {
		os.Exit(1)
	}
}

func made(ctx context.Context, cancel func(), size string) (*maker.Result, error) {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return nil, err
	}
	req := new(maker.Request)
	text, err := io.ReadAll(io.LimitReader(os.Stdin, n))
	if err == nil {
		err = json.Unmarshal(text, req)
	}
	if err != nil {
		return nil, err
	}
	go func() { // ends with the caller, or with this process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	ids, err := namespaceIDs()
	if err != nil {
		return nil, err
	}
	// no mount of this process is seen elsewhere (mount_namespaces(7))
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, os.NewSyscallError("mount private", err)
	}
	return image.Make(ctx, req, ids)
}

// namespaceIDs returns what the ids of this process's user namespace are on the host; nil for the
// only id that it has. Root's own namespace has all.
func namespaceIDs() (*store.IDs, error) {
	ids := new(store.IDs)
	for _, m := range []struct {
		file string
		to   *int
	}{{"uid_map", &ids.UID}, {"gid_map", &ids.GID}} {
		b, err := os.ReadFile("/proc/self/" + m.file)
		if err != nil {
			return nil, err
		}
		f := strings.Fields(string(b))
		switch len(f) {
		case 3:
			if f[2] == "1" {
				return nil, nil
			}
			*m.to, ids.Count = 1, 65535
		case 6:
			*m.to, err = strconv.Atoi(f[4])
			if err == nil {
				ids.Count, err = strconv.Atoi(f[5])
			}
			if m.file == "uid_map" && err == nil {
				ids.Owner, err = strconv.Atoi(f[1])
			}
			if err != nil {
				return nil, err
			}
		default:
			return nil, errors.New("the user namespace has unexpected ids")
		}
	}
	return ids, nil
}
