//go:build !linux

// Package resident does nothing on this system.
package resident

// Release does nothing on this system.
func Release() {}
