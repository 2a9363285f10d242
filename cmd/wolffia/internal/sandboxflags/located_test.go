package sandboxflags

import (
	"errors"
	"testing"

	"wolffia/runtime"
)

func TestLocated(t *testing.T) {
	f := &Rules{origins: map[string]string{"memory": "f:3", "mount": "f:4", "env": "f:5", "allow-host": "f:6", "upstream-proxy": "f:7"}}
	class := runtime.Errorf(runtime.ErrInvalid, "--memory %q: bad", "x")
	if err := f.Located(class); err.Error() != `f:3: --memory "x": bad` || !errors.Is(err, runtime.ErrInvalid) {
		t.Error(err)
	}
	for text, from := range map[string]string{
		"memory 4: bad": "f:3", "memory cannot be limited": "f:3", "mount /x: bad": "f:4", `variable "1a": bad`: "f:5", "-e ZZ: bad": "f:5",
		"network rule x: bad": "f:6", "upstream proxy: bad": "f:7",
	} {
		if err := f.Located(errors.New(text)); err.Error() != from+": "+text {
			t.Error(err)
		}
	}
	for _, text := range []string{"--disk 5: bad", "--memory-of 5: bad", "memorandum: bad", `mount point "x": bad`, "environment: bad", "--", ""} {
		if err := f.Located(errors.New(text)); err.Error() != text {
			t.Error(err)
		}
	}
	if err := f.Located(nil); err != nil {
		t.Error(err)
	}
}

// An amount means no limit only if its text is zero.
func TestAmounts(t *testing.T) {
	size := func(s string) (int64, error) { return ParseSize("memory", s) }
	duration := func(s string) (int64, error) { d, err := ParseDuration("timeout", s); return int64(d), err }
	for _, c := range []struct {
		parse func(string) (int64, error)
		text  string
		want  int64 // -1: an error
	}{
		{size, "0", 0},
		{size, "0.0", 0},
		{size, "0g", 0},
		{size, "1", 1},
		{size, "0.5k", 512},
		{size, "0.5", -1},
		{size, "0.0001k", -1},
		{size, "-1", -1},
		{duration, "0", 0},
		{duration, "0s", 0},
		{duration, "0d", 0},
		{duration, "0h0m", 0},
		{duration, "1ns", 1},
		{duration, "2", 2e9},
		{duration, "0.0000000001s", -1},
		{duration, "0.0000000001", -1},
		{duration, "0.1ns", -1},
		{duration, "-1s", -1},
	} {
		got, err := c.parse(c.text)
		if c.want < 0 && err == nil || c.want >= 0 && (err != nil || got != c.want) {
			t.Errorf("%q: %d, %v; want %d", c.text, got, err, c.want)
		}
	}
}
