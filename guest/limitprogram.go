package guest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// limitAddress returns where the code of limitProgram is, in limit_*.s.
func limitAddress() uintptr

// limitCodeSize is at least the size of that code, in bytes. What follows it in the program
// is never reached.
const limitCodeSize = 1024

// limitProgram returns a program that puts limits on itself and then becomes another. It is
// the code of limit_*.s, without a runtime: one more execution of a Go program costs each
// command two milliseconds, this one a tenth of that. Its arguments are
//
//	NAME FD PROCESSES DATA PATH ARG...
//
// with numbers as of limitNumber; 0 is no limit. A limit that is lower stays. It marks FD and
// the descriptor after it as close-on-exec. If it fails it writes the error's number, four
// bytes, to FD.
func limitProgram() []byte {
	const base, page = 1 << 22, 1 << 16 // a page of 64 KiB is the largest that there is
	headers := uint64(binary.Size(elf.Header64{}) + 2*binary.Size(elf.Prog64{}))
	var b bytes.Buffer
	machine := map[uint32]elf.Machine{unix.AUDIT_ARCH_X86_64: elf.EM_X86_64, unix.AUDIT_ARCH_AARCH64: elf.EM_AARCH64}[auditArch]
	_ = binary.Write(&b, binary.LittleEndian, &elf.Header64{ // a Buffer takes all
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Entry: base + headers,
		Phoff: uint64(binary.Size(elf.Header64{})), Ehsize: uint16(binary.Size(elf.Header64{})),
		Phentsize: uint16(binary.Size(elf.Prog64{})), Phnum: 2,
	})
	size := headers + limitCodeSize
	_ = binary.Write(&b, binary.LittleEndian, []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: page},
		{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16},
	})
	address := limitAddress()
	b.Write(unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), limitCodeSize)) // within this program's code
	return b.Bytes()
}

// limitNumber returns a number as an argument of limitProgram: a letter from a to p for each
// four bits.
func limitNumber(n uint64) string {
	b := []byte(fmt.Sprintf("%016x", n))
	for i, c := range b {
		if c >= 'a' {
			b[i] = c - 'a' + 'k'
		} else {
			b[i] = c - '0' + 'a'
		}
	}
	return string(b)
}

// memoryProgram returns a program as a file without a name, which no process can change: its
// content is sealed. The caller closes it.
func memoryProgram(program []byte) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("limit", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where all can be executed
		fd, err = unix.MemfdCreate("limit", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "limit")
	_, err = file.Write(program)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
