package treeserver

import (
	"bytes"

	"wolffia/internal/host/boot"
	"wolffia/perm"
)

// expected are rules that a pooled sandbox has compiled before it is claimed: to read and compile
// the rules of a preset takes most of the time of a claim.
type expected struct {
	text   []byte // of a request with these rules
	policy *perm.Policy
}

// expect compiles the rules in text in advance. It returns nil if they are not valid.
func expect(text []byte) *expected {
	policy, err := compile(text)
	if err != nil {
		return nil
	}
	return &expected{text, policy}
}

// compile returns the policy of the rules in text. e may be nil.
func (e *expected) compile(text []byte) (*perm.Policy, error) {
	if e != nil && bytes.Equal(e.text, text) {
		return e.policy, nil
	}
	return compile(text)
}

// compile returns the policy of the rules in text.
func compile(text []byte) (*perm.Policy, error) {
	rules, err := boot.ParseRules(text)
	if err != nil {
		return nil, err
	}
	return perm.Compile(rules)
}
