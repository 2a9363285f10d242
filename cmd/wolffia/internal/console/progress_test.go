package console

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A step is shown after a second, at a terminal, without --quiet; what is printed meanwhile takes
// the place of the line.
func TestProgress(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const wiped = "\r\x1b[K"
	second := wiped + "wolffia: copy (1s)\r"
	for name, tt := range map[string]struct {
		quiet, plain bool
		do           func(c *Console)
		want         string
	}{
		"short": {do: func(c *Console) {
			end := c.During("copy")
			time.Sleep(time.Second - 1)
			end()
			time.Sleep(time.Minute)
		}},
		"long": {do: func(c *Console) {
			defer c.During("copy")()
			time.Sleep(2500 * time.Millisecond)
		}, want: second + wiped + "wolffia: copy (2s)\r" + wiped},
		"a line between": {do: func(c *Console) {
			defer c.During("copy")()
			time.Sleep(1500 * time.Millisecond)
			c.Say("note")
		}, want: second + wiped + "wolffia: note\r\n"},
		"two texts": {do: func(c *Console) {
			step := c.Progress()
			step("copy")
			time.Sleep(1500 * time.Millisecond)
			step("co\x1bpy")
			time.Sleep(time.Second)
			step("")
			step("other")
			step("")
		}, want: second + wiped + `wolffia: co\x1bpy (2s)` + "\r" + wiped},
		"quiet": {quiet: true, do: func(c *Console) {
			defer c.During("copy")()
			time.Sleep(time.Minute)
		}},
		"no terminal": {plain: true, do: func(c *Console) {
			defer c.During("copy")()
			time.Sleep(time.Minute)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			reader, file := terminal(t)
			if tt.plain {
				var err error
				if file, err = os.Create(filepath.Join(t.TempDir(), "err")); err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				if reader, err = os.Open(file.Name()); err != nil {
					t.Fatal(err)
				}
				defer reader.Close()
			}
			synctest.Test(t, func(t *testing.T) {
				c := New(nil, nil, &Output{File: file})
				c.Quiet = tt.quiet
				tt.do(c)
				synctest.Wait()
			})
			if _, err := file.WriteString("."); err != nil {
				t.Fatal(err)
			}
			var got []byte
			for b := make([]byte, 1); ; got = append(got, b...) {
				if _, err := io.ReadFull(reader, b); err != nil {
					t.Fatal(err)
				}
				if b[0] == '.' {
					break
				}
			}
			if string(got) != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
