package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"wolffia/internal/test/wait"
)

// A followed log belongs to an existing sandbox.
func followed(t *testing.T) (path, alive string) {
	t.Helper()
	box := t.TempDir()
	alive = filepath.Join(box, "config.json")
	if err := errors.Join(os.Mkdir(filepath.Join(box, "run"), 0o700), os.WriteFile(alive, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(box, "run", "audit.log"), alive
}

// Follow returns each line once and in order, across any number of rotations, from before the log
// exists until the sandbox is removed.
func TestFollow(t *testing.T) {
	path, alive := followed(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const n = 200
	got, ended := make(chan int64), make(chan error, 1)
	go func() {
		ended <- r.Follow(ctx, alive, func(r Record) error {
			got <- r.Dropped
			return nil
		})
		close(got)
	}()
	w := file{path: path, max: 1000}
	for i := range int64(n) {
		rec := Record{Time: noon, Dropped: i + 1}
		if err := w.write(append(rec.Append(nil), '\n')); err != nil {
			t.Fatal(err)
		}
		if i%7 != 0 { // sometimes several at once, and a rotation among them
			continue
		}
		for want := max(1, i-5); want <= i+1; want++ {
			if d := <-got; d != want {
				t.Fatalf("got %d, want %d", d, want)
			}
		}
	}
	if err := os.Remove(alive); err != nil {
		t.Fatal(err)
	}
	for range got { // what was still to come
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Follow ends with the context, with an error of its callback, and with the sandbox.
func TestFollowEnds(t *testing.T) {
	mine := errors.New("mine")
	for name, tt := range map[string]struct {
		before, during func(path, alive string, cancel func()) error
		each, want     error
	}{
		"context": {
			during: func(_, _ string, cancel func()) error { cancel(); return nil },
			want:   context.Canceled,
		},
		"callee": {
			during: func(path, _ string, _ func()) error {
				return os.WriteFile(path, append((&Record{Time: noon, Dropped: 1}).Append(nil), '\n'), 0o600)
			},
			each: mine, want: mine,
		},
		"gone": {
			during: func(_, alive string, _ func()) error { return os.Remove(alive) },
		},
		"all gone": {
			during: func(path, alive string, _ func()) error {
				return errors.Join(os.Remove(alive), os.Remove(filepath.Dir(path)), os.Remove(filepath.Dir(alive)))
			},
		},
		"gone before": {
			before: func(path, alive string, _ func()) error {
				return errors.Join(os.Remove(alive), os.Remove(filepath.Dir(path)))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, alive := followed(t)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			if tt.before != nil {
				if err := tt.before(path, alive, cancel); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ended := make(chan error, 1)
			go func() { ended <- r.Follow(ctx, alive, func(Record) error { return tt.each }) }()
			if tt.during != nil {
				if err := tt.during(path, alive, cancel); err != nil {
					t.Error(err)
				}
			}
			if err := <-ended; !errors.Is(err, tt.want) {
				t.Errorf("it ended with %v, want %v", err, tt.want)
			}
		})
	}
}

// A link in the place of a log that is followed is an error.
func TestFollowALink(t *testing.T) {
	path, alive := followed(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ended := make(chan error, 1)
	go func() { ended <- r.Follow(ctx, alive, func(Record) error { return fmt.Errorf("a record") }) }()
	if err := os.Symlink(alive, path); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || ctx.Err() != nil {
		t.Errorf("it ended with %v", err)
	}
}
