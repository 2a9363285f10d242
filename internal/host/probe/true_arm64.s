#include "textflag.h"

// func trueAddress() uintptr
TEXT ·trueAddress(SB), NOSPLIT, $0-8
	MOVD $·true(SB), R0
	MOVD R0, ret+0(FP)
	RET

TEXT ·true(SB), NOSPLIT|NOFRAME, $0
	MOVD $94, R8 // exit_group
	MOVD $0, R0
	SVC
