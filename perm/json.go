package perm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// ErrNewer is the error of ParseJSON for rules with fields that this version does not have. They
// say more than it can enforce: without them a rule could match less, or give more.
var ErrNewer = errors.New("the rules are of a newer version of wolffia")

// ParseJSON reads a list of rules as package json writes them.
func ParseJSON(text []byte) ([]Rule, error) {
	rules := make([]Rule, 0, bytes.Count(text, []byte("},{"))+1) // about; encoding/json would allocate it twice over
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(&rules)
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return rules, nil
		}
		return nil, invalid("more than one list of rules")
	}
	if json.Unmarshal(text, new([]Rule)) == nil {
		return nil, ErrNewer
	}
	return nil, err
}
