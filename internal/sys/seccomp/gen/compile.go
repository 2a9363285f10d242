package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets of the fields of struct seccomp_data (seccomp(2)).
const (
	offNr   = 0
	offArch = 4
	offArgs = 16 // 64 bits each, low half first
)

func refuse(errno uint32) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | errno}
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// compile returns the program: a binary search among ranges of call numbers. A
// range is allowed or refused as a whole, or is one call whose verdict depends on its
// arguments or has an errno of its own. Unknown calls are refused, and so are calls of
// other architectures and of x32 (seccomp(2), "caveats"), whose numbers are larger
// than all others. The search is binary for kernels that interpret the program, such
// as gVisor, which does so for all numbers up to 2000 when it is installed.
func compile(auditArch uint32, calls map[uint32]*call) []bpf.Instruction {
	deny := refuse(uint32(unix.EPERM))
	known := slices.Sorted(maps.Keys(calls))
	last := known[len(known)-1]
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		deny,
		bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: last, SkipTrue: 1},
		deny,
	}
	refused, allowed := []bpf.Instruction{deny}, []bpf.Instruction{allow}
	list := []segment{{0, refused}}
	add := func(from uint32, body []bpf.Instruction) {
		switch last := &list[len(list)-1]; {
		case last.from == from:
			last.body = body
		case len(body) > 1 || len(last.body) > 1 || body[0] != last.body[0]:
			list = append(list, segment{from, body})
		}
	}
	for _, nr := range known {
		body := allowed
		if c := calls[nr]; !c.plain() {
			body = c.body()
		}
		add(nr, body)
		if nr < last {
			add(nr+1, refused)
		}
	}
	// A call before which another was refused may now begin a range that is
	// like the one before it.
	list = slices.CompactFunc(list, func(a, b segment) bool {
		return len(a.body) == 1 && len(b.body) == 1 && a.body[0] == b.body[0]
	})
	return append(prog, search(list)...)
}

// A segment is the range of calls from a number to the next segment. Its body
// always returns.
type segment struct {
	from uint32
	body []bpf.Instruction
}

// search returns a program that runs the body of the segment of the loaded number.
func search(list []segment) []bpf.Instruction {
	if len(list) == 1 {
		return list[0].body
	}
	mid := len(list) / 2
	below := search(list[:mid])
	var prog []bpf.Instruction
	if len(below) <= 255 {
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: list[mid].from, SkipTrue: uint8(len(below))})
	} else {
		prog = append(prog,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: list[mid].from, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(below))})
	}
	return append(append(prog, below...), search(list[mid:])...)
}

// body returns the program for one call; it returns on every path.
func (c *call) body() []bpf.Instruction {
	body := slices.Clone(c.check)
	for _, alternative := range c.alternatives {
		// Built from its end, so that every condition knows how far it is to
		// the next alternative.
		block := []bpf.Instruction{allow}
		for _, a := range slices.Backward(alternative) {
			test, err := condition(a, 0, uint8(len(block)))
			if err != nil {
				panic(err) // translate has tried it
			}
			block = append(test, block...)
		}
		body = append(body, block...)
	}
	return append(body, refuse(c.errno))
}

// condition returns a test of one 64-bit argument with 32-bit instructions. The test
// skips holds further instructions if the condition holds, and fails otherwise.
func condition(a specs.LinuxSeccompArg, holds, fails uint8) ([]bpf.Instruction, error) {
	low := bpf.LoadAbsolute{Off: offArgs + 8*uint32(a.Index), Size: 4}
	high := bpf.LoadAbsolute{Off: low.Off + 4, Size: 4}
	lo, hi := uint32(a.Value), uint32(a.Value>>32)
	switch {
	case a.Op == specs.OpEqualTo:
		return []bpf.Instruction{
			high,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: hi, SkipTrue: fails + 2},
			low,
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: lo, SkipTrue: holds, SkipFalse: fails},
		}, nil
	case a.Op == specs.OpLessThan, a.Op == specs.OpGreaterThan:
		test := bpf.JumpLessThan
		if a.Op == specs.OpGreaterThan {
			test = bpf.JumpGreaterThan
		}
		return []bpf.Instruction{
			high,
			bpf.JumpIf{Cond: test, Val: hi, SkipTrue: holds + 3},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: hi, SkipTrue: fails + 2},
			low,
			bpf.JumpIf{Cond: test, Val: lo, SkipTrue: holds, SkipFalse: fails},
		}, nil
	case a.Op == specs.OpMaskedEqual && a.ValueTwo == 0:
		return []bpf.Instruction{
			high,
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: hi, SkipTrue: fails + 2},
			low,
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: lo, SkipTrue: fails, SkipFalse: holds},
		}, nil
	}
	return nil, fmt.Errorf("operator %q is not supported", a.Op)
}
