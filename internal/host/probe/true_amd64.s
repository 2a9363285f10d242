#include "textflag.h"

// func trueAddress() uintptr
TEXT ·trueAddress(SB), NOSPLIT, $0-8
	LEAQ ·true(SB), AX
	MOVQ AX, ret+0(FP)
	RET

TEXT ·true(SB), NOSPLIT|NOFRAME, $0
	MOVL $231, AX // exit_group
	XORL DI, DI
	SYSCALL
