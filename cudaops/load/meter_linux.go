package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// usage returns the CPU time that the process has used and its peak memory in MiB. Both are 0 if they are unknown.
func usage() (cpu time.Duration, rss float64) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Maxrss) / 1024 // from KiB
}
