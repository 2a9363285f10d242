// Package network says what of the network a sandbox may reach, by name.
//
// This file stands in for the compiler of policies until that is merged.
package network

import (
	"fmt"
	"strings"
)

// A Policy says what a sandbox with a filtered network may reach.
type Policy struct {
	Allow       []string          `json:"allow,omitempty"`
	Hosts       map[string]string `json:"hosts,omitempty"`
	NoNameCheck []string          `json:"noNameCheck,omitempty"`
	Headers     []Header          `json:"headers,omitempty"`
	Learn       bool              `json:"learn,omitempty"`
}

// A Header is a secret that stays outside.
type Header struct {
	Name   string `json:"name"`
	Header string `json:"header"`
	File   string `json:"file"`
}

// Compiled is a policy that can be asked.
type Compiled struct{ p *Policy }

// Compile checks a policy.
func (p *Policy) Compile() (*Compiled, error) {
	for _, a := range p.Allow {
		if a == "" || strings.ContainsAny(a, " /") {
			return nil, fmt.Errorf("%q: it must be NAME[:PORTS], *.DOMAIN[:PORTS] or @LIST", a)
		}
	}
	return &Compiled{p}, nil
}
