package fileutil

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// abandonedAfter is how old a temporary file must be before it can be one that
// a killed writer left behind: no writer takes so long to lock its own.
const abandonedAfter = time.Minute

// lockTemp marks a temporary file as being written. Where the file system has no
// locks nothing is ever swept, which is untidy and not wrong.
func lockTemp(f *os.File) {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return
	}
}

// sweep removes temporary files of path that killed writers left behind. What
// cannot be removed stays.
func sweep(path string, now time.Time) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, e := range entries {
		random, ours := strings.CutPrefix(e.Name(), "."+base)
		if !ours || random == "" || strings.Trim(random, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || now.Sub(info.ModTime()) < abandonedAfter {
			continue
		}
		removeAbandoned(filepath.Join(dir, e.Name()))
	}
}

// removeAbandoned removes the file unless a living process lockTemps it.
func removeAbandoned(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = os.Remove(path)
	}
}
