//go:build !linux

package comm

// coreFor finds nothing: only Linux has GPUs that are measured.
func coreFor(int, string) (all, core []int) { return nil, nil }
