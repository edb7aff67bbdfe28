// Package arrival reports when the kernel received the data that a program reads from a TCP connection. Unlike the time
// when a read returns, it does not contain the time that a goroutine waits for a processor.
package arrival

import (
	"crypto/tls"
	"net"
)

// Clock is implemented by connections that know when the data of the last read arrived.
type Clock interface {
	// Arrived returns the Unix time in ns, or 0 if it is unknown.
	Arrived() int64
}

// Of returns the clock of a connection, with or without TLS, or nil.
func Of(c net.Conn) Clock {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	clock, _ := c.(Clock)
	return clock
}
