package envd

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A codec is the JSON form of messages, which are plain structs: it has the names of fields as
// protobuf's JSON has them.
type codec string

func (c codec) Name() string                        { return string(c) }
func (codec) Marshal(message any) ([]byte, error)   { return json.Marshal(message) }
func (codec) Unmarshal(b []byte, message any) error { return json.Unmarshal(b, message) }

// A number is an unsigned one, which protobuf's JSON may have as text.
type number uint32

func (n *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	v, err := strconv.ParseUint(strings.Trim(string(b), `"`), 10, 32)
	*n = number(v)
	return err
}

// A symbol is the value of an enumeration, which protobuf's JSON may have as a number.
type symbol string

func (s *symbol) UnmarshalJSON(b []byte) error {
	*s = symbol(strings.Trim(string(b), `"`))
	return nil
}

// timestamp returns a time in the form of protobuf's JSON.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// empty is a message without fields.
type empty struct{}

// keepalivePause returns the time between signs of life that a client wants, and else 90 s.
func keepalivePause(header http.Header) time.Duration {
	n, err := strconv.Atoi(header.Get("Keepalive-Ping-Interval"))
	if err != nil || n < 1 || n > 3600 {
		n = 90
	}
	return time.Duration(n) * time.Second
}
