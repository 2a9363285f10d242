package main

import (
	"slices"
	"testing"
)

func TestParseSudo(t *testing.T) {
	for _, tt := range []struct {
		args, want, env []string
		who             string
	}{
		{[]string{"id", "-u"}, []string{"id", "-u"}, nil, "root"},
		{[]string{"-n", "-H", "-E", "--", "-x"}, []string{"-x"}, nil, "root"},
		{[]string{"-nE", "-u", "bob", "A=1", "B=x=y", "env", "C=2"}, []string{"env", "C=2"}, []string{"A=1", "B=x=y"}, "bob"},
		{[]string{"-ubob", "-g#7", "id"}, []string{"id"}, nil, "bob:7"},
		{[]string{"--user=bob", "--group", "mail", "id"}, []string{"id"}, nil, "bob:mail"},
		{[]string{"-u", "#33", "id"}, []string{"id"}, nil, "33"},
		{[]string{"--preserve-env=A,B", "/a=b/c"}, []string{"/a=b/c"}, nil, "root"},
		{[]string{"-i"}, []string{"/bin/sh"}, nil, "root"},
		{[]string{"-v"}, nil, nil, "root"},
	} {
		s, err := parseSudo(tt.args)
		if err != nil || !slices.Equal(s.args, tt.want) || !slices.Equal(s.env, tt.env) || s.who != tt.who {
			t.Errorf("%q: %+v, %v", tt.args, s, err)
		}
	}
	for _, args := range [][]string{nil, {"-u", "bob"}, {"--frobnicate", "id"}, {"-e", "file"}} {
		if s, err := parseSudo(args); err == nil {
			t.Errorf("%q: %+v", args, s)
		}
	}
}
