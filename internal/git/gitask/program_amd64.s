#include "textflag.h"

// func address() uintptr
TEXT ·address(SB), NOSPLIT, $0-8
	LEAQ ·code(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// code is the program. At its entry SP is at argc, which argv and environ follow (the System V ABI). It uses no address but
// of its own jumps.
TEXT ·code(SB), NOSPLIT|NOFRAME, $0
	MOVQ SP, BX
	CMPQ (BX), $3             // monitor VERSION TOKEN
	JNE  failed
	MOVQ 16(BX), SI
	MOVWLZX (SI), AX
	CMPL AX, $0x32            // "2"
	JNE  failed
	LEAQ 40(BX), R8           // environ
	MOVQ $0x45444e495f544947, R9  // "GIT_INDE"
	MOVQ $0x003d454c49465f58, R10 // "X_FILE="
	MOVQ $0x00ffffffffffffff, R11
	MOVQ $0x3d5249445f544947, R14 // "GIT_DIR="
variable:
	MOVQ (R8), SI
	TESTQ SI, SI
	JZ   name
	ADDQ $8, R8
	CMPQ (SI), R14
	JEQ  failed
	CMPQ (SI), R9
	JNE  variable
	MOVQ 8(SI), AX
	ANDQ R11, AX
	CMPQ AX, R10
	JE   failed
	JMP  variable
name:
	LEAQ -512(BX), R12
	MOVQ $0x616966666c6f772e, AX // ".wolffia"
	MOVQ AX, (R12)
	MOVQ $0x6465676e6168632d, AX // "-changed"
	MOVQ AX, 8(R12)
	MOVB $0x2e, 16(R12)
	LEAQ 17(R12), DI
	MOVQ 24(BX), SI           // TOKEN
	MOVL $200, CX
token:
	MOVB (SI), AX
	MOVB AX, (DI)
	INCQ SI
	INCQ DI
	TESTB AX, AX
	JZ   sync
	DECL CX
	JNZ  token
	JMP  failed
sync:
	MOVQ $0x2e, AX            // "."
	MOVQ AX, -520(BX)
	MOVL $257, AX             // openat
	MOVQ $-100, DI            // AT_FDCWD
	LEAQ -520(BX), SI
	MOVL $0x90000, DX         // O_RDONLY|O_DIRECTORY|O_CLOEXEC
	SYSCALL
	TESTQ AX, AX
	JS   failed
	MOVQ AX, DI
	MOVL $306, AX             // syncfs
	SYSCALL
	TESTQ AX, AX
	JS   failed
	MOVL $16, R15             // attempts
open:
	MOVL $257, AX             // openat
	MOVQ $-100, DI
	MOVQ R12, SI
	MOVL $0xa0000, DX         // O_RDONLY|O_NOFOLLOW|O_CLOEXEC
	SYSCALL
	TESTQ AX, AX
	JNS  opened
	CMPQ AX, $-116            // ESTALE: the answer has changed between two lookups
	JNE  failed
	DECL R15
	JNZ  open
	JMP  failed
opened:
	MOVQ AX, R12
next:
	XORL AX, AX               // read
	MOVQ R12, DI
	LEAQ -70000(BX), SI
	MOVL $65536, DX
	SYSCALL
	TESTQ AX, AX
	JS   failed
	JZ   done
	MOVQ AX, R13              // bytes left
	LEAQ -70000(BX), R14
more:
	MOVL $1, AX               // write
	MOVL $1, DI
	MOVQ R14, SI
	MOVQ R13, DX
	SYSCALL
	TESTQ AX, AX
	JLE  failed
	ADDQ AX, R14
	SUBQ AX, R13
	JNZ  more
	JMP  next
done:
	XORL DI, DI
	JMP  exit
failed:
	MOVL $1, DI
exit:
	MOVL $231, AX             // exit_group
	SYSCALL
	INT  $3
