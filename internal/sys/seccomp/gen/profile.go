package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"wolffia/runtime/launch"
)

// architectures are those of wolffia, as Go calls them.
var architectures = []string{"amd64", "arm64"}

// kinds are the beginnings of the files' names; true for sandboxes with root inside.
var kinds = map[string]bool{"filter_": false, "root_": true}

// compiled returns the filter for an architecture, from Docker's default profile and checks.
func compiled(goarch string, root bool) ([]byte, error) {
	info, err := arch.GetInfo(goarch)
	if err != nil {
		return nil, err
	}
	numbers := maps.Clone(info.SyscallNames)
	if goarch == "arm64" {
		// the table has the name in the kernel's source
		numbers["newfstatat"] = numbers["fstatat"]
		// of 32 bits only
		maps.DeleteFunc(numbers, func(_ string, nr int) bool { return nr >= 403 && nr <= 423 })
	}
	calls, err := translate(moby.DefaultProfile(), goarch, root, numbers)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(compile(uint32(info.ID), calls))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	// struct sock_filter (linux/filter.h); all our architectures are little endian
	for _, r := range raw {
		if err := binary.Write(&b, binary.LittleEndian, r); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// A call is the rule for one system call: its check runs first; then the call is
// allowed if all conditions of one alternative hold.
type call struct {
	check        check
	alternatives [][]specs.LinuxSeccompArg // an empty alternative always holds
	errno        uint32                    // if no alternative holds
}

// plain reports whether the call is allowed whatever its arguments.
func (c *call) plain() bool {
	if len(c.check) > 0 {
		return false
	}
	for _, a := range c.alternatives {
		if len(a) == 0 {
			return true
		}
	}
	return false
}

// applies reports whether a rule of the profile holds on an architecture, without any
// capability, or for root inside. Every kernel that wolffia runs on is newer than the profile asks for. The
// profile's own function answers for the machine that it runs on.
func applies(rule *moby.Syscall, goarch string, root bool) (bool, error) {
	in, out := rule.Includes, rule.Excludes
	for _, f := range []*moby.Filter{in, out} {
		if f != nil && f.MinKernel != nil && (f.MinKernel.Kernel > 5 || f.MinKernel.Kernel == 5 && f.MinKernel.Major > 8) {
			return false, fmt.Errorf("%v: a rule for Linux %d.%d and later", rule.Names, f.MinKernel.Kernel, f.MinKernel.Major)
		}
	}
	if out != nil && (out.MinKernel != nil || slices.Contains(out.Arches, goarch)) {
		return false, nil
	}
	has := func(name string) bool {
		return root && slices.ContainsFunc(launch.RootCapabilities, func(c launch.Capability) bool { return c.Name == name })
	}
	if out != nil && slices.ContainsFunc(out.Caps, has) {
		return false, nil
	}
	return in == nil || !slices.ContainsFunc(in.Caps, func(name string) bool { return !has(name) }) && (len(in.Arches) == 0 || slices.Contains(in.Arches, goarch)), nil
}

// translate returns the calls of the profile by number, with our checks.
func translate(profile *moby.Seccomp, goarch string, root bool, numbers map[string]int) (map[uint32]*call, error) {
	if profile.DefaultAction != specs.ActErrno {
		return nil, fmt.Errorf("default action %q: a filter must deny by default", profile.DefaultAction)
	}
	calls := map[uint32]*call{}
	get := func(name string) *call {
		nr, known := numbers[name]
		if !known {
			return new(call) // of another architecture, or too new for the table: denied
		}
		c := calls[uint32(nr)]
		if c == nil {
			c = &call{errno: uint32(unix.EPERM)}
			calls[uint32(nr)] = c
		}
		return c
	}
	for _, s := range profile.Syscalls {
		ok, err := applies(s, goarch, root)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		for _, name := range s.Names {
			c := get(name)
			switch {
			case s.Action == specs.ActAllow:
				c.alternatives = append(c.alternatives, s.Args)
			case s.Action == specs.ActErrno && len(s.Args) == 0 && s.ErrnoRet != nil:
				c.errno = uint32(*s.ErrnoRet)
			default:
				return nil, fmt.Errorf("%s: action %q is not supported", name, s.Action)
			}
			for _, a := range s.Args {
				if _, err := condition(a, 0, 0); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	for name, check := range checks {
		if !root || !slices.Contains(ofOneUser, name) {
			get(name).check = check
		}
	}
	return calls, nil
}
