//go:build !linux

package affinity

import "errors"

// Get returns an error, because thread affinity is only supported on Linux.
func Get() ([]int, error) {
	return nil, errors.New("the processors of a thread are known on Linux only")
}

// Set does nothing.
func Set([]int) {}
