// Package seccomptest runs seccomp filters as a kernel would, for tests.
package seccomptest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
)

// Parse reads an array of struct sock_filter.
func Parse(t testing.TB, raw []byte) (prog []bpf.Instruction) {
	t.Helper()
	for r := bytes.NewReader(raw); r.Len() > 0; {
		var i bpf.RawInstruction
		if err := binary.Read(r, binary.LittleEndian, &i); err != nil {
			t.Fatal(err)
		}
		prog = append(prog, i.Disassemble())
	}
	return prog
}

// Run evaluates a seccomp program. The bpf package's own machine cannot: it reads
// packets, in network byte order, and returns how much of one to keep; a verdict is
// larger than any packet.
func Run(t testing.TB, prog []bpf.Instruction, arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	data := [16]uint32{nr, arch} // struct seccomp_data, by words
	for i, a := range args {
		data[4+2*i], data[5+2*i] = uint32(a), uint32(a>>32)
	}
	var a uint32
	for pc := 0; pc < len(prog); pc++ {
		switch i := prog[pc].(type) {
		case bpf.LoadAbsolute:
			a = data[i.Off/4]
		case bpf.Jump:
			pc += int(i.Skip)
		case bpf.JumpIf:
			var holds bool
			switch i.Cond {
			case bpf.JumpEqual:
				holds = a == i.Val
			case bpf.JumpNotEqual:
				holds = a != i.Val
			case bpf.JumpGreaterThan:
				holds = a > i.Val
			case bpf.JumpLessThan:
				holds = a < i.Val
			case bpf.JumpGreaterOrEqual:
				holds = a >= i.Val
			case bpf.JumpLessOrEqual:
				holds = a <= i.Val
			case bpf.JumpBitsSet:
				holds = a&i.Val != 0
			case bpf.JumpBitsNotSet:
				holds = a&i.Val == 0
			}
			if holds {
				pc += int(i.SkipTrue)
			} else {
				pc += int(i.SkipFalse)
			}
		case bpf.RetConstant:
			return i.Val
		default:
			t.Fatalf("instruction %v is not known to this test", i)
		}
	}
	t.Fatal("the program does not return")
	return 0
}
