//go:build !linux

package worker

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// On systems without /proc a worker's process group is all that can be found:
// children that left it outlive their worker, and memory growth is not seen.

// ProcAttr puts a child into its own process group.
func ProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func noCoreDumps(int) {}

func ownMarker(slot, unique string) string {
	return strings.Join([]string{"?", strconv.Itoa(os.Getpid()), "?", slot, unique}, ":")
}

func descendants(int) []int { return nil }

func killMarked(string) int { return 0 }

// Started finds nothing on this system.
func Started(int) bool { return false }

// ReapOrphans finds nothing on this system.
func ReapOrphans() int { return 0 }

// WithVariable finds nothing on this system.
func WithVariable(string, string) []int { return nil }

// InGroup finds nothing on this system.
func InGroup(int) []int { return nil }

// CommandOf knows nothing on this system.
func CommandOf(int) string { return "" }

func rssBytes(int) int64 { return 0 }

func takeStandard() (in, out *os.File, err error) { return os.Stdin, os.Stdout, nil }
