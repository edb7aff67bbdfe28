//go:build !linux

package affinity

import "errors"

// Get returns an error: threads are kept in place on Linux only.
func Get() ([]int, error) {
	return nil, errors.New("the processors of a thread are known on Linux only")
}

// Set does nothing.
func Set([]int) {}
