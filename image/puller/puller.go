// Package puller pulls images by starting wolffia-image. So the programs that start often
// link no client of registries.
package puller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"wolffia/runtime"
)

// Program is the name of the program.
const Program = "wolffia-image"

// A Request says what to pull.
type Request struct {
	StateDir string // absolute
	Name     string
	MaxSize  int64 // bytes; 0 means the default, see store.Limits
	// Terminal, if it is not nil, is where a progress bar appears.
	Terminal *os.File
}

// A Result is what the program prints.
type Result struct {
	ID    string `json:"id,omitempty"`
	Error string `json:"error,omitempty"`
	Class string `json:"class,omitempty"` // of Error
}

// ResultOf makes a result of an error, or of an id.
func ResultOf(id string, err error) *Result {
	if err == nil {
		return &Result{ID: id}
	}
	r := &Result{Error: err.Error()}
	if class := runtime.Class(err); class != nil {
		r.Class = class.Error()
	}
	return r
}

// err is the error that was reported.
func (r *Result) err() error {
	for _, class := range runtime.Classes() {
		if class.Error() == r.Class {
			return runtime.WithClass(class, errors.New(r.Error))
		}
	}
	return runtime.WithClass(runtime.ErrUnavailable, errors.New(r.Error))
}

// Find says where the program is: beside wolffia, else in PATH.
func Find(wolffia string) (string, error) {
	beside := filepath.Join(filepath.Dir(wolffia), Program)
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "%s is neither beside %s nor in PATH: make build makes it", Program, wolffia)
	}
	return path, nil
}

// tidyLimit is how long the program has to clean up when ctx has ended.
const tidyLimit = 30 * time.Second

// maxResult bounds what is read of what it prints, in bytes.
const maxResult = 64 << 10

// Pull has the program do it, and waits. When ctx ends, or this process does,
// the program is told by the end of its standard input, and leaves nothing.
func Pull(ctx context.Context, program string, req *Request) (id string, err error) {
	input, hold, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer input.Close()
	defer hold.Close()
	var out, complaints bytes.Buffer
	// With our whole environment: proxies, and where credentials are, are in it.
	cmd := exec.CommandContext(ctx, program, "pull", req.StateDir, strconv.FormatInt(req.MaxSize, 10), req.Name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &bounded{&out, maxResult}, &bounded{&complaints, maxResult}
	if req.Terminal != nil {
		cmd.Args[1], cmd.Stderr = "pull-with-bar", req.Terminal
	}
	cmd.Cancel = hold.Close
	cmd.WaitDelay = tidyLimit
	err = cmd.Run()
	var result Result
	if jerr := json.Unmarshal(out.Bytes(), &result); jerr == nil && result.ID+result.Error != "" {
		if result.Error != "" {
			return "", errors.Join(ctx.Err(), result.err())
		}
		return result.ID, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", runtime.Errorf(runtime.ErrUnavailable, "%s ended without a word (%w) %s", Program, err, complaints.String())
}

// A bounded writer drops what is more than left bytes.
type bounded struct {
	w    io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	if _, err := b.w.Write(p[:n]); err != nil {
		return 0, fmt.Errorf("keep what it says: %w", err)
	}
	return len(p), nil
}
