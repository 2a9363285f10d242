// Package tinyprogram makes programs of some hundred bytes of machine code, without a runtime. One
// more execution of such a program costs a tenth of a millisecond, and of a Go program one or two.
package tinyprogram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// codeSize is at least the size of the code of a program, in bytes. What follows it in the program
// is never reached.
const codeSize = 1024

// Sizes and constants of the format; elf(5). Package debug/elf has them, and costs each start of a
// program that imports it.
const (
	fileHeader, programHeader = 64, 56 // bytes
	typeExec                  = 2      // ET_EXEC
	segmentLoad               = 1      // PT_LOAD
	segmentStack              = 0x6474e551
	executable, writable      = 1, 2
	readable                  = 4
)

// machines are the values of e_machine.
var machines = map[string]uint16{"amd64": 62, "arm64": 183}

// Of returns the program whose code begins at an address in this program's own code. The code uses
// no address but of its own jumps.
func Of(code uintptr) []byte {
	const base, page = 1 << 22, 1 << 16 // a page of 64 KiB is the largest that there is
	const headers = fileHeader + 2*programHeader
	const size = headers + codeSize
	// 64 bits, little endian
	b := append(make([]byte, 0, size), 0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	put := binary.LittleEndian
	b = put.AppendUint16(b, typeExec)
	b = put.AppendUint16(b, machines[runtime.GOARCH])
	b = put.AppendUint32(b, 1)
	b = put.AppendUint64(b, base+headers) // where it begins
	b = put.AppendUint64(b, fileHeader)   // where the program headers are
	b = put.AppendUint64(b, 0)
	b = put.AppendUint32(b, 0)
	for _, n := range []uint16{fileHeader, programHeader, 2, 0, 0, 0} {
		b = put.AppendUint16(b, n)
	}
	for _, s := range []struct {
		kind, flags                             uint32
		offset, address, physical, stored, size uint64
		align                                   uint64
	}{
		{kind: segmentLoad, flags: readable | executable, address: base, physical: base, stored: size, size: size, align: page},
		{kind: segmentStack, flags: readable | writable, align: 16},
	} {
		b = put.AppendUint32(put.AppendUint32(b, s.kind), s.flags)
		for _, n := range []uint64{s.offset, s.address, s.physical, s.stored, s.size, s.align} {
			b = put.AppendUint64(b, n)
		}
	}
	// within this program's code
	return append(b, unsafe.Slice(*(**byte)(unsafe.Pointer(&code)), codeSize)...)
}

// File returns a program as a file without a name, which no process can change. The caller closes
// it.
func File(name string, program []byte) (*os.File, error) {
	return Sealed(name, func(w io.Writer) error {
		_, err := w.Write(program)
		return err
	})
}

// Sealed returns a file in memory that can be executed, and that no process can change
// (memfd_create(2)). write writes its content. The caller closes it.
func Sealed(name string, write func(io.Writer) error) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where all can be executed
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err = write(file); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
