package wire

// usualUmask is the umask of a process for which no other is asked for: only the user may
// write (umask(2)).
const usualUmask = 0o022

// A Umask is the umask of a process inside. The zero Umask is 022. It has no bit of the owner's:
// with such a umask a program could not use what it makes.
type Umask uint8

// UmaskOf returns mask as a Umask, without the owner's bits.
func UmaskOf(mask uint32) Umask { return Umask((mask ^ usualUmask) & 0o077) }

// Mask returns the umask as umask(2) takes it.
func (u Umask) Mask() int { return int(u) ^ usualUmask }
