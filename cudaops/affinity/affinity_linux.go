package affinity

import (
	"syscall"
	"unsafe"
)

// cpuSet is a bit for each of 8192 processors.
type cpuSet [128]uint64

// Get returns the processors that the calling thread may run on, lowest first.
func Get() ([]int, error) {
	var set cpuSet
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		return nil, errno
	}
	var out []int
	for i := range len(set) * 64 {
		if set[i/64]&(1<<(i%64)) != 0 {
			out = append(out, i)
		}
	}
	return out, nil
}

// Set keeps the calling thread on these processors: the caller has locked its
// goroutine to the thread.
func Set(cpus []int) {
	var set cpuSet
	for _, c := range cpus {
		set[c/64] |= 1 << (c % 64)
	}
	// A thread that may not be pinned works all the same.
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
}
