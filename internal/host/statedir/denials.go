package statedir

import "golang.org/x/sys/unix"

// denialsPart is the offset in the lock file from which on the tree server locks a byte for
// each denial. So a process reads how many there were without asking another one, denials do
// not wait for a disk, and the count ends with the tree server. The size of the log cannot stand
// for it: the log is written later, leaves out what comes too fast, and begins anew when it is full.
const denialsPart = 1 << 32

// CountDenials shows that there were n denials, more than before, by the tree server's
// descriptor of the lock. It does not block, and several goroutines may call it.
func CountDenials(lock int, n int64) error {
	return unix.FcntlFlock(uintptr(lock), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: denialsPart, Len: n})
}

// Denials returns how many denials there were since the tree server was started; 0 without a
// tree server.
func (rec *Record) Denials() (int64, error) {
	lk := unix.Flock_t{Type: unix.F_RDLCK, Start: denialsPart}
	if err := rec.query(&lk); err != nil {
		return 0, err
	}
	if lk.Type == unix.F_UNLCK || lk.Start != denialsPart {
		return 0, nil
	}
	return lk.Len, nil
}
