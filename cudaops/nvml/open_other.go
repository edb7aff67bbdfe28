//go:build !linux || !cgo

package nvml

// Open returns ErrNotBuilt.
func Open() (API, error) { return nil, ErrNotBuilt }
