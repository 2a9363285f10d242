package attack

import "golang.org/x/sys/unix"

// Calls that only x86-64 has.
const (
	sysIopl, sysIoperm                                = unix.SYS_IOPL, unix.SYS_IOPERM
	sysCreateModule, sysGetKernelSyms, sysQueryModule = 174, 177, 178
	sysNFSServctl, sysUselib, sysSysctl, sysSysfs     = 180, 134, 156, 139
	sysLookupDcookie, sysVserver                      = 212, 236
)
