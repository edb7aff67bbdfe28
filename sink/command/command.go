// Package command runs programs and hears what they print to its end, also where this
// process was stopped (Ctrl-Z, a frozen container, an overloaded machine) in the moment
// of that end: cmd.WaitDelay of os/exec drops it then, and fails a program that ended well.
package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Running is a program whose output is heard.
type Running struct {
	cmd   *exec.Cmd
	ours  []*os.File // where its output comes in
	heard sync.WaitGroup
}

// unread bounds the wait for input that the program has left unread and that what it
// has started keeps open.
const unread = time.Second

// Start starts a command. What it and its descendants print goes to cmd.Stdout and
// cmd.Stderr; one writer for both gets it in order. Wait waits for the command's end,
// and Hear for the rest of what is printed.
func Start(cmd *exec.Cmd) (*Running, error) {
	r := &Running{cmd: cmd}
	var theirs []*os.File
	done := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	both := cmd.Stdout != nil && cmd.Stdout == cmd.Stderr
	for _, to := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		if both && to == &cmd.Stderr {
			cmd.Stderr = cmd.Stdout
			break
		}
		w := *to
		if _, direct := w.(*os.File); w == nil || direct {
			continue
		}
		in, out, err := os.Pipe()
		if err != nil {
			done(theirs)
			done(r.ours)
			r.heard.Wait()
			return nil, err
		}
		r.ours, theirs = append(r.ours, in), append(theirs, out)
		r.heard.Go(func() { Hear(in, w) })
		*to = out
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = unread
	}
	err := cmd.Start()
	done(theirs)
	if err != nil {
		r.heard.Wait() // nobody has the other ends
		done(r.ours)
		return nil, err
	}
	return r, nil
}

// Wait waits for the end of the program, not for that of its output, and says how it
// ended. Of one that ended well there is no error, though it may have left its input
// unread, or its time may have run out while this process was stopped.
func (r *Running) Wait() error {
	err := r.cmd.Wait()
	if s := r.cmd.ProcessState; s != nil && s.Success() &&
		(errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// Hear hears the rest after Wait. What the program has started may keep its output
// open: that is heard for so long.
func (r *Running) Hear(after time.Duration) {
	for _, in := range r.ours {
		_ = in.SetReadDeadline(time.Now().Add(after)) // a pipe has deadlines
	}
	r.heard.Wait()
	for _, in := range r.ours {
		in.Close()
	}
}

// Run runs a command as cmd.Run does, and hears what it has started for so long after
// its end.
func Run(cmd *exec.Cmd, after time.Duration) error {
	r, err := Start(cmd)
	if err != nil {
		return err
	}
	err = r.Wait()
	r.Hear(after)
	return err
}

// Output runs a command as cmd.Output does, and hears what it has started for so long
// after its end.
func Output(cmd *exec.Cmd, after time.Duration) ([]byte, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := Run(cmd, after)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		exit.Stderr = said.Bytes()
	}
	return out.Bytes(), err
}
