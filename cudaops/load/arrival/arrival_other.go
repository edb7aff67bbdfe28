//go:build !linux

package arrival

import "net"

// Conn returns c.
func Conn(c net.Conn) net.Conn { return c }
