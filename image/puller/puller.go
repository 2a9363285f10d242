// Package puller pulls images by starting wolffia-oci. So the programs that start often
// link no client of registries.
package puller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"wolffia/internal/excerpt"
	"wolffia/internal/host/boot"
	"wolffia/runtime"
)

// Program is the name of the program.
const Program = "wolffia-oci"

// A Request is an image to pull.
type Request struct {
	StateDir string // absolute
	Name     string // as for image.Pull
	MaxSize  int64  // bytes; 0 means the default of store.Limits
	Public   bool   // as in image.Options; without a progress bar
	// Login, unless empty, are credentials of the registry in place of the user's, in the form of
	// docker's configuration, as JSON of at most MaxLogin bytes.
	Login []byte
	// Import and As are as in image.Options.
	Import bool
	As     string
	// Terminal, if not nil, gets a progress bar.
	Terminal *os.File
}

// MaxLogin is the largest Request.Login, in bytes.
const MaxLogin = 16 << 10

// A Result is the output of the program, as JSON.
type Result struct {
	ID string `json:"id,omitempty"`
	boot.Failure
}

// tidyLimit bounds the time in which the program cleans up after ctx has ended.
const tidyLimit = 30 * time.Second

// maxResult bounds the bytes of the program's output that are kept.
const maxResult = 64 << 10

// Pull runs the program and returns the id of the image. Errors are those of image.Pull.
// Standard input of the program is a line with the credentials. Its end, with ctx or this process,
// tells the program to clean up and end.
func Pull(ctx context.Context, program string, req *Request) (id string, err error) {
	var login bytes.Buffer
	if len(req.Login) > MaxLogin {
		return "", runtime.Errorf(runtime.ErrInvalid, "the credentials have more than %d bytes", MaxLogin)
	}
	if len(req.Login) > 0 {
		if err := json.Compact(&login, req.Login); err != nil {
			return "", runtime.Errorf(runtime.ErrInvalid, "the credentials: %w", err)
		}
	}
	input, hold, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer input.Close()
	defer hold.Close()
	if _, err := hold.Write(append(login.Bytes(), '\n')); err != nil { // it fits into the pipe
		return "", err
	}
	out, complaints := excerpt.New(maxResult, 0), excerpt.New(maxResult, 0)
	// With the whole environment, which names proxies and the place of credentials.
	cmd := exec.CommandContext(ctx, program, "pull", req.StateDir, strconv.FormatInt(req.MaxSize, 10), req.Name)
	if req.Import {
		cmd.Args = append(cmd.Args, req.As)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, out, complaints
	switch {
	case req.Public:
		cmd.Args[1] = "pull-public"
	case req.Terminal != nil:
		cmd.Args[1], cmd.Stderr = "pull-with-bar", req.Terminal
	}
	cmd.Cancel = hold.Close
	cmd.WaitDelay = tidyLimit
	err = cmd.Run()
	var result Result
	text, _ := out.Result()
	if jerr := json.Unmarshal(text, &result); jerr == nil && result.ID+result.Error != "" {
		if result.Error != "" {
			return "", errors.Join(ctx.Err(), result.Err())
		}
		return result.ID, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	text, _ = complaints.Result()
	return "", runtime.Errorf(runtime.ErrUnavailable, "%s ended without a result (%w) %s", Program, err, text)
}
