package sandboxflags

import (
	"strings"
	"time"

	"wolffia/internal/config"
	"wolffia/runtime"
)

// IdleFlag is the flag of pool start for the time after which it ends.
const IdleFlag = "idle"

// ParseSize reads a flag that has a size, or 0 for none.
func ParseSize(flag, s string) (int64, error) {
	n, err := config.ParseSize(s)
	if err != nil {
		return 0, runtime.Errorf(runtime.ErrInvalid, "--%s %q: %w", flag, s, err)
	}
	return n, nil
}

// ParseDuration reads a flag that has a duration: a plain number is seconds, d is days.
func ParseDuration(flag, s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	text := err.Error()
	if flag == IdleFlag { // which has no zero
		text = strings.TrimSuffix(text, config.OrNone)
	}
	return 0, runtime.Errorf(runtime.ErrInvalid, "--%s %q: %s", flag, s, text)
}

// ParseLifetime reads a flag that has a lifetime, or 0 for none.
func ParseLifetime(flag, s string) (time.Duration, error) {
	d, err := ParseDuration(flag, s)
	if err != nil {
		return 0, err
	}
	if err := runtime.CheckLifetime(d); err != nil {
		return 0, runtime.Errorf(runtime.ErrInvalid, "--%s %q: %w", flag, s, err)
	}
	return d, nil
}

// ParseTimeout reads the flag --timeout, which may not be given.
func ParseTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	return ParseDuration("timeout", s)
}
