#include "textflag.h"

// func stageAddress() uintptr
TEXT ·stageAddress(SB), NOSPLIT, $0-8
	MOVD $·stageCode(SB), R0
	MOVD R0, ret+0(FP)
	RET

// CALL makes a system call; an error ends the program.
#define CALL(number) \
	MOVD $number, R8 \
	SVC              \
	TBNZ $63, R0, failed

// stageCode is the program of Stage. At its entry SP is at argc, which argv and
// environ follow (the System V ABI). It uses no address but of its own jumps.
TEXT ·stageCode(SB), NOSPLIT|NOFRAME, $0
	MOVD RSP, R19
	MOVD $'n', R20
	MOVD $0, R0
	MOVD $1, R1
	MOVD $0, R2
	CALL(24)                  // dup3
	MOVD $0x10020000, R0      // CLONE_NEWUSER | CLONE_NEWNS
	CALL(97)                  // unshare
	MOVD $'m', R20
	ADD  $16, R19, R21        // argv[1]
	MOVD $3, R22
pair:
	MOVD $-100, R0            // AT_FDCWD
	MOVD (R21), R1
	MOVD $0x80001, R2         // O_WRONLY | O_CLOEXEC
	MOVD $0, R3
	CALL(56)                  // openat
	MOVD R0, R23
	MOVD 8(R21), R1
	MOVD $0, R2
length:
	MOVBU (R1)(R2), R4
	CBZ  R4, write
	ADD  $1, R2
	JMP  length
write:
	MOVD R23, R0
	CALL(64)                  // write
	MOVD R23, R0
	CALL(57)                  // close
	ADD  $16, R21
	SUB  $1, R22
	CBNZ R22, pair
	MOVD $'x', R20
	MOVD (R21), R0            // argv[7]
	ADD  $8, R21, R1          // what follows it
	MOVD (R19), R2
	ADD  R2<<3, R19, R2
	ADD  $16, R2, R2          // environ
	CALL(221)                 // execve
failed:
	NEG  R0, R0
	LSR  $4, R0, R4
	AND  $15, R4, R4
	AND  $15, R0, R5
	ADD  $'a', R4
	ADD  $'a', R5
	MOVD $'!', R6
	MOVB R6, -64(R19)
	MOVB R20, -63(R19)
	MOVB R4, -62(R19)
	MOVB R5, -61(R19)
	MOVD $10, R6
	MOVB R6, -60(R19)
	MOVD $64, R8              // write
	MOVD $6, R0               // boot.FDReady
	SUB  $64, R19, R1
	MOVD $5, R2
	SVC
	MOVD $94, R8              // exit_group
	MOVD $1, R0
	SVC
	BRK
