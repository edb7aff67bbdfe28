package worker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Output runs a command as cmd.Output does. What the command has started may keep its
// output open: that is heard for so long after its end. Unlike with cmd.WaitDelay,
// what it printed itself is there also where this process was stopped meanwhile.
func Output(cmd *exec.Cmd, after time.Duration) ([]byte, error) {
	var out, said bytes.Buffer
	var ours, theirs []*os.File
	done := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	defer func() { done(ours) }()
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			done(theirs)
			return nil, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	cmd.Stdout, cmd.Stderr = theirs[0], theirs[1]
	err := cmd.Start()
	done(theirs)
	if err != nil {
		return nil, err
	}
	var heard sync.WaitGroup
	for i, to := range []io.Writer{&out, &said} {
		heard.Go(func() { Hear(ours[i], to) })
	}
	err = cmd.Wait()
	for _, r := range ours {
		_ = r.SetReadDeadline(time.Now().Add(after)) // a pipe has deadlines
	}
	heard.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		exit.Stderr = said.Bytes()
	}
	return out.Bytes(), err
}

// Hear copies what comes by a pipe to its end, or until its deadline. After a pause of
// this process that has passed though the last words of a process that is gone are
// there still; they are no more than a pipe holds.
func Hear(r *os.File, to io.Writer) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			n = ReadThere(r, buf)
		}
		if n > 0 {
			_, _ = to.Write(buf[:n]) // neither a buffer nor a server's log fails
		}
		if err != nil {
			return
		}
	}
}
