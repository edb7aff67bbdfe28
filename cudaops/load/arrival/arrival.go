// Package arrival reports when the kernel received the data that a program reads from a TCP connection. Unlike the time
// when a read returns, it does not contain the time that a goroutine waits for a processor.
package arrival

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
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

// Closed reports whether the peer has closed an idle connection.
func Closed(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}

	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}

	gone := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && !errors.Is(err, syscall.EAGAIN)
		return true
	})
	return gone || err != nil
}
