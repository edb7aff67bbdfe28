package runtimes

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// TestPlainPython checks that a plan runs only an interpreter of the machine, without variables that
// load code into it.
func TestPlainPython(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		python string
		env    map[string]string
		want   bool
	}{
		{"", nil, true},
		{"python3", map[string]string{"PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": "0"}, true},
		{"/opt/venv/bin/python3.12", nil, true},
		{"./python3", nil, false},
		{"venv/bin/python3", nil, false},
		{"/bin/sh", nil, false},
		{"evil", nil, false},
		{"", map[string]string{"PYTHONPATH": "."}, false},
		{"", map[string]string{"LD_PRELOAD": "./x.so"}, false},
	} {
		rt := &stage.Runtime{Kind: "python", Python: c.python, Env: c.env}
		if got := plainPython(rt); got != c.want {
			t.Errorf("%q %v: %v", c.python, c.env, got)
		}
	}
}

// TestPlanPassesNoVariablesToInterpreter checks that an interpreter does not get the plan's variables while a plan
// is made, because a wrapper could interpret them.
func TestPlanPassesNoVariablesToInterpreter(t *testing.T) {
	t.Parallel()
	p := NewPools(Kinds())
	defer p.Close()
	python := interpreter(t, `printf "${BASH_ENV:-1.0}"`)
	rt := &stage.Runtime{Address: "runtime.x", Kind: "python", Package: "acme", Python: python,
		Env: map[string]string{"BASH_ENV": "2.0"}}
	if text, err := p.Framework(t.Context(), rt); err != nil || text != "acme 1.0" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestPlanContactsNoServer checks that only runs connect to the server of an endpoint runtime, not plans
// that are only read.
func TestPlanContactsNoServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	came := make(chan struct{}, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(came)
				return
			}
			came <- struct{}{}
			c.Close()
		}
	}()
	pools := NewPools(Kinds())
	defer pools.Close()
	rt := &stage.Runtime{Kind: "endpoint", Address: "runtime.e",
		Options: map[string]cty.Value{"url": cty.StringVal(ln.Addr().String())}}
	if m := pools.Lacking(t.Context(), rt); m != nil {
		t.Errorf("a plan says %v", m)
	}
	if m := pools.Lacking(Reaching(t.Context()), rt); m != nil {
		t.Errorf("a run says %v", m)
	}
	<-came // the run's
	ln.Close()
	if _, more := <-came; more {
		t.Error("the plan came, too")
	}
	rt.Options["url"] = cty.StringVal(silent(t))
	if m := pools.Lacking(Running(t.Context()), rt); m == nil {
		t.Error("a preflight sees a server where none is")
	}
}

// silent returns an address of a socket that does not listen. The address of a closed listener may be
// reused, and it accepts connections until the last child that was forked in the meantime has called
// exec.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
}
