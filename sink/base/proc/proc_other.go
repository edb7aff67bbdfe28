//go:build !linux

package proc

import (
	"errors"
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

type process struct {
	pid, session int
	start        string
}

func processes() []process { return nil }

func statOf(int) (process, bool) { return process{}, false }

func (process) mark() string { return "" }

func space() string { return "" }

// CommandLine returns "", because command lines are only read on Linux.
func CommandLine(int) string { return "" }

// RSS returns 0, because memory is only read on Linux.
func RSS(int) int64 { return 0 }

// NoCoreDumps does nothing.
func NoCoreDumps(int) {}

// TakeStandard returns standard input and output.
func TakeStandard() (in, out *os.File, err error) { return os.Stdin, os.Stdout, nil }

// CPUs returns an error, because thread affinity is only supported on Linux.
func CPUs() ([]int, error) { return nil, errors.New("the CPUs of a thread can be read on Linux only") }

// SetCPUs does nothing.
func SetCPUs([]int) {}
