//go:build !amd64

package attack

import "golang.org/x/sys/unix"

// Calls that only x86-64 has are numbers that no kernel has.
const (
	sysIopl, sysIoperm                                = 9000, 9001
	sysCreateModule, sysGetKernelSyms, sysQueryModule = 9002, 9003, 9004
	sysNFSServctl, sysUselib, sysSysctl, sysSysfs     = 9005, 9006, 9007, 9008
	sysLookupDcookie, sysVserver                      = 9009, 9010
)

// int80 refuses: there is no such gate.
func int80(uint32) int32 { return -int32(unix.ENOSYS) }
