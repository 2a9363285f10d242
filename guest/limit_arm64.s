#include "textflag.h"

// func limitAddress() uintptr
TEXT ·limitAddress(SB), NOSPLIT, $0-8
	MOVD $·limitCode(SB), R0
	MOVD R0, ret+0(FP)
	RET

// NUMBER reads the argument at an offset of the stack: 'a' to 'p' for four bits each.
#define NUMBER(offset, to, next, end) \
	MOVD  offset(R19), R1 \
	MOVD  $0, to          \
next:                         \
	MOVBU.P 1(R1), R2     \
	CBZ   R2, end         \
	SUB   $97, R2         \
	ORR   to<<4, R2, to   \
	JMP   next            \
end:

// CLOSE has a descriptor closed by execve.
#define CLOSE(fd) \
	MOVD $25, R8  \ // fcntl
	MOVD fd, R0   \
	MOVD $2, R1   \ // F_SETFD
	MOVD $1, R2   \ // FD_CLOEXEC
	SVC

// LIMIT lowers a limit of this process to n, unless n is 0.
#define LIMIT(resource, n, done) \
	CBZ  n, done         \
	MOVD $261, R8        \ // prlimit64
	MOVD $0, R0          \
	MOVD $resource, R1   \
	MOVD $0, R2          \
	SUB  $64, R19, R3    \
	SVC                  \
	CBNZ R0, failed      \
	MOVD -64(R19), R4    \
	MOVD -56(R19), R5    \
	CMP  R4, n           \
	CSEL LO, n, R4, R4   \
	CMP  R5, n           \
	CSEL LO, n, R5, R5   \
	MOVD R4, -64(R19)    \
	MOVD R5, -56(R19)    \
	MOVD $261, R8        \
	MOVD $0, R0          \
	MOVD $resource, R1   \
	SUB  $64, R19, R2    \
	MOVD $0, R3          \
	SVC                  \
	CBNZ R0, failed      \
done:

// limitCode is the program of limitProgram. At its entry SP is at argc, which argv and
// environ follow (the System V ABI). It uses no address but of its own jumps.
TEXT ·limitCode(SB), NOSPLIT|NOFRAME, $0
	MOVD RSP, R19
	NUMBER(16, R20, nextfd, endfd)
	NUMBER(24, R21, nextpids, endpids)
	NUMBER(32, R22, nextdata, enddata)
	CLOSE(R20)
	ADD  $1, R20, R23
	CLOSE(R23)
	LIMIT(2, R22, datadone)
	LIMIT(6, R21, pidsdone)
	MOVD $221, R8             // execve
	MOVD 40(R19), R0          // argv[4]
	ADD  $48, R19, R1         // what follows it
	MOVD (R19), R2
	ADD  R2<<3, R19, R2
	ADD  $16, R2, R2          // environ
	SVC
failed:
	NEG  R0, R0
	MOVD R0, -64(R19)
	MOVD $64, R8              // write
	MOVD R20, R0
	SUB  $64, R19, R1
	MOVD $4, R2
	SVC
	MOVD $94, R8              // exit_group
	MOVD $1, R0
	SVC
	BRK
