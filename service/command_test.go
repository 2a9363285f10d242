package service_test

import (
	"context"
	"errors"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
)

// A shells is a runtime with one sandbox, in which bash starts or not.
type shells struct {
	service.Runtime // nil: the test calls nothing else
	id              string
	bash            error  // of starting bash
	started         string // what was started last
}

func (s *shells) Get(context.Context, string) (*runtime.Sandbox, error) {
	return &runtime.Sandbox{ID: s.id, State: runtime.StateRunning, Labels: map[string]string{launch.LabelRecord: `{"owner":{}}`}}, nil
}

func (s *shells) Exec(context.Context, string, *runtime.ExecRequest) (*runtime.ExecResult, error) {
	return &runtime.ExecResult{}, s.bash
}

func (s *shells) StartProcess(_ context.Context, _ string, spec *runtime.Command) (runtime.Process, error) {
	s.started = spec.Command[0]
	return nil, nil // nobody uses it
}

// Only a sandbox that has no bash gets sh: another reason why bash cannot be started may pass.
func TestShell(t *testing.T) {
	full := &runtime.StartError{Code: 125, Message: "resource temporarily unavailable"}
	missing := &runtime.StartError{Code: 127, Message: "no such file or directory"}
	for _, c := range []struct {
		name    string
		answers []error
		want    string
	}{
		{"a full sandbox", []error{full, nil}, "bash"},
		{"a sandbox without bash", []error{missing, nil}, "sh"},
	} {
		s := &shells{id: runtime.NewID()}
		in, err := service.New(s, nil).Inside(t.Context(), service.Caller{All: true}, s.id)
		if err != nil {
			t.Fatal(err)
		}
		for _, s.bash = range c.answers {
			s.started = ""
			if _, err := in.Run(t.Context(), &runtime.Command{Command: []string{":"}}, nil); errors.Is(err, full) != (s.bash == full) {
				t.Errorf("%s: got err %v; want errors.Is(err, full) == s.bash == full", c.name, err)
			}
		}
		if s.started != c.want {
			t.Errorf("%s: the program is %q, want %q", c.name, s.started, c.want)
		}
	}
}
