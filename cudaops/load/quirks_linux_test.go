package load

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRequestsThatNobodyReadAreSentAgain has a server that closes each connection
// with its answer: the next request finds nobody and goes out again.
//
// The answer and the end of the connection leave in one segment. Otherwise a client
// could send its next request before the end, and a server that ends with a request
// unread looks as one that died over it.
func TestRequestsThatNobodyReadAreSentAgain(t *testing.T) {
	t.Parallel()
	addr := rawServer(t, "tcp", "127.0.0.1:0", func(c net.Conn, _ int) bool {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1); err != nil {
					t.Error(err)
				}
				if _, err := unix.Write(int(fd), []byte(withLength("", streamBody))); err != nil {
					t.Error(err)
				}
				if err := unix.Shutdown(int(fd), unix.SHUT_RDWR); err != nil {
					t.Error(err)
				}
			})
		}
		if err != nil {
			t.Error(err)
		}
		return false
	})
	s := quick()
	s.URL, s.Concurrency, s.Requests, s.Timeout, s.CacheReset = addr, 2, 6, 10, ResetNever
	res, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if sum := res.Profiling.Summary; sum.Succeeded != 6 {
		t.Errorf("%d succeeded: %+v", sum.Succeeded, sum.Errors)
	}
	if res.Resent == 0 {
		t.Error("no request was sent again")
	}
}
