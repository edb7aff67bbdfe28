//go:build !linux

package comm

// coreFor returns nothing, because GPUs are only measured on Linux.
func coreFor(int, string) (all, core []int) { return nil, nil }
