#include "textflag.h"

// func address() uintptr
TEXT ·address(SB), NOSPLIT, $0-8
	MOVD $·code(SB), R0
	MOVD R0, ret+0(FP)
	RET

// code is the program. At its entry SP is at argc, which argv and environ follow (the System V ABI). It uses no address but
// of its own jumps.
TEXT ·code(SB), NOSPLIT|NOFRAME, $0
	MOVD RSP, R19
	MOVD (R19), R0            // monitor VERSION TOKEN
	CMP  $3, R0
	BNE  failed
	MOVD 16(R19), R1
	MOVHU (R1), R0
	CMP  $0x32, R0            // "2"
	BNE  failed
	ADD  $40, R19, R2         // environ
	MOVD $0x45444e495f544947, R9  // "GIT_INDE"
	MOVD $0x003d454c49465f58, R10 // "X_FILE="
	MOVD $0x00ffffffffffffff, R11
	MOVD $0x3d5249445f544947, R12 // "GIT_DIR="
variable:
	MOVD.P 8(R2), R1
	CBZ  R1, name
	MOVD (R1), R0
	CMP  R12, R0
	BEQ  failed
	CMP  R9, R0
	BNE  variable
	MOVD 8(R1), R0
	AND  R11, R0, R0
	CMP  R10, R0
	BEQ  failed
	B    variable
name:
	SUB  $512, R19, R20
	MOVD $0x616966666c6f772e, R0 // ".wolffia"
	MOVD R0, (R20)
	MOVD $0x6465676e6168632d, R0 // "-changed"
	MOVD R0, 8(R20)
	MOVD $0x2e, R0
	MOVB R0, 16(R20)
	ADD  $17, R20, R3
	MOVD 24(R19), R1          // TOKEN
	MOVD $200, R4
token:
	MOVBU.P 1(R1), R0
	MOVB.P  R0, 1(R3)
	CBZ  R0, sync
	SUB  $1, R4, R4
	CBNZ R4, token
	B    failed
sync:
	SUB  $528, R19, R21
	MOVD $0x2e, R0            // "."
	MOVD R0, (R21)
	MOVD $56, R8              // openat
	MOVD $-100, R0            // AT_FDCWD
	MOVD R21, R1
	MOVD $0x84000, R2         // O_RDONLY|O_DIRECTORY|O_CLOEXEC
	SVC
	TBNZ $63, R0, failed
	MOVD $267, R8             // syncfs
	SVC
	TBNZ $63, R0, failed
	MOVD $16, R5              // attempts
open:
	MOVD $56, R8              // openat
	MOVD $-100, R0
	MOVD R20, R1
	MOVD $0x88000, R2         // O_RDONLY|O_NOFOLLOW|O_CLOEXEC
	SVC
	TBZ  $63, R0, opened
	CMN  $116, R0             // ESTALE: the answer has changed between two lookups
	BNE  failed
	SUB  $1, R5, R5
	CBNZ R5, open
	B    failed
opened:
	MOVD R0, R20
	MOVD $70000, R22
	SUB  R22, R19, R22
next:
	MOVD $63, R8              // read
	MOVD R20, R0
	MOVD R22, R1
	MOVD $65536, R2
	SVC
	TBNZ $63, R0, failed
	CBZ  R0, done
	MOVD R0, R23              // bytes left
	MOVD R22, R24
more:
	MOVD $64, R8              // write
	MOVD $1, R0
	MOVD R24, R1
	MOVD R23, R2
	SVC
	CMP  $0, R0
	BLE  failed
	ADD  R0, R24, R24
	SUB  R0, R23, R23
	CBNZ R23, more
	B    next
done:
	MOVD $0, R0
	B    exit
failed:
	MOVD $1, R0
exit:
	MOVD $94, R8              // exit_group
	SVC
	BRK
