package server

import (
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/sink/base/proc"
)

// Spec describes how to start a server.
type Spec struct {
	Command []string
	Env     []string // "NAME=value", added to this process's environment
	Dir     string   // "" means this process's directory
	// Output reads stdout and stderr until an error. Nil discards them.
	Output func(io.Reader)
}

// Process is a running server. Its methods are safe for concurrent use.
type Process struct {
	*proc.Tree
	output *os.File
	read   chan struct{} // closed when the output has been read
}

// Start starts a server. It returns an error if the command cannot be run.
func Start(spec Spec) (*Process, error) {
	path, err := exec.LookPath(spec.Command[0])
	if err != nil {
		return nil, err
	}

	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(path)
	cmd.Args = spec.Command
	cmd.Dir = spec.Dir

	// Do not pass the worker's file descriptors to the server. The worker has the variables of the runtime as
	// the plan states them; one that is a placeholder is in spec.Env if the case has a value.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		_, value, _ := strings.Cut(kv, "=")
		return Placeholder(value) || strings.HasPrefix(kv, worker.EnvFDIn+"=") || strings.HasPrefix(kv, worker.EnvFDOut+"=")
	})
	cmd.Env = append(cmd.Env, spec.Env...)
	cmd.Stdout, cmd.Stderr = w, w

	tree, err := proc.Start(cmd)
	_ = w.Close() // the server has inherited a copy
	if err != nil {
		_ = r.Close()
		return nil, err
	}

	p := &Process{Tree: tree, output: r, read: make(chan struct{})}
	go func() {
		defer close(p.read)
		if spec.Output != nil {
			spec.Output(r)
		}
		_, _ = io.Copy(io.Discard, r) // until EOF or the deadline in Stop
	}()

	return p, nil
}

// Stop stops the server's processes like proc.Tree.Stop and reads the rest of their output.
func (p *Process) Stop(sig syscall.Signal, within time.Duration) proc.Stopped {
	out := p.Tree.Stop(sig, within)

	// A process stuck in the kernel may still have the pipe open.
	_ = p.output.SetReadDeadline(time.Now().Add(time.Second))
	<-p.read
	_ = p.output.Close()

	return out
}
