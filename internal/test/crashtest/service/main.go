// Service is the crash test's service: it executes the commands that it reads from
// standard input. It works over a state directory, takes one command on each line, and
// ends with its input.
//
//	service STATE CODEBASE
//
//	create OWNER | ensure OWNER | exec OWNER COMMAND | destroy OWNER
//	pooled sandbox TIME | take
//	fleet-create OWNER | fleet-background OWNER COMMAND | fleet-destroy OWNER
//
// A pooled sandbox waits for TIME; take makes a sandbox without an owner.
//
// The fleet of an owner has one sandbox, whose idempotency key is OWNER.
//
// It answers each with a line: "ok" and the sandbox's id or what the command has
// said, quoted; or "failed" and why. The first line is "ok" when it serves.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/service"
	"wolffia/service/registry"
)

func main() {
	syscall.Umask(0o077)
	if err := serve(context.Background(), os.Args[1], os.Args[2]); err != nil {
		answer("", err)
		os.Exit(1)
	}
}

// answer says how something has ended.
func answer(what string, err error) {
	if err != nil {
		fmt.Printf("failed %q\n", err)
		return
	}
	fmt.Println("ok", what)
}

func serve(ctx context.Context, state, codebase string) error {
	rt, err := local.New(&local.Options{StateDir: state}, bwrap.Backend()) // its programs are in PATH
	if err != nil {
		return err
	}
	defer rt.Close()
	configure := func() (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{CodebasePath: codebase, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}, nil
	}
	s, err := service.Open(ctx, rt, state, &service.Options{
		Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) { return configure() },
	})
	if err != nil {
		return err
	}
	defer s.Close()
	answer("", nil)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		name, command, _ := strings.Cut(rest, " ")
		o := registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: name}
		if verb == "pooled" || verb == "claim" {
			c, _ := configure()
			answer(doPooled(ctx, rt, name, c))
		} else if part, of := strings.CutPrefix(verb, "fleet-"); of {
			answer(doSandbox(ctx, s, part, o, command))
		} else {
			answer(do(ctx, s, verb, o, command))
		}
	}
	return lines.Err()
}

func do(ctx context.Context, s *service.Service, verb string, o registry.Owner, command string) (string, error) {
	switch verb {
	case "create":
		m, err := s.Owned().CreateSandbox(ctx, o, nil)
		return m.SandboxID, err
	case "ensure":
		m, _, err := s.Owned().EnsureSandbox(ctx, o, nil)
		return m.SandboxID, err
	}
	m, err := s.Owned().FindSandbox(ctx, o)
	if err != nil {
		return "", err
	}
	switch verb {
	case "destroy":
		return m.SandboxID, s.Owned().DestroySandbox(ctx, o, m.SandboxID)
	case "exec":
		r, err := s.Owned().ExecuteBash(ctx, o, m.SandboxID, &runtime.Command{Command: []string{command}})
		if err != nil {
			return "", err
		}
		return strconv.Quote(string(r.Stdout)), nil
	}
	return "", fmt.Errorf("there is no %q", verb)
}

// doPooled starts a pooled sandbox that waits for idle, or, without it, makes a sandbox, of a pooled sandbox if there is any.
func doPooled(ctx context.Context, rt *local.Runtime, idle string, c *runtime.SandboxConfig) (string, error) {
	if idle != "" {
		d, err := time.ParseDuration(idle)
		if err != nil {
			return "", err
		}
		return rt.StartPooled(ctx, c, d)
	}
	s, err := rt.Create(ctx, c)
	if err != nil {
		return "", err
	}
	return s.ID, rt.Start(ctx, s.ID)
}

func doSandbox(ctx context.Context, f *service.Service, verb string, o registry.Owner, command string) (string, error) {
	if verb == "create" {
		s, _, err := f.Create(ctx, &service.Params{Owner: o, Key: o.UserID, Metadata: map[string]string{"kept": "yes"}, Entrypoint: []string{"sleep", "1000"}})
		if err != nil {
			return "", err
		}
		return s.ID, nil
	}
	caller := service.Caller{Owner: o}
	all, err := f.List(ctx, caller)
	if err != nil {
		return "", err
	}
	if len(all) != 1 {
		return "", fmt.Errorf("the owner has %d sandboxes", len(all))
	}
	switch verb {
	case "destroy":
		return all[0].ID, f.Destroy(ctx, caller, all[0].ID)
	case "background":
		in, err := f.Inside(ctx, caller, all[0].ID)
		if err != nil {
			return "", err
		}
		return in.Background(ctx, &runtime.Command{Command: []string{command}})
	}
	return "", fmt.Errorf("there is no %q", verb)
}
