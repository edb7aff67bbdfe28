package affinity

import "golang.org/x/sys/unix"

// Get returns the CPUs on which the calling thread may run, in ascending order.
func Get() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}

	var out []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out, nil
}

// Set binds the calling thread to the given CPUs. The caller must have locked its goroutine to the thread.
// Errors are ignored, because not all systems permit it.
func Set(cpus []int) {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	_ = unix.SchedSetaffinity(0, &set)
}
