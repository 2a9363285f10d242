package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	units "github.com/docker/go-units"

	"wolffia/fields"
)

// amount returns how much a value of k allows, +Inf for a value that means no limit.
func amount(k *fields.Field, text string) (float64, error) {
	var n float64
	var err error
	switch k.Kind {
	case fields.Size:
		var size int64
		size, err = ParseSize(text)
		n = float64(size)
	case fields.Duration:
		var d time.Duration
		d, err = ParseDuration(text)
		n = float64(d)
	default:
		n, err = strconv.ParseFloat(text, 64)
		return unlimited(n), err
	}
	if err != nil {
		err = fmt.Errorf("--%s %q: %w", k.Name, text, err)
	}
	return unlimited(n), err
}

func unlimited(n float64) float64 {
	if n == 0 {
		return math.Inf(1)
	}
	return n
}

// ParseSize reads a size in bytes, such as 512m, or 0 for no limit. The error says what it must
// be.
func ParseSize(s string) (int64, error) {
	n, err := units.RAMInBytes(s)
	if err != nil || n < 0 || n == 0 && !isZero(s) {
		return 0, errors.New("it must be a size such as 512m or 2g, or 0 for no limit")
	}
	return n, nil
}

// OrNone ends the error about a duration where 0 is one.
const OrNone = ", or 0 for none"

// ParseDuration reads a duration, or 0 for none: a plain number is seconds, d is days. The error
// says what it must be.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days uint64
		days, err = strconv.ParseUint(n, 10, 16)
		d = time.Duration(days) * 24 * time.Hour
	}
	const form = "it must be like 90s, 5m, 1h30m or 7d"
	switch {
	case err == nil && d < 0:
		return 0, errors.New("it is negative: " + form)
	case err == nil && (d > 0 || isZero(s)):
		return d, nil
	}
	return 0, errors.New(form + OrNone)
}

// isZero reports whether the text of an amount that is 0 says so: 0.5 bytes are not no limit.
func isZero(s string) bool { return !strings.ContainsAny(s, "123456789") }
