package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"aicplan/sink/atomic"
)

// Holder is who holds the run lock.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Command string    `json:"command"`
	RunID   string    `json:"run_id,omitempty"`
	// BootID and StartTicks tell a process from a later one with its pid.
	BootID     string `json:"boot_id,omitempty"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
}

// LockInfo is what a caller says about itself.
type LockInfo struct {
	Command string // "aicplan apply plans/quickstart.hcl"
	RunID   string
}

// LockedError names who holds the lock.
type LockedError struct {
	Dir string
	// Holder is nil when it could not be read.
	Holder *Holder
	// Elsewhere is true when the holder runs on another machine, so that
	// whether it is alive cannot be seen from here.
	Elsewhere bool
}

func (e *LockedError) Error() string {
	if e.Holder == nil {
		return fmt.Sprintf("state folder %s is in use by another aicplan: wait for it, or choose another folder with -state-dir", e.Dir)
	}
	h := e.Holder
	msg := fmt.Sprintf("state folder %s is in use by %q (pid %d on %s, since %s)", e.Dir, h.Command, h.PID, h.Host,
		h.Started.Local().Format("2006-01-02 15:04:05"))
	if e.Elsewhere {
		return msg + ": wait for it; if it is dead, remove its mark with: aicplan unlock"
	}
	return msg + ": wait for it, or end it"
}

// Unwrap lets errors.Is find ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// RunLock is the lock while it is held.
type RunLock struct {
	store *Store
	flock *flock.Flock // nil where the file system has no locks
}

// Lock takes the run lock, or fails at once with a *LockedError. A mark left
// by a process of this machine that is dead is taken over; one of another
// machine is not, since the lock of some network file systems does not reach
// beyond the machine: Unlock removes it.
func (s *Store) Lock(info LockInfo) (*RunLock, error) {
	if err := s.ensure(); err != nil {
		return nil, err
	}
	fl, holder, err := s.tryLock()
	if err != nil {
		return nil, err
	}
	if holder != nil {
		if alive, elsewhere := holder.state(fl != nil); alive || elsewhere {
			release(fl)
			return nil, &LockedError{Dir: s.dir, Holder: holder, Elsewhere: elsewhere}
		}
	}
	if err := s.writeHolder(self(info, s.now())); err != nil {
		release(fl)
		return nil, err
	}
	l := &RunLock{store: s, flock: fl}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = l
	return l, nil
}

// Release gives the lock back. Releasing twice is fine.
func (l *RunLock) Release() error {
	s := l.store
	s.mu.Lock()
	if s.held != l {
		s.mu.Unlock()
		return nil
	}
	s.held = nil
	s.mu.Unlock()
	err := s.files.Remove(s.path("lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		err = s.explain("remove", s.path("lock.json"), err)
	}
	return errors.Join(err, release(l.flock))
}

// Unlock removes the mark of a holder that is gone and returns it; nil when
// there was none. It refuses with a *LockedError while the holder is alive on
// this machine. Whether a holder on another machine is dead is for the caller
// to know.
func (s *Store) Unlock() (*Holder, error) {
	if s.readOnly {
		return nil, fmt.Errorf("state folder %s: %w", s.dir, ErrReadOnly)
	}
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	fl, holder, err := s.tryLock()
	if err != nil {
		return nil, err
	}
	defer release(fl)
	if holder == nil {
		return nil, nil
	}
	if alive, _ := holder.state(fl != nil); alive {
		return nil, &LockedError{Dir: s.dir, Holder: holder}
	}
	if err := s.files.Remove(s.path("lock.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.explain("remove", s.path("lock.json"), err)
	}
	return holder, nil
}

// Locked returns who holds the lock or left its mark; nil when nobody did. It
// changes nothing.
func (s *Store) Locked() (*Holder, error) { return s.readHolder() }

// tryLock takes the file lock and reads the mark. The lock is nil where the
// file system does not support locks: then the mark alone counts.
func (s *Store) tryLock() (*flock.Flock, *Holder, error) {
	fl := flock.New(s.path("lock"))
	ok, err := fl.TryLock()
	switch {
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, errors.ErrUnsupported):
		fl = nil
	case err != nil:
		return nil, nil, s.explain("lock", s.path("lock"), err)
	case !ok:
		holder, err := s.readHolder()
		if err != nil || (holder != nil && holder.here() && !holder.running()) {
			holder = nil // an old mark that the living holder has not replaced yet
		}
		return nil, nil, &LockedError{Dir: s.dir, Holder: holder}
	}
	holder, err := s.readHolder()
	if errors.Is(err, ErrCorrupt) {
		holder, err = nil, nil
	}
	if err != nil {
		release(fl)
		return nil, nil, err
	}
	return fl, holder, nil
}

func release(fl *flock.Flock) error {
	if fl == nil {
		return nil
	}
	return fl.Close()
}

func (s *Store) readHolder() (*Holder, error) {
	data, err := os.ReadFile(s.path("lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, atomic.Explain("read", s.path("lock.json"), err)
	}
	var h Holder
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, &CorruptError{Path: s.path("lock.json"), Detail: err.Error()}
	}
	return &h, nil
}

func (s *Store) writeHolder(h Holder) error {
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return s.writeFile(s.path("lock.json"), append(data, '\n'))
}

func self(info LockInfo, now time.Time) Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return Holder{
		PID: os.Getpid(), Host: host, Started: now.UTC().Truncate(time.Second), Command: info.Command, RunID: info.RunID,
		BootID: bootID(), StartTicks: startTicks(os.Getpid()),
	}
}

// here says whether the holder's mark was made on this machine, before or
// after its last boot. Containers have host names of their own, so the boot
// counts as well as the name.
func (h *Holder) here() bool {
	host, err := os.Hostname()
	return (err == nil && host == h.Host) || (h.BootID != "" && h.BootID == bootID())
}

// state judges the mark of a holder. With the file lock in our hands a holder
// of this machine is dead; without, its pid tells.
func (h *Holder) state(haveFileLock bool) (alive, elsewhere bool) {
	if !h.here() {
		return false, true
	}
	if haveFileLock || (h.BootID != "" && bootID() != "" && h.BootID != bootID()) {
		return false, false
	}
	return h.running(), false
}

// running says whether the holder's process exists on this machine.
func (h *Holder) running() bool {
	err := syscall.Kill(h.PID, 0)
	if err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	ticks := startTicks(h.PID)
	return ticks == 0 || h.StartTicks == 0 || ticks == h.StartTicks
}

// bootID identifies the running kernel; "" where it cannot be known.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// startTicks is when a process started, in clock ticks since boot; 0 where it
// cannot be known.
func startTicks(pid int) uint64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The command, in parentheses, may hold spaces; field 22 counts from it.
	_, rest, ok := strings.Cut(string(data[max(0, strings.LastIndexByte(string(data), ')')):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}
