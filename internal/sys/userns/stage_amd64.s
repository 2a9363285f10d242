#include "textflag.h"

// func stageAddress() uintptr
TEXT ·stageAddress(SB), NOSPLIT, $0-8
	LEAQ ·stageCode(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// CALL makes a system call; an error ends the program.
#define CALL(number) \
	MOVL  $number, AX \
	SYSCALL           \
	TESTQ AX, AX      \
	JLT   failed

// stageCode is the program of Stage. At its entry SP is at argc, which argv and
// environ follow (the System V ABI). It uses no address but of its own jumps.
TEXT ·stageCode(SB), NOSPLIT|NOFRAME, $0
	MOVQ SP, BX
	MOVL $'n', R15
	XORL DI, DI
	MOVL $1, SI
	XORL DX, DX
	CALL(292)                 // dup3
	MOVL $0x10020000, DI      // CLONE_NEWUSER | CLONE_NEWNS
	CALL(272)                 // unshare
	MOVL $'m', R15
	LEAQ 16(BX), R12          // argv[1]
	MOVL $3, R13
pair:
	MOVQ $-100, DI            // AT_FDCWD
	MOVQ (R12), SI
	MOVL $0x80001, DX         // O_WRONLY | O_CLOEXEC
	XORL R10, R10
	CALL(257)                 // openat
	MOVQ AX, R14
	MOVQ 8(R12), SI
	XORL DX, DX
length:
	CMPB (SI)(DX*1), $0
	JEQ  write
	INCQ DX
	JMP  length
write:
	MOVQ R14, DI
	CALL(1)                   // write
	MOVQ R14, DI
	CALL(3)                   // close
	ADDQ $16, R12
	DECL R13
	JNZ  pair
	MOVL $'x', R15
	MOVQ (R12), DI            // argv[7]
	LEAQ 8(R12), SI           // what follows it
	MOVQ (BX), DX
	LEAQ 16(BX)(DX*8), DX     // environ
	CALL(59)                  // execve
failed:
	NEGQ AX
	MOVQ AX, CX
	SHRQ $4, CX
	ANDL $15, CX
	ANDL $15, AX
	ADDL $'a', CX
	ADDL $'a', AX
	MOVB $'!', -64(BX)
	MOVB R15, -63(BX)
	MOVB CX, -62(BX)
	MOVB AX, -61(BX)
	MOVB $10, -60(BX)
	MOVL $1, AX               // write
	MOVL $6, DI               // boot.FDReady
	LEAQ -64(BX), SI
	MOVL $5, DX
	SYSCALL
	MOVL $231, AX             // exit_group
	MOVL $1, DI
	SYSCALL
	INT  $3
