package profile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Where struct seccomp_data keeps what (seccomp(2)).
const (
	offNr   = 0
	offArch = 4
	offArgs = 16 // 64 bits each, low half first
	x32Bit  = 0x40000000
)

func refuse(errno uint32) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | errno}
}

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// compile makes the program: calls that depend on their arguments, or fail in
// a way of their own, one by one; then the rest as ranges of numbers; anything
// else is refused, as is every call of a foreign architecture.
func compile(auditArch uint32, calls map[uint32]*call) []bpf.Instruction {
	deny := refuse(uint32(unix.EPERM))
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		deny,
		bpf.LoadAbsolute{Off: offNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		deny,
	}
	var plain []uint32
	for _, nr := range slices.Sorted(maps.Keys(calls)) {
		c := calls[nr]
		if c.plain() {
			plain = append(plain, nr)
			continue
		}
		body := c.body()
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(body))})
		prog = append(prog, body...) // always returns
	}
	for _, r := range ranges(plain) {
		prog = append(prog,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: r[0], SkipTrue: 1},
			deny,
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: r[1], SkipTrue: 1},
			allow,
		)
	}
	return append(prog, deny)
}

// ranges joins sorted numbers to ranges, both ends included.
func ranges(sorted []uint32) (joined [][2]uint32) {
	for _, n := range sorted {
		if last := len(joined) - 1; last >= 0 && joined[last][1]+1 == n {
			joined[last][1] = n
			continue
		}
		joined = append(joined, [2]uint32{n, n})
	}
	return joined
}

// body decides about one call, and returns on every way.
func (c *call) body() []bpf.Instruction {
	var body []bpf.Instruction
	for _, r := range c.refusals {
		body = append(body,
			bpf.LoadAbsolute{Off: offArgs + 8*uint32(r.argument), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: r.value, SkipTrue: 1},
			refuse(c.errno),
		)
	}
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

// condition tests one 64-bit argument with 32-bit instructions: it goes on
// over holds further instructions if the condition holds, over fails else.
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
	return nil, fmt.Errorf("operator %q is not known here", a.Op)
}
