//go:build !linux

package comm

// pinRank does nothing: only Linux has GPUs that are measured.
func pinRank(int, string) {}
