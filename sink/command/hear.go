package command

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Hear copies what comes by a pipe to its end, or until its deadline. After a pause of
// this process that has passed though the last words of a process that is gone are
// there still; they are no more than a pipe holds. A writer that fails gets the rest
// all the same: a program must not wait for ever for room in its pipe.
func Hear(r *os.File, to io.Writer) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n = ReadThere(r, buf)
		}
		if n > 0 {
			_, _ = to.Write(buf[:n]) // what cannot be shown is lost
		}
		if err != nil {
			return
		}
	}
}

// ReadThere reads what lies in a pipe, whose deadline may have passed, and waits for
// nothing; 0 where nothing is there. A read after it has a deadline that has passed.
func ReadThere(f *os.File, b []byte) (n int) {
	raw, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil { // with one that has passed, nothing is read
		return 0
	}
	err = raw.Read(func(fd uintptr) bool {
		err := error(syscall.EINTR)
		for err == syscall.EINTR {
			n, err = syscall.Read(int(fd), b)
		}
		return true
	})
	if err != nil || f.SetReadDeadline(time.Now()) != nil {
		return 0
	}
	return max(n, 0)
}
