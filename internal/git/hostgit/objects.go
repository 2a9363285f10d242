package hostgit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// ErrMissing is the error of an object that the repository does not have.
var ErrMissing = errors.New("the object is missing")

// Objects answers questions for objects of a repository by one process, git cat-file --batch. It
// is not safe for concurrent use.
type Objects struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	end context.CancelFunc
}

// Objects starts the process, which Close ends.
func (d *Dir) Objects(ctx context.Context) (*Objects, error) {
	ctx, end := context.WithTimeout(ctx, limit)
	cmd := d.command(ctx, Command{Args: []string{"cat-file", "--batch"}})
	in, err := cmd.StdinPipe()
	if err != nil {
		end()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return nil, err
	}
	return &Objects{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10), end: end}, nil
}

// Close ends the process.
func (o *Objects) Close() {
	_ = o.in.Close()
	o.end()
	_ = o.cmd.Wait()
}

// An Object is an object of a repository.
type Object struct {
	Name string
	Type string // commit, tree, blob or tag
	Data []byte // nil if it is longer than the caller's limit
}

// Get returns the object that name names, such as that of an object with ^{tree}, and at most that
// many bytes of content. The error is ErrMissing if the repository does not have it, or it is not
// of that type.
func (o *Objects) Get(name string, most int64) (Object, error) {
	if strings.ContainsAny(name, " \n") {
		return Object{}, ErrMissing
	}
	if _, err := io.WriteString(o.in, name+"\n"); err != nil {
		return Object{}, fmt.Errorf("git cat-file has ended: %w", err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return Object{}, fmt.Errorf("git cat-file has ended: %w", err)
	}
	fields := strings.Fields(line)
	if len(fields) == 0 || len(fields) == 2 || strings.HasSuffix(line, " missing\n") {
		return Object{}, ErrMissing
	}
	size, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
	if err != nil {
		return Object{}, fmt.Errorf("git cat-file says %.100q: %w", line, err)
	}
	if len(fields) != 3 {
		return Object{}, fmt.Errorf("git cat-file says %.100q", line)
	}
	got := Object{Name: fields[0], Type: fields[1]}
	if size > most {
		_, err = io.CopyN(io.Discard, o.out, size+1)
		return got, err
	}
	got.Data = make([]byte, size)
	if _, err := io.ReadFull(o.out, got.Data); err != nil {
		return Object{}, err
	}
	_, err = o.out.Discard(1)
	return got, err
}
