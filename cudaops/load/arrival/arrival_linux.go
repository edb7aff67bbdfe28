package arrival

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// conn is a TCP connection that keeps the arrival of the data of its last read. Its system calls do not block, so that
// they need not be announced to Go's scheduler, which may start another thread for the time of a call.
type conn struct {
	*net.TCPConn
	raw           syscall.RawConn
	receive, send func(fd uintptr) bool // receiveOnce and sendOnce, bound once so that calls do not allocate

	// In and out parameters of receive. The message is kept, because that of unix.Recvmsg is allocated by each call.
	n       int
	err     error
	at      int64 // Unix time in ns of the last data, or 0 if the kernel did not report it
	buf     unix.Iovec
	message unix.Msghdr
	control [64]byte

	// In and out parameters of send.
	unsent []byte
	failed error
}

// Conn returns a connection with a Clock, or c if the kernel does not report arrivals for it.
func Conn(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}

	raw, err := t.SyscallConn()
	if err != nil {
		return c
	}

	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
	})
	if err != nil || failed != nil {
		return c
	}

	a := &conn{TCPConn: t, raw: raw}
	a.message.Iov, a.message.Iovlen, a.message.Control = &a.buf, 1, &a.control[0]
	a.receive, a.send = a.receiveOnce, a.sendOnce
	return a
}

// Arrived implements Clock.
func (a *conn) Arrived() int64 { return a.at }

// Read implements net.Conn.
func (a *conn) Read(b []byte) (int, error) {
	a.n, a.err, a.at = 0, nil, 0
	a.buf.Base = unsafe.SliceData(b)
	a.buf.SetLen(len(b))
	err := a.raw.Read(a.receive)
	a.buf.Base = nil
	switch {
	case err != nil:
		return 0, err
	case a.err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: a.LocalAddr(), Addr: a.RemoteAddr(),
			Err: os.NewSyscallError("recvmsg", a.err)}
	case a.n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return a.n, nil
}

// receiveOnce reads without blocking. It returns false if there is nothing to read yet.
func (a *conn) receiveOnce(fd uintptr) bool {
	var n uintptr
	failed := unix.EINTR
	for failed == unix.EINTR {
		a.message.SetControllen(len(a.control))
		n, _, failed = unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&a.message)), unix.MSG_DONTWAIT)
	}
	if failed == unix.EAGAIN {
		return false
	}
	if failed != 0 {
		a.err = failed
		return true
	}

	a.n = int(n)
	if control := a.message.Controllen; control > 0 {
		header, data, _, err := unix.ParseOneSocketControlMessage(a.control[:control])
		if err == nil && header.Type == unix.SO_TIMESTAMPNS_NEW && len(data) >= 16 {
			// Seconds and nanoseconds in the byte order of the machine.
			s, ns := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
			a.at = int64(s)*1e9 + int64(ns)
		}
	}
	return true
}

// Write implements net.Conn.
func (a *conn) Write(b []byte) (int, error) {
	a.unsent, a.failed = b, nil
	err := a.raw.Write(a.send)
	n := len(b) - len(a.unsent)
	a.unsent = nil
	if err == nil && a.failed != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: a.LocalAddr(), Addr: a.RemoteAddr(),
			Err: os.NewSyscallError("write", a.failed)}
	}
	return n, err
}

// sendOnce writes without blocking. It returns false if the rest cannot be written yet.
func (a *conn) sendOnce(fd uintptr) bool {
	for len(a.unsent) > 0 {
		n, _, failed := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(a.unsent))),
			uintptr(len(a.unsent)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch failed {
		case 0:
			a.unsent = a.unsent[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			a.failed = failed
			return true
		}
	}
	return true
}
