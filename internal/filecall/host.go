package filecall

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host reads what /proc says of the machine.
func host() (*Host, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	h := &Host{}
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != "cpu" {
			h.CPUs++
			continue
		}
		for i, text := range f[1:min(len(f), 9)] { // guest time is part of user time
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, err
			}
			h.Total += n
			if i != 3 && i != 4 { // idle, iowait
				h.Busy += n
			}
		}
	}
	mem, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mem)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 50)
		switch {
		case err != nil:
		case f[0] == "MemTotal:":
			h.MemTotal = n << 10
		case f[0] == "MemAvailable:":
			h.MemUnused = n << 10
		case f[0] == "Cached:":
			h.MemCache = n << 10
		}
	}
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs("/", &st) }); err != nil {
		return nil, err
	}
	h.DiskTotal = st.Blocks * uint64(st.Bsize)
	h.DiskUsed = h.DiskTotal - min(h.DiskTotal, st.Bavail*uint64(st.Bsize))
	return h, nil
}
