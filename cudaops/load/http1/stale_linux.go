package http1

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is the connection's socket; false for what is none.
func socket(c net.Conn) (raw syscall.RawConn, ok bool, err error) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, false, nil
	}
	raw, err = sc.SyscallConn()
	return raw, true, err
}

func stale(c net.Conn) bool {
	raw, ok, err := socket(c)
	if !ok {
		return false
	}
	if err != nil {
		return true
	}
	gone := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = err != unix.EAGAIN
		return true
	})
	return gone || err != nil
}

// tcpClosed is TCP_CLOSE of tcp_states.h.
const tcpClosed = 7

// How long the server's kernel has to say whether a request found somebody.
const (
	unreadWithin = 200 * time.Millisecond
	unreadStep   = time.Millisecond
)

// unread says that the peer had closed a connection before what was written last
// came. Its kernel acknowledges what a living socket takes, and answers what comes
// after the end with a reset: a server that read the request and then gave up has
// acknowledged it.
func unread(c net.Conn) bool {
	raw, ok, err := socket(c)
	if !ok || err != nil {
		return false
	}
	for until := time.Now().Add(unreadWithin); ; time.Sleep(unreadStep) {
		var info *unix.TCPInfo
		cerr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO) })
		switch {
		case cerr != nil || err != nil:
			return false
		case info.State == tcpClosed:
			return true
		case info.Unacked == 0 || time.Now().After(until):
			return false
		}
	}
}
