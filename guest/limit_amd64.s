#include "textflag.h"

// func limitAddress() uintptr
TEXT ·limitAddress(SB), NOSPLIT, $0-8
	LEAQ ·limitCode(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// NUMBER reads the argument at an offset of the stack: 'a' to 'p' for four bits each.
#define NUMBER(offset, to, next, end) \
	MOVQ  offset(BX), SI \
	XORQ  to, to         \
next:                        \
	MOVBLZX (SI), AX     \
	TESTL AX, AX         \
	JZ    end            \
	SUBL  $97, AX        \
	SHLQ  $4, to         \
	ORQ   AX, to         \
	INCQ  SI             \
	JMP   next           \
end:

// CLOSE has a descriptor closed by execve.
#define CLOSE(fd) \
	MOVL $72, AX  \ // fcntl
	MOVQ fd, DI   \
	MOVL $2, SI   \ // F_SETFD
	MOVL $1, DX   \ // FD_CLOEXEC
	SYSCALL

// LIMIT lowers a limit of this process to n, unless n is 0.
#define LIMIT(resource, n, soft, hard, done) \
	TESTQ   n, n         \
	JZ      done         \
	MOVL    $302, AX     \ // prlimit64
	XORL    DI, DI       \
	MOVL    $resource, SI \
	XORL    DX, DX       \
	LEAQ    -64(BX), R10 \
	SYSCALL              \
	TESTQ   AX, AX       \
	JNZ     failed       \
	CMPQ    n, -56(BX)   \
	JCC     hard         \
	MOVQ    n, -56(BX)   \
hard:                        \
	CMPQ    n, -64(BX)   \
	JCC     soft         \
	MOVQ    n, -64(BX)   \
soft:                        \
	MOVL    $302, AX     \
	XORL    DI, DI       \
	MOVL    $resource, SI \
	LEAQ    -64(BX), DX  \
	XORL    R10, R10     \
	SYSCALL              \
	TESTQ   AX, AX       \
	JNZ     failed       \
done:

// limitCode is the program of limitProgram. At its entry SP is at argc, which argv and
// environ follow (the System V ABI). It uses no address but of its own jumps.
TEXT ·limitCode(SB), NOSPLIT|NOFRAME, $0
	MOVQ SP, BX
	NUMBER(16, R12, nextfd, endfd)
	NUMBER(24, R13, nextpids, endpids)
	NUMBER(32, R14, nextdata, enddata)
	CLOSE(R12)
	LEAQ 1(R12), R15
	CLOSE(R15)
	LIMIT(2, R14, datasoft, datahard, datadone)
	LIMIT(6, R13, pidssoft, pidshard, pidsdone)
	MOVL $59, AX              // execve
	MOVQ 40(BX), DI           // argv[4]
	LEAQ 48(BX), SI           // what follows it
	MOVQ (BX), DX
	LEAQ 16(BX)(DX*8), DX     // environ
	SYSCALL
failed:
	NEGQ AX
	MOVQ AX, -64(BX)
	MOVL $1, AX               // write
	MOVQ R12, DI
	LEAQ -64(BX), SI
	MOVL $4, DX
	SYSCALL
	MOVL $231, AX             // exit_group
	MOVL $1, DI
	SYSCALL
	INT  $3
