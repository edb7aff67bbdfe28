package affinity

import "golang.org/x/sys/unix"

// Get returns the processors that the calling thread may run on, in ascending order.
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

// Set binds the calling thread to the given processors. The caller has locked its
// goroutine to the thread. A system that does not permit this is no error.
func Set(cpus []int) {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	_ = unix.SchedSetaffinity(0, &set)
}
